/* The options and data that decide how a worker group trains, as names and texts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_SETTINGS_H
#define FEDWORKER_SETTINGS_H

#include "fedclient/apps/fedworker_options.h"

enum { FEDWORKER_SETTINGS = 9 };

typedef struct fedworker_setting {
    const char *name, *value;
} fedworker_setting;

/** A checkpoint has them as notes. Must stay in place: values point into it. */
typedef struct fedworker_settings {
    fedworker_setting row[FEDWORKER_SETTINGS];
    size_t count;
    fed_arch arch; /* of --model, for its text */
    char number[FEDWORKER_SETTINGS][32];
} fedworker_settings;

/** Free with fedworker_settings_free, also after a failure. Errors: those of fed_arch_load,
 * FED_ENOMEM */
fed_status fedworker_settings_make(const fedworker_options *o, const fed_optimizer *optimizer,
                                   const app_samples *samples, fedworker_settings *settings,
                                   fed_error *err) FED_CHECKED;
void fedworker_settings_free(fedworker_settings *settings);

/** FED_EINVAL: the checkpoint at `path` was made with another value of a setting.
 * Checkpoints of earlier releases lack some of the notes; these are not compared. */
fed_status fedworker_settings_fit(const fedworker_settings *settings, const char *path,
                                  const fed_checkpoint *file, fed_error *err) FED_CHECKED;

#endif

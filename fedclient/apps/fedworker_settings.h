/* The options and data that decide how a worker group trains, as names and texts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_SETTINGS_H
#define FEDWORKER_SETTINGS_H

#include "fedclient/apps/fedworker_choice.h"
#include "fedclient/apps/fedworker_options.h"
#include "feddc/control.h"

enum { FEDWORKER_SETTINGS = 9 };

typedef struct fedworker_setting {
    const char *name, *value;
} fedworker_setting;

/** A checkpoint has these settings as notes. The struct must stay in place, since values point into
 * it. */
typedef struct fedworker_settings {
    fedworker_setting row[FEDWORKER_SETTINGS];
    size_t count;
    fed_arch arch; /* the model of --model: the settings have its text */
    char number[FEDWORKER_SETTINGS][32];
    char text[FEDDC_SETTINGS]; /* for the failure detector; "": the worker group needs none */
} fedworker_settings;

/** Free with fedworker_settings_free, also after a failure. Errors: those of fed_arch_load,
 * FED_ENOMEM */
fed_status fedworker_settings_make(const fedworker_options *o, const fed_optimizer *optimizer,
                                   const app_samples *samples, fedworker_settings *settings,
                                   fed_error *err) FED_CHECKED;
/** Make the text, which all machines of a worker group must have in common: the settings above
 * except the data set's name, and other options, such as those of the exchange. Long values are
 * cut, and have a digest at their end. Errors: those of app_weights_init, FED_ENOSPC */
fed_status fedworker_settings_tell(const fedworker_options *o, const fedworker_choice *choice,
                                   fedworker_settings *settings, fed_error *err) FED_CHECKED;
void fedworker_settings_free(fedworker_settings *settings);

/** FED_EINVAL: the checkpoint at `path` was made with another value of a setting. A setting that
 * the checkpoint does not have, as in those of earlier releases, is not compared. */
fed_status fedworker_settings_fit(const fedworker_settings *settings, const char *path,
                                  const fed_checkpoint *file, fed_error *err) FED_CHECKED;

#endif

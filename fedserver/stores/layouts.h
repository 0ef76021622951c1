/* Errors about a store's layout: the version of its tables, which a release may change. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LAYOUTS_H
#define FEDSERVER_LAYOUTS_H

#include <stdint.h>

#include "fed/error.h"

/** A store with the tables of an older release. */
typedef struct fedserver_older {
    const char *place;
    const char *release;
    int64_t layout;
    int64_t needed;
    long holder; /* the process that serves the store; 0: none */
} fedserver_older;

/** Fail with FED_EVERSION. The sentence says how to upgrade the store. */
fed_status fedserver_layout_older(const fedserver_older *older, fed_error *err) FED_CHECKED;

/** Fail with FED_EVERSION: a newer release made the tables. known: the newest layout of this
 * program. */
fed_status fedserver_layout_newer(const char *place, int64_t layout, int64_t known,
                                  fed_error *err) FED_CHECKED;

/** Fail with FED_EVERSION: another release has changed the tables since this process opened them.
 * The process must not write any more, because it does not know what the tables mean now. */
fed_status fedserver_layout_changed(const char *place, fed_error *err) FED_CHECKED;

#endif

/* The command line of fednic. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_FEDNIC_OPTIONS_H
#define FEDCLIENT_APPS_FEDNIC_OPTIONS_H

#include "fednic/fednic.h"

typedef struct fednic_words {
    fednic_options nic;
    bool stats, prometheus;
    char control[160]; /* room for the default of --control */
} fednic_words;

/** Read argv into *words. words->nic.control may point to words->control, so *words must not be
 * copied. FED_EINVAL: the error's text says what is wrong. */
fed_status fednic_words_read(int argc, char **argv, fednic_words *words,
                             fed_error *err) FED_CHECKED;

#endif

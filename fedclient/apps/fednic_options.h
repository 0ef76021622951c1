/* The command line of fednic. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_FEDNIC_OPTIONS_H
#define FEDCLIENT_APPS_FEDNIC_OPTIONS_H

#include "fednic/fednic.h"

typedef struct fednic_words {
    fednic_options nic;
    bool stats, prometheus;
    char control[160]; /* the default of nic.control, made of --tun */
} fednic_words;

/** Read argv into *words, which nic.control may point into. FED_EINVAL: the sentence says what is
 * wrong. */
fed_status fednic_words_read(int argc, char **argv, fednic_words *words,
                             fed_error *err) FED_CHECKED;

#endif

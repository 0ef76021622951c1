/* The words that choose a worker group's link, collective, rule and codecs, and what they name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_CHOICE_H
#define FEDWORKER_CHOICE_H

#include "feddc/exchange.h"
#include "feddc/sync.h"

/** As on the command line; link and sync are needed. */
typedef struct fedworker_words {
    const char *link, *collective, *sync, *codec, *pull;
    const char *nic;     /* NULL: none */
    const char *backend; /* of the nets; the name of a device: gradients are there */
    uint32_t workers, late;
} fedworker_words;

typedef struct fedworker_choice {
    const feddc_link_vtable *link;
    const char *collective; /* a spec of libfeddc: "star" is one of fedworker's */
    feddc_sync sync;
    feddc_place place; /* of this process, where the system that started it knows; else size 0 */
    uint32_t workers, ranks; /* ranks: with the collective's aggregators */
} fedworker_choice;

/** FED_EINVAL: a word is wrong, or two of them do not fit; the sentence says which. Errors of the
 * link's find. */
fed_status fedworker_choose(const fedworker_words *words, fedworker_choice *choice,
                            fed_error *err) FED_CHECKED;

#endif

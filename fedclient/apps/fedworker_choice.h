/* The options that choose a worker group's link, collective, rule and codecs, and their values. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_CHOICE_H
#define FEDWORKER_CHOICE_H

#include "feddc/exchange.h"
#include "feddc/sync.h"

/** The options' values as on the command line. All but link and sync may be NULL. */
typedef struct fedworker_words {
    const char *link, *collective, *sync, *codec, *pull;
    const char *pull_as; /* --pull-as; NULL: not given */
    const char *nic;     /* --nic; NULL: not given */
    const char *backend; /* the nets' backend; a GPU's name: gradients are on this GPU */
    uint32_t workers, late;
} fedworker_words;

typedef struct fedworker_choice {
    const feddc_link_vtable *link;
    const char *collective; /* a spec as for feddc_exchange_options; never "star" */
    feddc_sync sync;
    bool at_owners;          /* --pull-as model */
    feddc_place place;       /* with mpi this process's place; else its size is 0 */
    uint32_t workers, ranks; /* ranks: workers and aggregators */
} fedworker_choice;

/** Find what the options name, and check that the options fit together. FED_EINVAL: the error's
 * text says which option is wrong or which two do not fit. Other errors: those of the link's
 * function `find`. */
fed_status fedworker_choose(const fedworker_words *words, fedworker_choice *choice,
                            fed_error *err) FED_CHECKED;

#endif

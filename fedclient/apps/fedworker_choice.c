/* Find the link, collective and rule that the command line names, before any worker starts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/fedworker_choice.h"

#include <string.h>

static fed_status find_link(const char *name, const feddc_link_vtable **link, fed_error *err) {
    *link = feddc_link_named(name);
    if (*link == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "there is no link \"%.60s\" in this build; there are threads, tcp, and mpi "
                        "where it was built with MPI",
                        name);
    }
    return FED_OK;
}

static fed_status count_ranks(const fedworker_words *words, uint32_t aggregators,
                              fedworker_choice *c, fed_error *err) {
    c->workers = words->workers;
    c->ranks = words->workers + aggregators;
    if (c->link->find == NULL) {
        return FED_OK;
    }
    FED_TRY(c->link->find(&c->place, err));
    c->ranks = c->place.size;
    if (aggregators >= c->ranks) {
        return fed_fail(err, FED_EINVAL,
                        "mpirun started %u ranks, too few for --collective %.60s: start more",
                        (unsigned)c->ranks, c->collective);
    }
    c->workers = c->ranks - aggregators;
    return FED_OK;
}

/* Return the collective to use if --collective is not given. It depends on ranks, codecs and
 * device. */
static const char *preset(const fedworker_words *words, uint32_t ranks) {
    const bool device = words->backend != NULL && fed_gpu_is_name(words->backend);
    return feddc_collective_preset(ranks, words->codec, words->pull, device);
}

static fed_status find_pull_as(const char *word, bool *at_owners, fed_error *err) {
    *at_owners = word != NULL && strcmp(word, "model") == 0;
    return *at_owners || word == NULL || strcmp(word, "sum") == 0
               ? FED_OK
               : fed_fail(err, FED_EINVAL, "--pull-as is sum or model, not \"%.60s\"", word);
}

fed_status fedworker_choose(const fedworker_words *words, fedworker_choice *choice,
                            fed_error *err) {
    uint32_t aggregators = 0;
    *choice = (fedworker_choice){.place.listener = -1};
    choice->collective = words->collective;
    if (words->collective != NULL && strcmp(words->collective, "star") == 0) {
        choice->collective = "owners:aggregators=1";
    }
    FED_TRY(feddc_sync_parse(words->sync, &choice->sync, err));
    FED_TRY(feddc_sync_takes(&choice->sync, words->codec, err));
    FED_TRY(feddc_sync_takes(&choice->sync, words->pull, err));
    FED_TRY(feddc_sync_takes(&choice->sync, words->nic, err));
    FED_TRY(find_pull_as(words->pull_as, &choice->at_owners, err));
    if (choice->collective != NULL) {
        FED_TRY(feddc_collective_aggregators(choice->collective, &aggregators, err));
    }
    FED_TRY(find_link(words->link, &choice->link, err));
    FED_TRY(count_ranks(words, aggregators, choice, err));
    if (choice->collective == NULL) {
        choice->collective = preset(words, choice->ranks);
    }
    static const feddc_owner some = {.weights = NULL};
    const feddc_exchange_options options = {.link = choice->link,
                                            .collective = choice->collective,
                                            .codec = words->codec,
                                            .pull = words->pull,
                                            .nic = words->nic,
                                            .late = words->late,
                                            .owner = choice->at_owners ? &some : NULL};
    return feddc_exchange_check(&options, choice->ranks, err);
}

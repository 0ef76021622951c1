/* Data of either kind: calls the functions for samples or for text. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fed/rng.h"

static bool names_text(const char *name) {
    size_t len = strcspn(name, ":");
    const char *known;
    for (size_t k = 0; (known = fedtrain_text_name(k)) != NULL; k++) {
        if (strlen(known) == len && strncmp(known, name, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Open a part of a text with the vocabulary of another part, `words`. The text then owns the
 * vocabulary. */
static fed_status open_by_words(const char *name, const char *directory, const char *part,
                                const char *words, fedtrain_text *text, fed_error *err) {
    fedtrain_text other;
    FED_TRY(fedtrain_text_open(name, directory, words, NULL, &other, err));
    fed_status status = fedtrain_text_open(name, directory, part, other.words, text, err);
    if (status == FED_OK) {
        text->own = other.own;
        other.own = NULL;
    }
    fedtrain_text_free(&other);
    return status;
}

fed_status fedtrain_data_open(const char *name, const char *directory, const char *part,
                              const char *words, fedtrain_data *data, fed_error *err) {
    fedtrain_data opened = {.is_text = names_text(name)};
    if (!opened.is_text) {
        FED_TRY(fedtrain_dataset_open(name, directory, part, &opened.set, err));
    } else if (strcmp(part, words) == 0) {
        FED_TRY(fedtrain_text_open(name, directory, part, NULL, &opened.text, err));
    } else {
        FED_TRY(open_by_words(name, directory, part, words, &opened.text, err));
    }
    *data = opened;
    return FED_OK;
}

void fedtrain_data_free(fedtrain_data *data) {
    fedtrain_dataset_free(&data->set);
    fedtrain_text_free(&data->text);
}

fed_status fedtrain_data_fits(const fedtrain_data *data, const fed_arch *arch, fed_error *err) {
    return data->is_text ? fedtrain_text_fits(&data->text, arch, err)
                         : fedtrain_dataset_fits(&data->set, arch, err);
}

fed_status fedtrain_data_split(const fedtrain_data *data, fedtrain_split split, uint32_t clients,
                               uint64_t seed, fedtrain_partition *partition, fed_error *err) {
    return data->is_text ? fedtrain_text_split(&data->text, split, clients, seed, partition, err)
                         : fedtrain_dataset_split(&data->set, split, clients, seed, partition, err);
}

static fed_status copy_shard(fedtrain_shard view, fedtrain_shard *own) {
    own->count = view.count;
    own->index = malloc(view.count * sizeof *own->index + 1);
    FED_REQUIRE(own->index != NULL, FED_ENOMEM);
    memcpy(own->index, view.index, view.count * sizeof *own->index);
    return FED_OK;
}

fed_status fedtrain_share_take(const fedtrain_data *data, const fedtrain_partition *partition,
                               uint32_t k, fedtrain_share *share, fed_error *err) {
    if (k >= partition->clients) {
        return fed_fail(err, FED_EINVAL,
                        "there is no client %" PRIu32 " among %" PRIu32
                        ": clients are numbered from 0",
                        k, partition->clients);
    }
    *share = (fedtrain_share){.token = NULL};
    fed_status status = copy_shard(fedtrain_partition_shard(partition, k), &share->shard);
    if (status == FED_OK && data->is_text) {
        status = fedtrain_text_join(&data->text, share->shard.index, share->shard.count,
                                    &share->token, &share->token_count);
    }
    if (status != FED_OK) {
        fedtrain_share_free(share);
        return fed_fail(err, status, "out of memory for the data of client %" PRIu32, k);
    }
    share->size = data->is_text ? share->token_count : share->shard.count;
    return FED_OK;
}

void fedtrain_share_free(fedtrain_share *share) {
    fedtrain_shard_free(&share->shard);
    free(share->token);
    *share = (fedtrain_share){.token = NULL};
}

/* The number of the stream of random numbers that only held samples use. */
static const uint32_t HOLD_STREAM = 0x686f6c64; /* "hold" */

/* Return how many samples, or tokens, are taken out of a share. */
static size_t held_of(const fedtrain_share *share, double fraction) {
    const size_t least = share->token != NULL ? 2 : 1;
    const size_t wanted = (size_t)(fraction * (double)share->size + 0.5);
    if (!(fraction > 0) || share->size < 2 * least) {
        return 0;
    }
    const size_t most = share->size - least;
    return wanted < least ? least : wanted < most ? wanted : most;
}

static int compare_places(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Move n samples of a shard, drawn at random, to `held`; those left keep their order. */
static fed_status hold_samples(fedtrain_shard *shard, size_t n, uint64_t seed, uint32_t *held) {
    uint32_t *place = malloc(shard->count * sizeof *place);
    FED_REQUIRE(place != NULL, FED_ENOMEM);
    fed_rng rng;
    fed_rng_init(&rng, seed, HOLD_STREAM, shard->index[0]);
    for (size_t i = 0; i < shard->count; i++) {
        place[i] = (uint32_t)i;
    }
    fed_rng_shuffle(&rng, place, shard->count);
    qsort(place, n, sizeof *place, compare_places);
    size_t left = 0, taken = 0;
    for (size_t i = 0; i < shard->count; i++) {
        if (taken < n && place[taken] == i) {
            held[taken++] = shard->index[i];
        } else {
            shard->index[left++] = shard->index[i];
        }
    }
    shard->count = left;
    free(place);
    return FED_OK;
}

fed_status fedtrain_share_hold(fedtrain_share *share, double fraction, uint64_t seed,
                               fedtrain_share *held, fed_error *err) {
    const size_t n = held_of(share, fraction);
    *held = (fedtrain_share){.token = NULL};
    if (n == 0) {
        return FED_OK;
    }
    uint32_t *taken = malloc(n * sizeof *taken);
    fed_status status = taken != NULL ? FED_OK : FED_ENOMEM;
    if (status == FED_OK && share->token != NULL) {
        share->token_count -= n;
        memcpy(taken, share->token + share->token_count, n * sizeof *taken);
    } else if (status == FED_OK) {
        status = hold_samples(&share->shard, n, seed, taken);
    }
    if (status != FED_OK) {
        free(taken);
        return fed_fail(err, status, "out of memory for %zu samples that are held back", n);
    }
    share->size -= n;
    held->size = n;
    if (share->token != NULL) {
        held->token = taken;
        held->token_count = n;
    } else {
        held->shard = (fedtrain_shard){.index = taken, .count = n};
    }
    return FED_OK;
}

fed_status fedtrain_share_score(fedtrain_net *net, size_t batch, const fedtrain_data *data,
                                const fedtrain_share *share, const float *params,
                                fedtrain_score *score, fed_error *err) {
    return share->token != NULL
               ? fedtrain_evaluate_text(net, batch, share->token, share->token_count, params, score,
                                        err)
               : fedtrain_evaluate_shard(net, batch, &data->set, &share->shard, params, score, err);
}

void fedtrain_job_use(fedtrain_job *job, const fedtrain_data *data, const fedtrain_share *share) {
    job->set = &data->set;
    job->shard = &share->shard;
    job->token = share->token;
    job->token_count = share->token_count;
}

fed_status fedtrain_data_score(fedtrain_net *net, size_t batch, const fedtrain_data *data,
                               const float *params, fedtrain_score *score, fed_error *err) {
    return data->is_text ? fedtrain_evaluate_text(net, batch, data->text.token, data->text.count,
                                                  params, score, err)
                         : fedtrain_evaluate(net, batch, &data->set, params, score, err);
}

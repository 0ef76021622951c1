/* The sum of a round's updates: exact integers, so that no order and no restart changes a bit. */
#ifndef FEDSERVER_AGGREGATE_H
#define FEDSERVER_AGGREGATE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/model.h"
#include "fed/wire.h"
#include "fedserver/rounds/shares.h"
#include "fedserver/strategies/strategy.h"

typedef struct fedserver_sum {
    int64_t *acc;   /* [size]: sum of count * rint(value * 2^30); NULL where the strategy needs all
                       updates at once: then they are only counted */
    float *decoded; /* [size]: an update's values; NULL where the sum takes them as they come */
    size_t size, trained;
    double clip_norm;        /* 0: none */
    fedserver_claim *claims; /* [updates], in the order of arrival */
    uint32_t updates, cap;
    uint64_t samples;
    uint64_t weight; /* of all claims; once it reaches FEDCODEC_FOLD_WEIGHT acc is not the sum any
                        more, and the commit folds anew. Settled: what acc is divided by */
    uint64_t bytes;  /* of the updates' bodies */
} fedserver_sum;

/** An empty sum. Owner: fedserver_sum_free. */
fed_status fedserver_sum_init(fedserver_sum *sum, const fed_layout *layout,
                              const fedserver_strategy *strategy) FED_CHECKED;
void fedserver_sum_free(fedserver_sum *sum);
void fedserver_sum_clear(fedserver_sum *sum);

/** The body of POST /v1/update taken apart; the envelope lies in the body's bytes. */
typedef struct fedserver_update {
    fed_update head;
    const uint8_t *envelope;
    size_t envelope_len;
    size_t body_len;
} fedserver_update;

fed_status fedserver_update_read(const uint8_t *body, size_t len,
                                 fedserver_update *update) FED_CHECKED;

/** Bytes of an update's head. */
size_t fedserver_update_head_size(void);

/** A loss whose magnitude is above this is taken for a device's error. */
#define FEDSERVER_LOSS_LIMIT 1e12f

/** FED_ERANGE, with a sentence, where what an update's head says can't be. */
fed_status fedserver_update_check(const fed_update *head, fed_error *err) FED_CHECKED;

/** Add one, which claims weight * samples. weight: of its age (fedserver_round_weight). On an error
 * (bytes that are no envelope of this layout, a value out of range) the sum is as it was. */
fed_status fedserver_sum_add(fedserver_sum *sum, const fed_layout *layout,
                             const fedserver_update *update, int64_t device, uint32_t weight,
                             fed_error *err) FED_CHECKED;

/** All updates of the round are in, one at least: settle what each counts for. Where that is not
 * what it claimed, and the strategy does without all at once, *refold is set and the sum is 0:
 * fedserver_sum_refold each of them then, in the order of arrival. */
fed_status fedserver_sum_settle(fedserver_sum *sum, double most, fedserver_shares *shares,
                                bool *refold, fed_error *err) FED_CHECKED;
fed_status fedserver_sum_refold(fedserver_sum *sum, const fed_layout *layout, uint32_t number,
                                const fedserver_update *update, fed_error *err) FED_CHECKED;

/** mean[i] = acc[i] / (2^30 * weight), rounded once to float32. The sum is settled, and the
 * strategy does without all at once. */
void fedserver_sum_mean(const fedserver_sum *sum, float *mean);

/** An update's values into sum->decoded, clipped as the strategy says; the same bits from the same
 * bytes. For a sum that has it. */
fed_status fedserver_sum_decode(const fedserver_sum *sum, const fed_layout *layout,
                                const fedserver_update *update, fed_error *err) FED_CHECKED;

#endif

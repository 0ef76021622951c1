/* A coder: a codec for the shards of a plan, with the codec's residual; on host or GPU. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_CODER_H
#define FEDDC_CODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedclient/datacenter/gpu_values.h"
#include "fedclient/datacenter/plan.h"
#include "fedcodec/codec.h"
#include "feddc/exchange.h"

/* If all slices of a shard are float32, the shard's message is the values in host byte order; the
 * link's handshake checks that all ranks have the same order. Otherwise the message has a u32
 * length for each slice, and the codec's bytes or, for a plain slice, float32 values. Both sides
 * know the form from plan, codec and `plain`. Each value is encoded at most once a step, so one
 * residual for each value is enough. */
typedef struct feddc_coder feddc_coder;

/** Return whether messages of this shard are float32 values, which no codec changes. */
bool feddc_coder_is_raw(const feddc_coder *coder, const feddc_shard *shard, bool plain);

/** Return whether the shard's messages are raw and in host memory. Then a send can read the
 * values themselves, and a received sum can be used where the link has put it. */
bool feddc_coder_lends(const feddc_coder *coder, const feddc_shard *shard, bool plain);

/** Make a coder; plan and values must outlive it. x, y and the residual lie in the memory of
 * `values` (host or GPU); messages are bytes in host memory. Errors: FED_EINVAL the spec is wrong;
 * FED_ENOTFOUND the GPU has not got this codec; FED_ENOMEM; FED_EIO */
fed_status feddc_coder_new(const char *spec, const feddc_plan *plan, const feddc_values *values,
                           feddc_coder **coder, fed_error *err) FED_CHECKED;
void feddc_coder_free(feddc_coder *coder);

bool feddc_coder_is_exact(const feddc_coder *coder);

const fedcodec *feddc_coder_codec(const feddc_coder *coder);

/** The most bytes of a message of this shard that is not `plain`; on a GPU, also of a plain one. */
size_t feddc_coder_bound(const feddc_coder *coder, const feddc_shard *shard);

/** Encode x, float32[shard->n], with the residual of these values. A raw message is a copy of x.
 * Errors: FED_ENONFINITE a gradient that is not finite; FED_EIO */
fed_status feddc_coder_encode(feddc_coder *coder, const feddc_shard *shard, bool plain,
                              const float *x, uint8_t *dst, size_t *len,
                              fed_error *err) FED_CHECKED;

/** Decode a message, raw or coded: y = its values, or y += its values, y float32[shard->n].
 * FED_EFORMAT: the bytes are no message for this shard; y may be partly changed. */
fed_status feddc_coder_decode(feddc_coder *coder, const feddc_shard *shard, bool plain,
                              const uint8_t *src, size_t len, float *y, fed_error *err) FED_CHECKED;
fed_status feddc_coder_add(feddc_coder *coder, const feddc_shard *shard, bool plain,
                           const uint8_t *src, size_t len, float *y, fed_error *err) FED_CHECKED;

/** An owner's pull, as feddc/exchange.h's feddc_owner describes it. Encode the change from replica
 * to weights, float32[shard->n] each; slices that travel as float32 are the weights. `room`:
 * float32[shard->n] to work in. The residual is not used. */
fed_status feddc_coder_encode_change(feddc_coder *coder, const feddc_shard *shard,
                                     const float *weights, const float *replica, float *room,
                                     uint8_t *dst, size_t *len, fed_error *err) FED_CHECKED;

/** Add such a message to the replica, float32[shard->n]. Errors as of feddc_coder_add */
fed_status feddc_coder_follow(feddc_coder *coder, const feddc_shard *shard, const uint8_t *src,
                              size_t len, float *replica, fed_error *err) FED_CHECKED;

/** Take back a coded message that the owner did not add: residual += the message's values. Only for
 * a codec with a residual. */
fed_status feddc_coder_take_back(feddc_coder *coder, const feddc_shard *shard, const uint8_t *src,
                                 size_t len, fed_error *err) FED_CHECKED;

bool feddc_coder_has_residual(const feddc_coder *coder);

/** Copy the residual, if there is one, to float32[plan->n] on the host, or back. Callable from any
 * thread while no other call changes the residual. Errors: FED_ENOMEM, FED_EIO */
fed_status feddc_coder_save(const feddc_coder *coder, float *residual, fed_error *err) FED_CHECKED;
fed_status feddc_coder_restore(feddc_coder *coder, const float *residual,
                               fed_error *err) FED_CHECKED;

/** For a codec without a residual: of `coded` values, `zeroed` became 0. Only some messages
 * count. */
typedef struct feddc_coder_counts {
    uint64_t zeroed, coded;
    uint64_t spread[FEDDC_SPREAD]; /* how large these values were, as in feddc_exchange_counts */
} feddc_coder_counts;

/** Count the magnitudes of x[n] in the host's memory. */
void feddc_spread_add(uint64_t spread[FEDDC_SPREAD], const float *x, size_t n);

const feddc_coder_counts *feddc_coder_count(const feddc_coder *coder);

#endif

/* A coder: a codec for the shards of a plan, with a residual for each value; on host or GPU. */
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

/*
 * The message of a shard: if all of its slices are float32, their values, in host order (all ranks
 * are of one kind: the link's handshake checks it). Else each slice, as u32 length and the codec's
 * bytes; a plain slice has its values as they are. Which of both it is, sender and receiver know
 * from plan, codec and `plain`.
 *
 * Invariant: each value is encoded at most once a step, so one residual a value does.
 */
typedef struct feddc_coder feddc_coder;

/** The codec's own pass over a shard does not lose anything, and messages are the values as they
 * are. */
bool feddc_coder_is_raw(const feddc_coder *coder, const feddc_shard *shard, bool plain);

/** Raw, and in host memory: the values are sent where they lie, and used where they came. */
bool feddc_coder_lends(const feddc_coder *coder, const feddc_shard *shard, bool plain);

/** plan and values must outlive the coder: x, y and the residual are values, messages are bytes of
 * the host. Errors: FED_EINVAL the spec; FED_ENOTFOUND the GPU has not got this codec; FED_ENOMEM;
 * FED_EIO */
fed_status feddc_coder_new(const char *spec, const feddc_plan *plan, const feddc_values *values,
                           feddc_coder **coder, fed_error *err) FED_CHECKED;
void feddc_coder_free(feddc_coder *coder);

/** The codec is float32. */
bool feddc_coder_is_exact(const feddc_coder *coder);

const fedcodec *feddc_coder_codec(const feddc_coder *coder);

/** Most bytes of a message of this shard that is not lent. */
size_t feddc_coder_bound(const feddc_coder *coder, const feddc_shard *shard);

/** Encode x, float32 of the shard, with the residual of these values; raw messages as they are.
 * Errors: FED_ENONFINITE a gradient that is not finite; FED_EIO */
fed_status feddc_coder_encode(feddc_coder *coder, const feddc_shard *shard, bool plain,
                              const float *x, uint8_t *dst, size_t *len,
                              fed_error *err) FED_CHECKED;

/** y = what a message says, or y += it; float32 of the shard. Any message, raw ones too.
 * FED_EFORMAT: it is no message for this shard; y may be partly changed. */
fed_status feddc_coder_decode(feddc_coder *coder, const feddc_shard *shard, bool plain,
                              const uint8_t *src, size_t len, float *y, fed_error *err) FED_CHECKED;
fed_status feddc_coder_add(feddc_coder *coder, const feddc_shard *shard, bool plain,
                           const uint8_t *src, size_t len, float *y, fed_error *err) FED_CHECKED;

/** A coded message that was not counted goes back: residual += decoded. For a codec with a
 * residual.
 */
fed_status feddc_coder_take_back(feddc_coder *coder, const feddc_shard *shard, const uint8_t *src,
                                 size_t len, fed_error *err) FED_CHECKED;

bool feddc_coder_has_residual(const feddc_coder *coder);

/** The residual, if there is one, to float32[plan->n] of the host, and back. Any thread, while
 * nothing is encoded. Errors: FED_ENOMEM, FED_EIO */
fed_status feddc_coder_save(const feddc_coder *coder, float *residual, fed_error *err) FED_CHECKED;
fed_status feddc_coder_restore(feddc_coder *coder, const float *residual,
                               fed_error *err) FED_CHECKED;

/** Of a codec without a residual: values that it made 0 while they were not, of how many. Some of
 * the messages are looked at. */
typedef struct feddc_coder_counts {
    uint64_t zeroed, coded;
} feddc_coder_counts;

const feddc_coder_counts *feddc_coder_count(const feddc_coder *coder);

#endif

/* Patches: what turns one version of a model into another, to the bit. */
#ifndef FEDCODEC_PATCH_H
#define FEDCODEC_PATCH_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/error.h"

FED_API_BEGIN

/*
 * A delta is what a round changed, and versions follow from each other by float additions. A patch
 * is not made of deltas: it has the differences between the values' bits, so it can lead from any
 * version to any other, and costs what has changed, in whatever steps. From all values +0 it leads
 * to a whole model: a snapshot, without loss and shorter than its values.
 *
 * Values are taken as one array, in blocks of FEDCODEC_PATCH_BLOCK. Bytes:
 * docs/codec-formats.md#patch. The same values give the same bytes on every machine.
 */
enum { FEDCODEC_PATCH_BLOCK = 1 << 16 };

/** Most bytes of a patch of n values. */
size_t fedcodec_patch_bound(size_t n);

/**
 * Append what turns `from` into `to`, float32[n] each; from NULL: all +0.
 * Errors: FED_ENONFINITE in `to`; FED_ENOMEM, also for a block's numbers; what the writer says if
 * it has not fedcodec_patch_bound bytes of room. Nothing is appended then.
 */
fed_status fedcodec_patch_write(const float *from, const float *to, size_t n,
                                fed_writer *out) FED_CHECKED;

/**
 * Turn values[n] into what they were to become. src is not trusted, and what it is to be applied to
 * is for the caller to know: a digest of the result tells. On FED_EFORMAT values is arbitrary.
 */
fed_status fedcodec_patch_apply(const uint8_t *src, size_t len, float *values,
                                size_t n) FED_CHECKED;

FED_API_END

#endif

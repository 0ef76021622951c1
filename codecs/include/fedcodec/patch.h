/* Patches: they turn one version of a model into another, to the bit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PATCH_H
#define FEDCODEC_PATCH_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/error.h"

FED_API_BEGIN

/*
 * A delta is what one round changed: a device adds it to its version to get the next one. A patch
 * is not made of deltas. It holds the differences between the bits of two versions' values, so it
 * can lead from any version to any other. Its size depends on what has changed, not on the number
 * of rounds. A patch from values that are all +0 is a snapshot: a whole model, without loss and
 * shorter than its values.
 *
 * The values are one array, which is coded in blocks of FEDCODEC_PATCH_BLOCK. The bytes are
 * specified in docs/codec-formats.md#patch. The same values give the same bytes on every machine.
 */
enum { FEDCODEC_PATCH_BLOCK = 1 << 16 };

/** Return the most bytes of a patch of n values. */
size_t fedcodec_patch_bound(size_t n);

/**
 * Append the patch that turns the values from[n] into to[n]. from NULL stands for values that are
 * all +0. Errors: FED_ENONFINITE if a value of to[] is not finite; FED_ENOMEM; the writer's own
 * errors, if it has less than fedcodec_patch_bound bytes of room. An error appends nothing.
 */
fed_status fedcodec_patch_write(const float *from, const float *to, size_t n,
                                fed_writer *out) FED_CHECKED;

/**
 * Apply a patch to values[n]. src is not trusted. A patch does not name its versions, so compare
 * a digest of the result with the wanted one. FED_EFORMAT leaves values arbitrary.
 */
fed_status fedcodec_patch_apply(const uint8_t *src, size_t len, float *values,
                                size_t n) FED_CHECKED;

FED_API_END

#endif

/* Gradient codecs: compress one float32 tensor to few bytes and back, with error feedback. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_CODEC_H
#define FEDCODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/params.h"
#include "fed/pool.h"

FED_API_BEGIN

/*
 * To compress a gradient of n values, and to add it to another buffer elsewhere:
 *
 *     fedcodec codec;
 *     fedcodec_parse("sbc:p=0.01", &codec, &err);
 *     size_t cap = fedcodec_bound(&codec, n), len;
 *     uint8_t *message = malloc(cap);
 *     void *work = malloc(fedcodec_work_size(&codec, n));
 *     fedcodec_encode(&codec, residual, gradient, n, work, message, cap, &len);
 *     ...
 *     fedcodec_axpy(codec.vtable, message, len, 1.0f, sum, n);
 *
 * residual is n zeros at first. It keeps what the messages have left out, and the next message
 * makes up for it. codecs/README.md has the program in full; fedcodec/envelope.h compresses all
 * tensors of a model into one message; fedcodec/codec_vtable.h is for authors of codecs.
 *
 * Memory is the caller's: nothing here allocates, keeps a pointer, prints, or has a global.
 */

/* -- Choose a codec -- */

enum { FEDCODEC_PARAMS = 8, FEDCODEC_SPEC = 64 };

/** One parameter of a codec. */
typedef fed_param fedcodec_param;

/** A codec's definition, without its parameters' values: fedcodec/codec_vtable.h. */
typedef struct fedcodec_vtable fedcodec_vtable;

/** A codec with its parameters: what a spec string means. Plain data, copy it freely. */
typedef struct fedcodec {
    const fedcodec_vtable *vtable;
    double param[FEDCODEC_PARAMS]; /* in the order of vtable->params */
    uint8_t stage;                 /* id of the envelope's second stage; 0: none */

    /* Members that fedcodec_parse sets to NULL and false. A caller may set them afterwards. */
    /* the codec of a layout's control variates, in an envelope; NULL: float32 */
    const struct fedcodec *variates;
    const fed_pool *pool; /* NULL, or a thread pool for parts of a large tensor; same result */
    bool unguarded;       /* FED_ENONFINITE may leave a wrong residual; saves a pass over x */
} fedcodec;

/**
 * Parse a spec string. A config, a task, a report and the command line use the same strings:
 *
 *     float32   sbc:p=0.01   3lc:s=1.75   3lc:s=1.75+entropy
 *
 * A spec is the codec's name; then ':' and key=value pairs with commas between them. A key that is
 * left out has its default. A second stage may follow after a '+': "runs", "entropy", or "zstd" if
 * the library was built with libzstd. An envelope packs the codec's messages with it once more,
 * without loss. Codecs and their formats are in docs/codec-formats.md.
 *
 * FED_EINVAL: *err names the wrong word and what is allowed (the names of codecs, a codec's keys,
 * a parameter's range).
 */
fed_status fedcodec_parse(const char *spec, fedcodec *codec, fed_error *err) FED_CHECKED;

/** Parse the specs of a task: codec[0] is that of the values. codec[0].variates points to codec[1],
 * that of the control variates, or is NULL if `variates` is "". Errors: as fedcodec_parse. */
fed_status fedcodec_parse_pair(const char *spec, const char *variates, fedcodec codec[2],
                               fed_error *err) FED_CHECKED;

/** Write the canonical spec of a codec. It has every parameter that is a number: "sbc:p=0.01". A
 * parameter whose value is a word, or that is newer than its codec, is there only if it is not the
 * default: "sbc:p=0.01,pos=auto".
 * dst has room for FEDCODEC_SPEC characters. */
void fedcodec_format(const fedcodec *codec, char *dst);

/* -- Compress -- */

/** Return the most bytes that fedcodec_encode writes for n values, and the work memory it needs in
 * bytes. */
size_t fedcodec_bound(const fedcodec *codec, size_t n);
size_t fedcodec_work_size(const fedcodec *codec, size_t n);

/**
 * Compress one tensor and keep in the residual what the message leaves out:
 *
 *     residual += x (unless x is NULL);  y = Q(residual);  residual -= y;  y as bytes -> dst
 *
 * in float32 arithmetic, so that residual_after == residual_before + x - decoded, operation by
 * operation. A codec without feedback loses what it leaves out: residual_after == 0.
 *
 * residual  float32[n], zeros at first; the caller keeps it from one call to the next. NULL stands
 *           for zeros: what the message leaves out is lost, and the call is faster. Codecs for
 *           which fedcodec_needs_residual is true do not take NULL
 * x         float32[n], only read; NULL: nothing is added
 * work      fedcodec_work_size bytes, aligned for any type; NULL if that is 0
 * cap       size of dst in bytes; *len becomes the length of the message
 *
 * The message is the codec's own. A second stage is applied by the envelope, which records for
 * each frame whether the stage made it shorter.
 *
 * Errors
 * FED_ENOSPC      cap is less than fedcodec_bound; nothing changes
 * FED_EINVAL      a parameter or n is out of range, or a pointer is NULL that may not be; nothing
 *                 changes
 * FED_ENONFINITE  residual + x has a NaN or an infinity. Nothing changes if the residual was finite
 *                 and codec->unguarded is false; else the residual may be spoilt
 */
fed_status fedcodec_encode(const fedcodec *codec, float *residual, const float *x, size_t n,
                           void *work, uint8_t *dst, size_t cap, size_t *len) FED_CHECKED;

/* -- Read: src is not trusted; FED_EFORMAT leaves the output untouched -- */

/** y[i] = decoded[i]. */
fed_status fedcodec_decode(const fedcodec_vtable *codec, const uint8_t *src, size_t len, float *y,
                           size_t n) FED_CHECKED;

/** y[i] += w * decoded[i]. */
fed_status fedcodec_axpy(const fedcodec_vtable *codec, const uint8_t *src, size_t len, float w,
                         float *y, size_t n) FED_CHECKED;

/** fedcodec_fold multiplies values by 2 to this power. */
#define FEDCODEC_FOLD_BITS 30
/** fedcodec_fold refuses values of a larger magnitude. */
#define FEDCODEC_FOLD_LIMIT 16.0f
/** fedcodec_fold refuses this weight and larger ones. While the sum of all weights is below it,
 * the accumulator can't overflow. */
#define FEDCODEC_FOLD_WEIGHT (INT64_C(1) << 29)

/** acc[i] += weight * rint(decoded[i] * 2^30): exact, so the order of messages does not matter.
 * FED_ERANGE: a value past FEDCODEC_FOLD_LIMIT, a weight outside 1 .. FEDCODEC_FOLD_WEIGHT - 1. */
fed_status fedcodec_fold(const fedcodec_vtable *codec, const uint8_t *src, size_t len,
                         int64_t weight, int64_t *acc, size_t n) FED_CHECKED;

/* -- Which codecs there are -- */

/** Return the k-th codec of codecs.def, or NULL past the last. */
const fedcodec_vtable *fedcodec_at(size_t k);

/** Return the codec with this permanent id, or NULL. */
const fedcodec_vtable *fedcodec_by_id(uint8_t id);

/** Return the codec's name in a spec, such as "3lc". */
const char *fedcodec_name(const fedcodec_vtable *codec);

/** Does the codec's residual keep what a message leaves out? */
bool fedcodec_has_feedback(const fedcodec_vtable *codec);

/** Does encode compute in the residual, so that the residual can't be NULL? */
bool fedcodec_needs_residual(const fedcodec_vtable *codec);

/** Return by how much a codec such as eden makes values longer, so that the mean of many messages
 * is right; 1 for the others. Where a residual outside the codec keeps what a message leaves out,
 * values are divided by the square of it before they are encoded: so is what arrives nearer to
 * them than zeros are. */
double fedcodec_stretch(const fedcodec *codec);

/** Return a second stage's name, such as "runs"; "" for 0, "?" if this build lacks it. */
const char *fedcodec_stage_name(uint8_t stage);

FED_API_END

#endif

/* Gradient codecs: one tensor of float32 values to bytes and back, with error feedback. */
#ifndef FEDCODEC_CODEC_H
#define FEDCODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/params.h"
#include "fed/pool.h"

/*
 * A codec is chosen by a spec string, the same in a config, a task, a report and on the command
 * line:
 *
 *     float32     sbc:p=0.01     3lc:s=1.75     3lc:s=1.75+runs
 *
 * name, then ':' and comma-separated key=value pairs; what is left out has its default; then '+'
 * and a second stage, if an envelope shall pack the codec's messages once more, without loss:
 * "runs", or "zstd" where the library was there when this one was built. Formats are
 * in docs/codec-formats.md; codecs.def lists the codecs with their permanent ids.
 */

enum { FEDCODEC_PARAMS = 4, FEDCODEC_SPEC = 64 };

/** One parameter of a codec. */
typedef fed_param fedcodec_param;

typedef struct fedcodec_vtable fedcodec_vtable;

/** A codec with its parameters: what a spec string means. Plain data, copy it freely. */
typedef struct fedcodec {
    const fedcodec_vtable *vtable;
    double param[FEDCODEC_PARAMS]; /* in the order of vtable->params */
    uint8_t stage;                 /* second stage of an envelope's frames: 0 none, else its id */
    const fed_pool *pool; /* NULL, or what encodes large tensors in parts, to the same bytes: set it
                           * after fedcodec_parse, for instance to fed_threads_pool's */
    bool unguarded; /* true: an encode that FED_ENONFINITE ends may lose the residual, which saves a
                     * pass over the input. For residuals that are copies. Set like pool */
} fedcodec;

/** Scale of fedcodec_fold: acc += weight * rint(y * 2^30). */
#define FEDCODEC_FOLD_BITS 30
/** fedcodec_fold refuses values whose magnitude is past this: 2^4. */
#define FEDCODEC_FOLD_LIMIT 16.0f
/** And weights from this on: with every weight sum under 2^29 the accumulator can't overflow. */
#define FEDCODEC_FOLD_WEIGHT (INT64_C(1) << 29)

/** One tensor to encode: what fedcodec_encode was given, once it is known to be good. */
typedef struct fedcodec_job {
    const double *param; /* in range */
    float *residual;     /* float32[n]; NULL for a codec without feedback */
    const float *x;      /* float32[n]; NULL for nothing, with feedback only */
    size_t n;
    bool scanned; /* scan or absorb has found all sums finite */
    float max;    /* what scan or absorb found, finite; 0 where neither was called */
    void *work;   /* work_size bytes, aligned for any type, content arbitrary */
    uint8_t *dst; /* bound bytes at least */
    size_t cap;
    const fed_pool *pool; /* NULL for none */
} fedcodec_job;

/**
 * What a codec's folder provides. Callers use the functions below, which check what is promised
 * here. n is the tensor's number of values, 0 to 2^32 - 1; to 2^27 - 1 on a 32-bit machine.
 */
struct fedcodec_vtable {
    uint8_t id;                   /* codecs.def */
    const char *name;             /* "3lc" */
    const char *about;            /* one line for `fedcodec list` */
    const fedcodec_param *params; /* ends with a NULL key */
    bool feedback; /* residual keeps what was not sent; false: it is lost, and residual is 0 */

    /** Most bytes that encode can write for n values. */
    size_t (*bound)(const double *param, size_t n);

    /** Bytes of work memory that encode needs. NULL: none. */
    size_t (*work_size)(const double *param, size_t n);

    /** Before anything changes: not finite where residual + x is not (x may be NULL); else what
     * encode wants to know of it. fedcodec_scan_sum or fedcodec_scan_added. */
    float (*scan)(const float *residual, const float *x, size_t n);

    /** Instead of it, where the residual is unguarded: residual += x, and the largest magnitude of
     * that. NULL: encode does not want to know it. */
    float (*absorb)(float *residual, const float *x, size_t n);

    /**
     * residual += x; y = Q(residual); residual -= y; write y as bytes. Without feedback just
     * y = Q(x). No allocation; no other failures but FED_EINVAL, before anything has changed, and
     * FED_ENONFINITE where residual + x is not finite, which a scan or absorb has not ruled out:
     * then the residual is lost.
     */
    fed_status (*encode)(const fedcodec_job *job, size_t *len);

    /** FED_OK exactly when src[len] is a message that encode could have made from n values; else
     * FED_EFORMAT. Reads nothing past len. *max_abs = the largest magnitude that it decodes to. */
    fed_status (*check)(const uint8_t *src, size_t len, size_t n, float *max_abs);

    /** y[i] = decoded[i], float32[n], to the bit. Like all below: only after check said yes. */
    void (*decode)(const uint8_t *src, size_t len, float *y, size_t n);

    /** y[i] += w * decoded[i], float32[n]; where decoded[i] is 0, y[i] may be left alone. Costs
     * what the message holds, not n. */
    void (*axpy)(const uint8_t *src, size_t len, float w, float *y, size_t n);

    /** acc[i] += weight * rint(decoded[i] * 2^30), int64[n]: exact, so the order of messages does
     * not matter. */
    void (*fold)(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n);

    /** The sum of decoded[i]^2, where that costs less than to decode. NULL: it does not. */
    double (*squares)(const uint8_t *src, size_t len, size_t n);
};

/** The k-th codec of codecs.def, or NULL past the last. */
const fedcodec_vtable *fedcodec_at(size_t k);

/** The codec with that permanent id, or NULL. */
const fedcodec_vtable *fedcodec_by_id(uint8_t id);

/**
 * Understand a spec string. Errors: FED_EINVAL, with a sentence that names the word that is wrong
 * and what would be right (the codecs there are, a codec's keys, a parameter's range).
 */
fed_status fedcodec_parse(const char *spec, fedcodec *codec, fed_error *err) FED_CHECKED;

/** "runs"; "" for 0, "?" for a stage that this build lacks. */
const char *fedcodec_stage_name(uint8_t stage);

/** The canonical spec of a codec, each parameter named: "sbc:p=0.01"; one whose value is a word
 * only where that is not its preset: "sbc:p=0.01,pos=auto". dst holds FEDCODEC_SPEC characters. */
void fedcodec_format(const fedcodec *codec, char *dst);

/** Most bytes that fedcodec_encode can write for n values, and the work memory that it needs. */
size_t fedcodec_bound(const fedcodec *codec, size_t n);
size_t fedcodec_work_size(const fedcodec *codec, size_t n);

/**
 * Compress one tensor and remember what was lost. What is written is the codec's own message:
 * second stages are the envelope's, which says for each tensor whether its stage was worth it.
 *
 *     residual += x (unless x is NULL);  y = Q(residual);  residual -= y;  y as bytes -> dst
 *
 * in float32 arithmetic, so that residual_after == residual_before + x - decoded, operation by
 * operation; without vtable->feedback, residual_after == 0 and the rest is lost.
 *
 * residual  float32[n], zero at first; the caller keeps it from one call to the next. NULL will do
 *           for a codec without vtable->feedback, and is faster
 * x         float32[n], or NULL for nothing
 * work      fedcodec_work_size bytes, aligned for any type; NULL if that is 0
 * cap       of dst, in bytes, like *len
 *
 * The caller owns everything; nothing is kept.
 *
 * Errors: FED_ENOSPC cap < bound; FED_ENONFINITE NaN or infinity in x, or in residual + x;
 * FED_EINVAL a parameter out of range. On an error nothing is changed; but a residual that was not
 * finite before, which no encode leaves behind, is lost, as is with FED_ENONFINITE one that is
 * unguarded.
 */
fed_status fedcodec_encode(const fedcodec *codec, float *residual, const float *x, size_t n,
                           void *work, uint8_t *dst, size_t cap, size_t *len) FED_CHECKED;

/** y[i] = decoded[i]. src is not trusted: on FED_EFORMAT y is untouched. */
fed_status fedcodec_decode(const fedcodec_vtable *codec, const uint8_t *src, size_t len, float *y,
                           size_t n) FED_CHECKED;

/** y[i] += w * decoded[i]; likewise. */
fed_status fedcodec_axpy(const fedcodec_vtable *codec, const uint8_t *src, size_t len, float w,
                         float *y, size_t n) FED_CHECKED;

/** acc[i] += weight * rint(decoded[i] * 2^30); likewise. FED_ERANGE: a value past
 * FEDCODEC_FOLD_LIMIT, a weight outside 1 .. FEDCODEC_FOLD_WEIGHT - 1. */
fed_status fedcodec_fold(const fedcodec_vtable *codec, const uint8_t *src, size_t len,
                         int64_t weight, int64_t *acc, size_t n) FED_CHECKED;

#endif

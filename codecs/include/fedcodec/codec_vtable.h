/* The definition that a codec's folder provides, for authors of codecs. Callers need
 * fedcodec/codec.h alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_CODEC_VTABLE_H
#define FEDCODEC_CODEC_VTABLE_H

#include "fed/api.h"
#include "fedcodec/codec.h"

FED_API_BEGIN

/*
 * A codec is a folder, codecs/NAME/NAME.c, which defines one struct, and a line of codecs.def:
 *
 *     const fedcodec_vtable FEDCODEC_VTABLE(NAME) = {
 *         .id = FEDCODEC_ID_NAME, .name = "name", .about = "...", .params = params,
 *         .bound = bound, .scan = fedcodec_scan_sum, .encode = encode,
 *         .check = check, .decode = decode, .axpy = axpy, .fold = fold,
 *     };
 *
 * codecs/identity/identity.c is a short example. docs/adding.md has the steps.
 * contract.test_codecs and contract.test_codec_messages check the promises of this file for each
 * codec of the table. The functions are called through fedcodec/codec.h, which checks arguments
 * first.
 *
 * n is the tensor's number of values: 0 to 2^32 - 1; on a 32-bit machine 0 to 2^27 - 1.
 */

/** One tensor to encode: the arguments of fedcodec_encode, once they are known to be good. */
typedef struct fedcodec_job {
    const double *param; /* in range */
    float *residual;     /* float32[n]; NULL for a codec without feedback */
    bool spare;          /* encode must not write the residual, and x is NULL; see spares */
    const float *x;      /* float32[n]; with feedback NULL if nothing is added */
    size_t n;
    bool scanned; /* scan or absorb has found all sums finite */
    float max;    /* what scan or absorb returned, else 0 */
    void *work;   /* work_size bytes, aligned for any type, content arbitrary */
    uint8_t *dst; /* bound bytes at least */
    size_t cap;
    const fed_pool *pool; /* a thread pool, or NULL */
} fedcodec_job;

struct fedcodec_vtable {
    uint8_t id;                   /* permanent id, from codecs.def */
    const char *name;             /* the name in a spec, such as "3lc" */
    const char *about;            /* one line for `fedcodec list` */
    const fedcodec_param *params; /* ends with a NULL key */
    bool feedback;                /* the residual keeps what is left out; false: it becomes 0 */
    bool spares;                  /* encode supports job->spare; false: spare is never set */

    /** Of a codec of matrices: 1 + the index of its parameter "rows". If that parameter is 0,
     * envelopes set it to the first dimension of each tensor; for the group of small tensors, to
     * its number of values. 0: the codec takes no shape. */
    size_t rows_param;

    /** The index of the first parameter that the codec did not have from the beginning. Canonical
     * specs leave the default of such a parameter out, so that older devices can read them. 0:
     * there is none. */
    size_t newer;

    /** Return NULL if these parameters, each in range, go together; else a sentence that says why
     * they do not. NULL: all go together. */
    const char *(*conflict)(const double *param);

    /** Return the most bytes that encode can write for n values. */
    size_t (*bound)(const double *param, size_t n);

    /** Return the bytes of work memory that encode needs. NULL: none. */
    size_t (*work_size)(const double *param, size_t n);

    /** Called before encode; changes nothing. Returns NaN or infinity if any residual + x is not
     * finite (x may be NULL). Otherwise it returns a finite number, such as the largest magnitude
     * of the sums, which encode gets as job->max. Use fedcodec_scan_sum or fedcodec_scan_added of
     * codecs/prim/floats.h. */
    float (*scan)(const float *residual, const float *x, size_t n);

    /** Called instead of scan if codec->unguarded is set: residual += x. Returns the largest
     * magnitude of the sums. NULL if encode does not need that number. */
    float (*absorb)(float *residual, const float *x, size_t n);

    /**
     * residual += x; y = Q(residual); residual -= y; write y as bytes. Without feedback just
     * y = Q(x). Allocates nothing. Errors: FED_EINVAL, before anything has changed; FED_ENONFINITE
     * if a residual + x is not finite and job->scanned is false: the residual may be left wrong.
     */
    fed_status (*encode)(const fedcodec_job *job, size_t *len);

    /** FED_OK exactly if src[len] is a message that encode could have made from n values; else
     * FED_EFORMAT. src is not trusted: reads nothing past len. *max_abs = the largest magnitude
     * that it decodes to. */
    fed_status (*check)(const uint8_t *src, size_t len, size_t n, float *max_abs);

    /* The functions below are called only with a message that check has accepted. */

    /** y[i] = decoded[i], float32[n], to the bit. */
    void (*decode)(const uint8_t *src, size_t len, float *y, size_t n);

    /** y[i] += w * decoded[i], float32[n]. Where decoded[i] is 0, y[i] may be left alone. The time
     * should depend on the message's length, not on n. */
    void (*axpy)(const uint8_t *src, size_t len, float w, float *y, size_t n);

    /** acc[i] += weight * rint(decoded[i] * 2^30), int64[n]: exact, in any order of messages. */
    void (*fold)(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n);

    /** Return the sum of decoded[i]^2. NULL if that is not cheaper than decoding. */
    double (*squares)(const uint8_t *src, size_t len, size_t n);

    /** Return by which factor encoding and decoding with these parameters makes the norm of most
     * values larger, within a few percent. NULL: none, or it depends on the values. */
    double (*stretch)(const double *param);

    /** Does a message that `check` has accepted say that it was made with parameters of this
     * stretch? A receiver refuses another one: its norm could not be told. NULL: there is no
     * stretch. */
    bool (*fits)(const double *param, const uint8_t *src);

    /** The same coding for a network card (fedcodec/bursts.h). NULL: there is none. */
    const struct fedcodec_burst_coder *bursts;
};

FED_API_END

#endif

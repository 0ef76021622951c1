/* The public calls on one tensor: they check arguments, then call the codec's functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/tensor.h"

#include <math.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/parts.h"
#include "fedcodec/codec_vtable.h"

bool fedcodec_params_valid(const fedcodec *codec) {
    const fedcodec_param *param = codec->vtable->params;
    for (size_t k = 0; param[k].key != NULL; k++) {
        double value = codec->param[k];
        bool whole = param[k].whole || param[k].names != NULL;
        if (!(value >= param[k].low && value <= param[k].high) ||
            (whole && value != floor(value))) {
            return false;
        }
    }
    return codec->vtable->conflict == NULL || codec->vtable->conflict(codec->param) == NULL;
}

size_t fedcodec_bound(const fedcodec *codec, size_t n) {
    return codec->vtable->bound(codec->param, n);
}

size_t fedcodec_work_size(const fedcodec *codec, size_t n) {
    const fedcodec_vtable *vtable = codec->vtable;
    return vtable->work_size != NULL ? vtable->work_size(codec->param, n) : 0;
}

typedef struct search {
    const fedcodec_vtable *vtable;
    const float *residual, *x;
    float *absorbing; /* NULL, or the residual, to which x is added */
    size_t n, parts;
    float found[FEDCODEC_PARTS_MAX];
} search;

static void search_part(void *job, size_t k) {
    search *s = job;
    size_t first = fedcodec_part_start(s->n, s->parts, k, 1);
    size_t count = fedcodec_part_start(s->n, s->parts, k + 1, 1) - first;
    const float *x = s->x != NULL ? s->x + first : NULL;
    s->found[k] = s->absorbing != NULL ? s->vtable->absorb(s->absorbing + first, x, count)
                                       : s->vtable->scan(s->residual + first, x, count);
}

/* Run the search. Magnitudes are compared as bits, since NaN must count as the largest.
 * FED_ENONFINITE: a sum is NaN or infinite. */
static fed_status search_all(search *s, const fed_pool *pool, float *max) {
    s->parts = fedcodec_parts(pool, s->n);
    fedcodec_run_parts(pool, s->parts, search_part, s);
    uint32_t most = 0;
    for (size_t k = 0; k < s->parts; k++) {
        uint32_t found = fedcodec_bits(s->found[k]);
        most = found > most ? found : most;
    }
    *max = fedcodec_float(most);
    return most < FEDCODEC_INFINITY ? FED_OK : FED_ENONFINITE;
}

fed_status fedcodec_scan(const fedcodec *codec, const float *residual, const float *x, size_t n,
                         float *max) {
    const bool needed = fedcodec_needs_residual(codec->vtable) || x == NULL;
    FED_REQUIRE(n == 0 || residual != NULL || !needed, FED_EINVAL);
    *max = 0.0f;
    if (residual == NULL || codec->unguarded) { /* encode itself finds NaN and infinity */
        return FED_OK;
    }
    search s = {.vtable = codec->vtable, .residual = residual, .x = x, .n = n};
    return search_all(&s, codec->pool, max);
}

fed_status fedcodec_encode_scanned(const fedcodec *codec, float *residual, const float *x, size_t n,
                                   float max, void *work, uint8_t *dst, size_t cap, size_t *len) {
    const bool scanned = residual != NULL && !codec->unguarded;
    fedcodec_job job = {.param = codec->param,
                        .residual = residual,
                        .x = x,
                        .n = n,
                        .scanned = scanned,
                        .max = max,
                        .work = work,
                        .dst = dst,
                        .cap = cap,
                        .pool = codec->pool};
    const bool lost = !codec->vtable->feedback;
    if (residual == NULL && codec->vtable->spares) {
        job.residual = (float *)(uintptr_t)x; /* encode only reads the residual */
        job.x = NULL;
        job.spare = true;
    }
    if (codec->unguarded && codec->vtable->absorb != NULL) {
        search s = {.vtable = codec->vtable, .absorbing = residual, .x = x, .n = n};
        FED_TRY(search_all(&s, codec->pool, &job.max));
        job.scanned = true;
        job.x = NULL;
    }
    if (lost && residual != NULL) {
        fedcodec_add(residual, x, n);
        job.x = residual;
    }
    if (lost) {
        job.residual = NULL;
    }
    FED_TRY(codec->vtable->encode(&job, len));
    if (lost && residual != NULL) {
        memset(residual, 0, n * sizeof *residual);
    }
    return FED_OK;
}

fed_status fedcodec_encode(const fedcodec *codec, float *residual, const float *x, size_t n,
                           void *work, uint8_t *dst, size_t cap, size_t *len) {
    FED_REQUIRE(fedcodec_params_valid(codec) && n <= FEDCODEC_VALUES_MAX, FED_EINVAL);
    FED_REQUIRE(work != NULL || fedcodec_work_size(codec, n) == 0, FED_EINVAL);
    FED_REQUIRE(cap >= fedcodec_bound(codec, n), FED_ENOSPC);
    float max = 0.0f;
    FED_TRY(fedcodec_scan(codec, residual, x, n, &max));
    return fedcodec_encode_scanned(codec, residual, x, n, max, work, dst, cap, len);
}

static fed_status check(const fedcodec_vtable *codec, const uint8_t *src, size_t len, size_t n,
                        float *max_abs) {
    FED_REQUIRE(n <= FEDCODEC_VALUES_MAX, FED_EINVAL);
    return codec->check(src, len, n, max_abs);
}

fed_status fedcodec_decode(const fedcodec_vtable *codec, const uint8_t *src, size_t len, float *y,
                           size_t n) {
    float max_abs;
    FED_TRY(check(codec, src, len, n, &max_abs));
    codec->decode(src, len, y, n);
    return FED_OK;
}

fed_status fedcodec_axpy(const fedcodec_vtable *codec, const uint8_t *src, size_t len, float w,
                         float *y, size_t n) {
    float max_abs;
    FED_TRY(check(codec, src, len, n, &max_abs));
    codec->axpy(src, len, w, y, n);
    return FED_OK;
}

fed_status fedcodec_fold(const fedcodec_vtable *codec, const uint8_t *src, size_t len,
                         int64_t weight, int64_t *acc, size_t n) {
    FED_REQUIRE(weight >= 1 && weight < FEDCODEC_FOLD_WEIGHT, FED_ERANGE);
    float max_abs;
    FED_TRY(check(codec, src, len, n, &max_abs));
    FED_REQUIRE(max_abs <= FEDCODEC_FOLD_LIMIT, FED_ERANGE);
    codec->fold(src, len, weight, acc, n);
    return FED_OK;
}

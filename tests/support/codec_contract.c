/* Codecs, tensors and messages for the contract tests of the codecs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec_contract.h"

#include "codec_spec.h"
#include "fed_test.h"

#include <float.h>
#include <math.h>

#include "fed/rng.h"

const fedcodec_unit *contract_unit;

fedcodec contract_on_unit(const fedcodec *codec, const fedcodec_unit *other) {
    fedcodec same = *codec;
    for (size_t k = 0; k < FEDCODEC_COUNT; k++) {
        if (other->codecs[k]->id == codec->vtable->id) {
            same.vtable = other->codecs[k];
        }
    }
    return same;
}

fedcodec contract_parse(const char *spec) {
    fedcodec codec;
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    return contract_on_unit(&codec, contract_unit);
}

const char *const contract_fill_names[CONTRACT_FILLS] = {
    "Laplace", "zero",  "constant", "tied",   "denormal",   "tiniest",
    "huge",    "spike", "negative", "sparse", "alternating"};

static float fill_value(contract_fill kind, size_t i, size_t n, fed_rng *rng) {
    float u = fed_rng_float(rng) - 0.5f;
    float laplace = copysignf(logf(1.0f - 2.0f * fabsf(u) + FLT_MIN), u);
    switch (kind) {
    case FILL_ZERO:
        return u > 0.0f ? 0.0f : -0.0f;
    case FILL_CONSTANT:
        return 0.25f;
    case FILL_TIED:
        return (float)((int)fed_rng_below(rng, 5) - 2);
    case FILL_DENORMAL:
        return u * 1e-39f;
    case FILL_TINIEST:
        return (float)((int)fed_rng_below(rng, 3) - 1) * FLT_TRUE_MIN;
    case FILL_HUGE:
        return u > 0.2f ? FLT_MAX : u < -0.2f ? -FLT_MAX : u;
    case FILL_SPIKE:
        return i == n / 3 ? -7.0f : 0.0f;
    case FILL_NEGATIVE:
        return -fabsf(laplace);
    case FILL_SPARSE:
        return fed_rng_below(rng, 50) == 0 ? laplace : 0.0f;
    case FILL_ALTERNATING:
        return i % 2 == 0 ? 1.0f : -1.0f;
    default:
        return laplace;
    }
}

float *contract_values(contract_fill kind, size_t n) {
    fed_rng rng;
    fed_rng_init(&rng, 42, (uint32_t)kind, (uint32_t)n);
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        x[i] = fill_value(kind, i, n, &rng);
    }
    return x;
}

float *contract_copy(const float *x, size_t n) {
    float *copy = malloc((n + 1) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, x, n * sizeof *copy);
    return copy;
}

contract_message contract_encode_with(const fedcodec *codec, float *residual, const float *x,
                                      size_t n) {
    contract_message m = {.codec = *codec, .n = n, .residual = residual};
    size_t bound = fedcodec_bound(codec, n), work_size = fedcodec_work_size(codec, n);
    uint8_t *dst = malloc(bound + 1);
    void *work = malloc(work_size + 1);
    assert_true(dst != NULL && work != NULL);
    dst[bound] = 0xa5;
    assert_fed_ok(
        fedcodec_encode(codec, residual, x, n, work_size > 0 ? work : NULL, dst, bound, &m.len));
    assert_true(m.len <= bound);
    assert_int_equal(dst[bound], 0xa5);
    m.data = malloc(m.len + (m.len == 0));
    assert_non_null(m.data);
    memcpy(m.data, dst, m.len);
    free(dst);
    free(work);
    return m;
}

contract_message contract_encode(const fedcodec *codec, const float *x, size_t n) {
    return contract_encode_with(codec, contract_copy(x, n), NULL, n);
}

void contract_drop(contract_message *m) {
    free(m->data);
    free(m->residual);
}

/* Specs besides each codec's defaults and the bounds of its parameters. */
static const char *const more_specs[] = {
    "sbc:p=0.2,pos=rice",
    "sbc:p=0.2,pos=rans",
    "sbc:p=0.2,pos=range",
    "sbc:p=0.2,pos=auto",
    "dgc:p=0.1,pos=rice",
    "dgc:p=0.1,pos=rans",
    "dgc:p=0.1,pos=range",
    "dgc:p=0.1,pos=auto",
    "stc:p=0.2,pos=rice",
    "stc:p=0.2,pos=rans",
    "stc:p=0.2,pos=range",
    "stc:p=0.2,pos=auto",
    "dgc:p=0.2,values=bfloat16",
    "dgc:p=0.5,pos=auto,values=int8",
    "topk:p=0.3,values=bfloat16",
    "topk:p=1,values=int8",
    "powersgd:rank=3,power=2",
    "powersgd:rank=5,values=bfloat16",
    "powersgd:rank=1,rows=3",
    "powersgd:power=3,rows=40,values=bfloat16",
    "eden:p=0.008",
    "eden:p=0.1,scale=tensor,pos=range",
    "eden:p=0.3,bucket=64",
    "eden:p=0.02,rotations=1,bucket=256,pos=golomb",
    "eden:bits=3,rotations=2",
    "eden:p=0.99,scale=tensor,bucket=512,pos=rice",
};

bool contract_codec(size_t k, fedcodec *codec) {
    for (size_t c = 0; c < FEDCODEC_COUNT; c++) {
        const fedcodec_param *param = contract_unit->codecs[c]->params;
        const fedcodec presets = contract_parse(codec_spec_of(contract_unit->codecs[c]));
        size_t params = 0;
        *codec = presets;
        while (param[params].key != NULL) {
            params++;
        }
        if (k <= 2 * params) {
            if (k > 0) {
                const size_t at = (k - 1) / 2;
                codec->param[at] = k % 2 ? param[at].low : param[at].high;
                if (codec->vtable->conflict != NULL &&
                    codec->vtable->conflict(codec->param) != NULL) {
                    codec->param[at] = presets.param[at];
                }
            }
            return true;
        }
        k -= 2 * params + 1;
    }
    if (k < sizeof more_specs / sizeof more_specs[0]) {
        *codec = contract_parse(more_specs[k]);
        return true;
    }
    return false;
}

void contract_each_message(size_t n, void (*visit)(const contract_message *m, const float *x)) {
    fedcodec codec;
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        for (contract_fill kind = 0; kind < CONTRACT_FILLS; kind++) {
            float *x = contract_values(kind, n);
            contract_message m = contract_encode(&codec, x, n);
            visit(&m, x);
            contract_drop(&m);
            free(x);
        }
    }
}

void contract_run_backwards(const fed_pool *self, size_t parts, void (*part)(void *job, size_t k),
                            void *job) {
    (void)self;
    while (parts > 0) {
        part(job, --parts);
    }
}

/* Reference code of codecs. Never optimise it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_codecs.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference_buckets.h"
#include "reference_eden.h"
#include "reference_positions.h"
#include "reference_powersgd.h"
#include "reference_simple.h"
#include "reference_values.h"

typedef struct bytes {
    uint8_t *data;
    size_t len, cap;
    unsigned bits; /* bits used of the last byte; 0: all */
} bytes;

static void put_byte(bytes *b, unsigned byte) {
    if (b->len == b->cap) {
        b->cap = 2 * b->cap + 64;
        b->data = realloc(b->data, b->cap);
        if (b->data == NULL) {
            abort();
        }
    }
    b->data[b->len++] = (uint8_t)byte;
}

static void put_bit(bytes *b, unsigned bit) {
    if (b->bits == 0) {
        put_byte(b, 0xff); /* unused bits must be 1 */
    }
    if (bit == 0) {
        b->data[b->len - 1] &= (uint8_t) ~(0x80u >> b->bits);
    }
    b->bits = (b->bits + 1) % 8;
}

static void put_f32(bytes *b, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    for (unsigned k = 0; k < 32; k += 8) {
        put_byte(b, bits >> k & 0xff);
    }
}

static void put_varint(bytes *b, uint64_t v) {
    for (; v >= 128; v /= 128) {
        put_byte(b, (unsigned)(v % 128) + 128);
    }
    put_byte(b, (unsigned)v);
}

static void identity_encode(float *residual, size_t n, bytes *out) {
    for (size_t i = 0; i < n; i++) {
        put_f32(out, residual[i]);
        residual[i] -= residual[i];
    }
}

static float threelc_magnitude(const float *x, size_t n, double s) {
    float max = 0.0f;
    for (size_t i = 0; i < n; i++) {
        max = fmaxf(max, fabsf(x[i]));
    }
    double product = s * (double)max;
    float m = product > (double)FLT_MAX ? FLT_MAX : (float)product;
    return 0.5f * m >= max ? max : m;
}

static void put_zero_run(bytes *out, size_t run) {
    while (run > 0) {
        size_t piece = run > 14 ? 14 : run;
        put_byte(out, piece == 1 ? 121 : 243 + (unsigned)(piece - 2));
        run -= piece;
    }
}

static void threelc_encode(const double *param, float *residual, size_t n, bytes *out) {
    float m = threelc_magnitude(residual, n, param[0]);
    put_f32(out, m);
    if (m == 0.0f) {
        return;
    }
    size_t len = (n + 4) / 5, run = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned byte = 0;
        for (size_t k = 0; k < 5; k++) {
            int value = 0;
            if (k * len + i < n) {
                float *x = &residual[k * len + i];
                value = *x > 0.5f * m ? 1 : *x < -0.5f * m ? -1 : 0;
                *x -= (float)value * m;
            }
            byte = 3 * byte + (unsigned)(value + 1);
        }
        if (byte == 121 && param[1] != 0.0) {
            run++;
            continue;
        }
        put_zero_run(out, run);
        run = 0;
        put_byte(out, byte);
    }
    put_zero_run(out, run);
}

static void threelc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    float m = fed_reference_get_f32(src);
    size_t packed = (n + 4) / 5, at = 0;
    for (size_t i = 4; i < len; i++) {
        if (src[i] >= 243) {
            at += src[i] - 241u;
            continue;
        }
        unsigned byte = src[i];
        for (size_t k = 5; k-- > 0; byte /= 3) {
            if (k * packed + at < n) {
                y[k * packed + at] = (float)((int)(byte % 3) - 1) * m;
            }
        }
        at++;
    }
}

/* Mark the k largest values of this sign, or all if there are fewer. Returns the magnitude of their
 * mean. */
static double sbc_side(const float *x, size_t n, size_t k, float sign, bool *chosen,
                       size_t *count) {
    reference_place *places = fed_reference_make(n, sizeof *places);
    for (size_t i = 0; i < n; i++) {
        places[i] = (reference_place){sign * x[i], i};
    }
    qsort(places, n, sizeof *places, fed_reference_larger_first);
    *count = 0;
    while (*count < k && places[*count].magnitude > 0.0f) {
        chosen[places[(*count)++].index] = true;
    }
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += chosen[i] ? (double)(sign * x[i]) : 0.0;
    }
    free(places);
    return *count > 0 ? sum / (double)*count : 0.0;
}

static unsigned sbc_parameter(double p) {
    double phi = (sqrt(5.0) + 1.0) / 2.0;
    double b = 1.0 + floor(log2(log(phi - 1.0) / log(1.0 - p)));
    return (unsigned)fmin(fmax(b, 0.0), 31.0);
}

static void put_gap(bytes *out, size_t gap, unsigned b) {
    for (size_t ones = gap >> b; ones > 0; ones--) {
        put_bit(out, 1);
    }
    put_bit(out, 0);
    for (unsigned k = b; k-- > 0;) {
        put_bit(out, gap >> k & 1);
    }
}

static void sbc_encode_other(const double *param, const bool *chosen, float mu, size_t count,
                             float *residual, size_t n, bytes *out) {
    uint32_t *index = fed_reference_make(count, sizeof *index);
    size_t len, k = 0;
    uint8_t how;
    for (size_t i = 0; i < n; i++) {
        if (chosen[i]) {
            index[k++] = (uint32_t)i;
            residual[i] -= mu;
        }
    }
    uint8_t *positions = fed_reference_positions_put((unsigned)param[1], true, param[0], index,
                                                     count, n, &len, &how);
    put_byte(out, how);
    put_f32(out, mu);
    for (size_t i = 0; i < len; i++) {
        put_byte(out, positions[i]);
    }
    free(positions);
    free(index);
}

static void sbc_encode(const double *param, float *residual, size_t n, bytes *out) {
    double p = param[0];
    size_t k = n == 0 ? 0 : (size_t)fmax(1.0, ceil(p * (double)n));
    bool *up = fed_reference_make(n, sizeof *up), *down = fed_reference_make(n, sizeof *down);
    size_t up_count, down_count;
    double up_mean = sbc_side(residual, n, k, 1.0f, up, &up_count);
    double down_mean = sbc_side(residual, n, k, -1.0f, down, &down_count);
    bool rises = up_mean >= down_mean;
    size_t count = rises ? up_count : down_count;
    put_varint(out, count);
    if (count > 0) {
        unsigned b = sbc_parameter(p);
        float mu = (float)fmin(rises ? up_mean : down_mean, (double)FLT_MAX);
        mu = rises ? mu : -mu;
        if (param[1] > 0.0) {
            sbc_encode_other(param, rises ? up : down, mu, count, residual, n, out);
            count = 0;
        } else {
            put_byte(out, b);
            put_f32(out, mu);
        }
        size_t next = 0;
        for (size_t i = 0; i < n && count > 0; i++) {
            if (rises ? up[i] : down[i]) {
                put_gap(out, i - next, b);
                next = i + 1;
                residual[i] -= mu;
            }
        }
    }
    free(up);
    free(down);
}

static unsigned get_bit(const uint8_t *src, size_t *at) {
    unsigned bit = src[*at / 8] >> (7 - *at % 8) & 1;
    ++*at;
    return bit;
}

static void sbc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    const uint8_t *end = src + len;
    uint64_t count = 0;
    unsigned shift = 0;
    do {
        count |= (uint64_t)(*src & 127) << shift;
        shift += 7;
    } while (*src++ >= 128);
    if (count == 0) {
        return;
    }
    unsigned b = *src++;
    float mu = fed_reference_get_f32(src);
    src += 4;
    if (b > 31) {
        uint32_t *index = fed_reference_make((size_t)count, sizeof *index);
        fed_reference_positions_get((uint8_t)b, src, (size_t)(end - src), (size_t)count, n, index);
        for (size_t i = 0; i < count; i++) {
            y[index[i]] = mu;
        }
        free(index);
        return;
    }
    size_t next = 0, at = 0;
    for (; count > 0; count--) {
        size_t ones = 0, low = 0;
        while (get_bit(src, &at) == 1) {
            ones++;
        }
        for (unsigned k = 0; k < b; k++) {
            low = 2 * low + get_bit(src, &at);
        }
        next += (ones << b) + low + 1;
        y[next - 1] = mu;
    }
}

/* inceptionn: algorithms 2 and 3 of its paper */

/* Return x[high:low] in the paper's notation: the bits from high to low. */
static uint32_t field(uint32_t x, unsigned high, unsigned low) {
    return (uint32_t)((uint64_t)x >> low & ((UINT64_C(1) << (high - low + 1)) - 1));
}

static unsigned inceptionn_compress(uint32_t f, unsigned error_bound, uint32_t *v) {
    uint32_t s = field(f, 31, 31), e = field(f, 30, 23), m = field(f, 22, 0);
    if (e >= 127) {
        *v = f;
        return 3;
    }
    if (e < error_bound) {
        *v = 0;
        return 0;
    }
    unsigned n_shift = 127 - e;
    uint32_t shifted_m = (UINT32_C(1) << 23 | m) >> n_shift;
    if (e >= error_bound + (127 - error_bound + 1) / 2) {
        *v = s << 15 | field(shifted_m, 22, 8);
        return 2;
    }
    *v = s << 7 | field(shifted_m, 22, 16);
    return 1;
}

/* Return the place of the first 1, counted from 1 at the most significant bit. */
static unsigned first1_loc_from_msb(uint32_t v, unsigned bits) {
    unsigned loc = 1;
    while ((v >> (bits - loc) & 1) == 0) {
        loc++;
    }
    return loc;
}

static uint32_t inceptionn_decompress(uint32_t v, unsigned t) {
    if (t == 3) {
        return v;
    }
    if (t == 0) {
        return 0;
    }
    unsigned bits = t == 1 ? 7 : 15;
    uint32_t s = field(v, bits, bits), magnitude = field(v, bits - 1, 0);
    if (magnitude == 0) {
        return s << 31;
    }
    unsigned n_shift = first1_loc_from_msb(magnitude, bits);
    uint32_t m = field(magnitude << n_shift, bits - 1, 0) << (23 - bits);
    return s << 31 | (127 - n_shift) << 23 | m;
}

static const size_t inceptionn_bytes[4] = {0, 1, 2, 4};

static void inceptionn_encode(double e, float *residual, size_t n, bytes *out) {
    unsigned error_bound = 127 - (unsigned)e;
    for (size_t i = 0; i < (n + 3) / 4; i++) {
        put_byte(out, 0);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t f, v;
        memcpy(&f, &residual[i], sizeof f);
        unsigned t = inceptionn_compress(f, error_bound, &v);
        out->data[i / 4] |= (uint8_t)(t << i % 4 * 2);
        for (size_t k = 0; k < inceptionn_bytes[t]; k++) {
            put_byte(out, v >> 8 * k & 0xff);
        }
        residual[i] = 0.0f;
    }
}

static void inceptionn_decode(const uint8_t *src, float *y, size_t n) {
    const uint8_t *payload = src + (n + 3) / 4;
    for (size_t i = 0; i < n; i++) {
        unsigned t = src[i / 4] >> i % 4 * 2 & 3;
        uint32_t v = 0;
        for (size_t k = 0; k < inceptionn_bytes[t]; k++) {
            v |= (uint32_t)*payload++ << 8 * k;
        }
        uint32_t f = inceptionn_decompress(v, t);
        memcpy(&y[i], &f, sizeof f);
    }
}

/* Report a codec without reference code, and end. */
static void no_reference(const fedcodec_vtable *codec) {
    fprintf(
        stderr,
        "the codec %s has no reference: write one in tests/support/reference_codecs.c, straight "
        "from its section of docs/codec-formats.md; docs/adding.md says how\n",
        codec->name);
    abort();
}

uint8_t *fed_reference_encode(const fedcodec *codec, float *residual, size_t n, size_t *len) {
    bytes out = {.data = NULL};
    if (fed_reference_simple_encode(codec, residual, n, &out.data, len)) {
        return out.data;
    }
    if ((out.data = fed_reference_buckets_encode(codec, residual, n, len)) != NULL) {
        return out.data;
    }
    if (strcmp(codec->vtable->name, "float32") == 0) {
        identity_encode(residual, n, &out);
    } else if (strcmp(codec->vtable->name, "3lc") == 0) {
        threelc_encode(codec->param, residual, n, &out);
    } else if (strcmp(codec->vtable->name, "sbc") == 0) {
        sbc_encode(codec->param, residual, n, &out);
    } else if (strcmp(codec->vtable->name, "inceptionn") == 0) {
        inceptionn_encode(codec->param[0], residual, n, &out);
    } else if (strcmp(codec->vtable->name, "eden") == 0) {
        return fed_reference_eden_encode(codec->param, residual, n, len);
    } else if (strcmp(codec->vtable->name, "powersgd") == 0) {
        return fed_reference_powersgd_encode(codec->param, residual, n, len);
    } else if ((out.data = fed_reference_sparse_encode(codec, residual, n, &out.len)) == NULL) {
        no_reference(codec->vtable);
    }
    *len = out.len;
    return out.data != NULL ? out.data : fed_reference_make(0, 1);
}

void fed_reference_decode(const fedcodec_vtable *codec, const uint8_t *src, size_t len, float *y,
                          size_t n) {
    for (size_t i = 0; i < n; i++) {
        y[i] = 0.0f;
    }
    if (fed_reference_simple_decode(codec, src, len, y, n) ||
        fed_reference_buckets_decode(codec, src, y, n)) {
        return;
    }
    if (strcmp(codec->name, "float32") == 0) {
        for (size_t i = 0; i < n; i++) {
            y[i] = fed_reference_get_f32(src + 4 * i);
        }
    } else if (strcmp(codec->name, "3lc") == 0) {
        threelc_decode(src, len, y, n);
    } else if (strcmp(codec->name, "sbc") == 0) {
        sbc_decode(src, len, y, n);
    } else if (strcmp(codec->name, "inceptionn") == 0) {
        inceptionn_decode(src, y, n);
    } else if (strcmp(codec->name, "eden") == 0) {
        fed_reference_eden_decode(src, len, y, n);
    } else if (strcmp(codec->name, "powersgd") == 0) {
        fed_reference_powersgd_decode(src, y, n);
    } else if (!fed_reference_sparse_decode(codec, src, len, y, n)) {
        no_reference(codec);
    }
}

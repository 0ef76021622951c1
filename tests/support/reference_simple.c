/* Reference code of codecs with simple formats. Never optimise it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_simple.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fed/rng.h"
#include "reference_values.h"

static void put_word(uint8_t *dst, uint32_t word, unsigned bytes) {
    for (unsigned k = 0; k < bytes; k++) {
        dst[k] = (uint8_t)(word >> (8 * k));
    }
}

static uint32_t get_word(const uint8_t *src, unsigned bytes) {
    uint32_t word = 0;
    for (unsigned k = 0; k < bytes; k++) {
        word |= (uint32_t)src[k] << (8 * k);
    }
    return word;
}

static float from_bits(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void put_bit(uint8_t *dst, uint64_t at, unsigned bit) {
    dst[at / 8] |= (uint8_t)(bit << (7 - at % 8));
}

static unsigned get_bit(const uint8_t *src, uint64_t at) {
    return src[at / 8] >> (7 - at % 8) & 1;
}

static void keep_rest(float *residual, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        residual[i] -= y[i];
    }
}

/* Decode float16 or bfloat16. fraction: bits of the fraction; least: smallest normal exponent. */

static float narrow_value(uint32_t half, int fraction, int least) {
    int exponent = (int)((half & 0x7fff) >> fraction);
    double m = (double)(half & ((1u << fraction) - 1));
    if (exponent > 0) {
        m += ldexp(1.0, fraction);
        exponent--;
    }
    double magnitude = ldexp(m, exponent + least - fraction);
    return (float)(half & 0x8000 ? -magnitude : magnitude);
}

static uint32_t narrow_bits(float v, int fraction, int least) {
    uint32_t sign = signbit(v) ? 0x8000 : 0;
    int exponent = 0;
    (void)frexp((double)v, &exponent); /* v = f * 2^exponent, with 0.5 <= f < 1 */
    exponent = v != 0.0f && exponent - 1 > least ? exponent - 1 : least;
    double units = rint(ldexp(fabs((double)v), fraction - exponent)); /* ties to even */
    uint32_t bits = ((uint32_t)(exponent - least) << fraction) + (uint32_t)units;
    uint32_t limit = (0x7fffu >> fraction << fraction) - 1;
    return sign | (bits < limit ? bits : limit);
}

static uint8_t *narrow_encode(float *residual, size_t n, int fraction, int least, size_t *len) {
    uint8_t *out = fed_reference_make(*len = 2 * n, 1);
    for (size_t i = 0; i < n; i++) {
        uint32_t half = narrow_bits(residual[i], fraction, least);
        put_word(out + 2 * i, half, 2);
        residual[i] -= narrow_value(half, fraction, least);
    }
    return out;
}

static void narrow_decode(const uint8_t *src, float *y, size_t n, int fraction, int least) {
    for (size_t i = 0; i < n; i++) {
        y[i] = narrow_value(get_word(src + 2 * i, 2), fraction, least);
    }
}

static void int8_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    float scale = fed_reference_get_f32(src);
    for (size_t i = 0; i < n && len > 4; i++) {
        int level = src[4 + i] < 128 ? src[4 + i] : src[4 + i] - 256;
        y[i] = (float)level * scale;
    }
}

static uint8_t *int8_encode(float *residual, size_t n, size_t *len) {
    uint8_t *out = fed_reference_make(4 + n, 1);
    float max = fed_reference_largest(residual, n), scale = max / 127.0f;
    while (!isfinite(127.0f * scale)) {
        scale = nextafterf(scale, 0.0f);
    }
    *len = 4;
    if (scale < FLT_MIN) {
        return out;
    }
    *len = 4 + n;
    float inverse = 127.0f / max, *y = calloc(n, sizeof *y);
    fed_reference_put_f32(out, scale);
    for (size_t i = 0; i < n; i++) {
        int level = (int)rintf(residual[i] * inverse);
        out[4 + i] = (uint8_t)(level < 0 ? level + 256 : level);
    }
    int8_decode(out, *len, y, n);
    keep_rest(residual, y, n);
    free(y);
    return out;
}

static void stoch3_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    static const unsigned power[5] = {81, 27, 9, 3, 1};
    float m = fed_reference_get_f32(src);
    for (size_t i = 0; i < n && len > 4; i++) {
        size_t packed = len - 4;
        int digit = (int)(src[4 + i % packed] / power[i / packed] % 3);
        y[i] = (float)(digit - 1) * m;
    }
}

static uint8_t *stoch3_encode(double seed, float *residual, size_t n, size_t *len) {
    size_t packed = (n + 4) / 5;
    uint8_t *out = fed_reference_make(4 + packed, 1);
    float m = fed_reference_largest(residual, n);
    *len = m > 0.0f ? 4 + packed : 4;
    fed_reference_put_f32(out, m);
    uint64_t digest = fed_digest(residual, n);
    fed_rng rng;
    fed_rng_init(&rng, (uint64_t)seed, (uint32_t)digest, (uint32_t)(digest >> 32));
    for (size_t i = 0; i < 5 * packed && m > 0.0f; i++) {
        unsigned digit = 1;
        if (i < n) {
            float lot = (float)(fed_rng_u32(&rng) >> 8);
            bool sent = lot < fabsf(residual[i]) / m * 16777216.0f;
            digit = !sent ? 1 : residual[i] > 0.0f ? 2 : 0;
            residual[i] = 0.0f;
        }
        uint8_t *byte = &out[4 + i % packed];
        *byte = (uint8_t)(3 * *byte + digit);
    }
    for (size_t i = 0; i < n; i++) {
        residual[i] = 0.0f;
    }
    return out;
}

static void onebit_decode(const uint8_t *src, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        y[i] = fed_reference_get_f32(src + 4 * (size_t)get_bit(src + 8, i));
    }
}

/* Return the mean of the values of one sign, summed as docs/codec-formats.md says. */
static float onebit_mean(const float *x, size_t n, bool negative) {
    double lane[16] = {0.0}, sum = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if ((x[i] < 0.0f) == negative) {
            lane[i % 16] += (double)x[i];
            count++;
        }
    }
    for (size_t k = 0; k < 16; k++) {
        sum += lane[k];
    }
    double mean = count > 0 ? sum / (double)count : 0.0;
    return (float)fmax(fmin(mean, (double)FLT_MAX), -(double)FLT_MAX);
}

static uint8_t *onebit_encode(float *residual, size_t n, size_t *len) {
    uint8_t *out = fed_reference_make(*len = 8 + (n + 7) / 8, 1);
    fed_reference_put_f32(out, onebit_mean(residual, n, false));
    fed_reference_put_f32(out + 4, onebit_mean(residual, n, true));
    for (size_t i = 0; i < n; i++) {
        put_bit(out + 8, i, residual[i] < 0.0f);
    }
    float *y = calloc(n + 1, sizeof *y);
    onebit_decode(out, y, n);
    keep_rest(residual, y, n);
    free(y);
    return out;
}

static void topk_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    const size_t map = (n + 7) / 8;
    const uint8_t *value = src + map;
    size_t k = 0;
    unsigned form = REFERENCE_FLOAT32;
    if (len > map && (get_word(value, 4) == 0x7fc00061 || get_word(value, 4) == 0x7fc00062)) {
        form = *value - 96u;
        value += 4;
    }
    for (size_t i = 0; i < n; i++) {
        if (get_bit(src, i) != 0) {
            y[i] = fed_reference_values_get(form, value, k++);
        }
    }
}

static size_t topk_choose(double p, const float *x, size_t n, uint32_t *index) {
    size_t k = n == 0 ? 0 : (size_t)fmax(1.0, ceil(p * (double)n)), count = 0;
    reference_place *places = calloc(n + 1, sizeof *places);
    bool *sent = calloc(n + 1, sizeof *sent);
    for (size_t i = 0; i < n; i++) {
        places[i] = (reference_place){fabsf(x[i]), i};
    }
    qsort(places, n, sizeof *places, fed_reference_larger_first);
    for (size_t i = 0; i < k && places[i].magnitude > 0.0f; i++) {
        sent[places[i].index] = true;
    }
    for (size_t i = 0; i < n; i++) {
        if (sent[i]) {
            index[count++] = (uint32_t)i;
        }
    }
    free(places);
    free(sent);
    return count;
}

static uint8_t *topk_encode(const double *param, float *residual, size_t n, size_t *len) {
    const unsigned form = (unsigned)param[1];
    uint32_t *index = calloc(n + 1, sizeof *index);
    size_t count = topk_choose(param[0], residual, n, index), size = 0;
    count = fed_reference_values_keep(form, residual, index, count);
    uint8_t *values = fed_reference_values_put(form, residual, index, count, &size);
    uint8_t *out = fed_reference_make((n + 7) / 8 + 4 + size, 1);
    for (size_t i = 0; i < count; i++) {
        put_bit(out, index[i], 1);
    }
    *len = (n + 7) / 8;
    if (form != REFERENCE_FLOAT32 && count > 0) {
        put_word(out + *len, 0x7fc00060 + form, 4);
        *len += 4;
    }
    memcpy(out + *len, values, size);
    *len += size;
    free(values);
    free(index);
    return out;
}

static void twobit_decode(const uint8_t *src, float *y, size_t n) {
    float t = fed_reference_get_f32(src);
    for (size_t i = 0; i < n; i++) {
        unsigned code = 2 * get_bit(src + 4, 2 * i) + get_bit(src + 4, 2 * i + 1);
        y[i] = code == 3 ? t : code == 2 ? -t : 0.0f;
    }
}

static uint8_t *twobit_encode(double threshold, float *residual, size_t n, size_t *len) {
    uint8_t *out = fed_reference_make(*len = 4 + (n + 3) / 4, 1);
    float t = (float)threshold, *y = calloc(n + 1, sizeof *y);
    fed_reference_put_f32(out, t);
    for (size_t i = 0; i < n; i++) {
        put_bit(out + 4, 2 * i, residual[i] >= t || residual[i] <= -t);
        put_bit(out + 4, 2 * i + 1, residual[i] >= t);
    }
    twobit_decode(out, y, n);
    keep_rest(residual, y, n);
    free(y);
    return out;
}

static uint8_t *trunc_encode(double dropped, float *residual, size_t n, size_t *len) {
    unsigned b = (unsigned)dropped;
    uint64_t at = 0;
    uint8_t *out = fed_reference_make(*len = 1 + (n * (32 - b) + 7) / 8, 1);
    out[0] = (uint8_t)b;
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = 32; k-- > b;) {
            put_bit(out + 1, at++, fed_reference_bits(residual[i]) >> k & 1);
        }
        residual[i] = 0.0f;
    }
    return out;
}

static void trunc_decode(const uint8_t *src, float *y, size_t n) {
    unsigned b = src[0];
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = 0;
        for (unsigned k = 32; k-- > b;) {
            bits |= (uint32_t)get_bit(src + 1, at++) << k;
        }
        y[i] = from_bits(bits);
    }
}

/* Return the position in the i-th of k ranges. randk sends one value of each range. */
static size_t randk_place(fed_rng *rng, size_t i, size_t n, size_t k) {
    uint64_t first = (uint64_t)i * n / k, end = (uint64_t)(i + 1) * n / k;
    return (size_t)(first + ((end - first) * fed_rng_u32(rng)) / 4294967296u);
}

static size_t randk_count(const uint8_t *src, size_t *k) {
    size_t at = 0;
    *k = 0;
    do {
        *k |= (size_t)(src[at] & 127) << 7 * at;
    } while (src[at++] >= 128);
    return at;
}

static void randk_decode(const uint8_t *src, float *y, size_t n) {
    size_t k;
    src += randk_count(src, &k);
    fed_rng rng;
    fed_rng_init(&rng, k > 0 ? get_word(src, 4) : 0, 0, 0);
    for (size_t i = 0; i < k; i++) {
        y[randk_place(&rng, i, n, k)] = fed_reference_get_f32(src + 4 + 4 * i);
    }
}

static bool randk_sends_something(uint32_t draw, const float *residual, size_t n, size_t k) {
    fed_rng rng;
    bool found = false;
    fed_rng_init(&rng, draw, 0, 0);
    for (size_t i = 0; i < k; i++) {
        found |= residual[randk_place(&rng, i, n, k)] != 0.0f;
    }
    return found;
}

static uint8_t *randk_encode(const double *param, float *residual, size_t n, size_t *len) {
    size_t k = n == 0 ? 0 : (size_t)fmax(1.0, ceil(param[0] * (double)n));
    uint8_t *out = fed_reference_make(16 + 4 * k, 1), *to = out;
    for (size_t left = k; left >= 128; left >>= 7) {
        *to++ = (uint8_t)(left | 128);
    }
    *to = (uint8_t)(k >> 7 * (to - out));
    to++;
    if (k > 0) {
        uint32_t draw = (uint32_t)fed_digest(residual, n) ^ (uint32_t)param[1];
        while (fed_reference_largest(residual, n) > 0.0f &&
               !randk_sends_something(draw, residual, n, k)) {
            draw++;
        }
        put_word(to, draw, 4);
        to += 4;
        fed_rng rng;
        fed_rng_init(&rng, draw, 0, 0);
        for (size_t i = 0; i < k; i++, to += 4) {
            float *value = &residual[randk_place(&rng, i, n, k)];
            fed_reference_put_f32(to, *value == 0.0f ? 0.0f : *value);
            *value = 0.0f;
        }
    }
    *len = (size_t)(to - out);
    return out;
}

bool fed_reference_simple_encode(const fedcodec *codec, float *residual, size_t n, uint8_t **data,
                                 size_t *len) {
    const double p = codec->param[0];
    switch (codec->vtable->id) {
    case 4:
        *data = narrow_encode(residual, n, 10, -14, len);
        return true;
    case 5:
        *data = narrow_encode(residual, n, 7, -126, len);
        return true;
    case 6:
        *data = int8_encode(residual, n, len);
        return true;
    case 7:
        *data = stoch3_encode(p, residual, n, len);
        return true;
    case 8:
        *data = onebit_encode(residual, n, len);
        return true;
    case 9:
        *data = topk_encode(codec->param, residual, n, len);
        return true;
    case 12:
        *data = twobit_encode(p, residual, n, len);
        return true;
    case 14:
        *data = trunc_encode(p, residual, n, len);
        return true;
    case 15:
        *data = randk_encode(codec->param, residual, n, len);
        return true;
    default:
        return false;
    }
}

bool fed_reference_simple_decode(const fedcodec_vtable *codec, const uint8_t *src, size_t len,
                                 float *y, size_t n) {
    switch (codec->id) {
    case 4:
        narrow_decode(src, y, n, 10, -14);
        return true;
    case 5:
        narrow_decode(src, y, n, 7, -126);
        return true;
    case 6:
        int8_decode(src, len, y, n);
        return true;
    case 7:
        stoch3_decode(src, len, y, n);
        return true;
    case 8:
        onebit_decode(src, y, n);
        return true;
    case 9:
        topk_decode(src, len, y, n);
        return true;
    case 12:
        twobit_decode(src, y, n);
        return true;
    case 14:
        trunc_decode(src, y, n);
        return true;
    case 15:
        randk_decode(src, y, n);
        return true;
    default:
        return false;
    }
}

/* Some codecs as simple loops in plain C, not optimized. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "plain_loops.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "bench.h"

static size_t put_f32(uint8_t *dst, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    for (int k = 0; k < 4; k++) {
        dst[k] = (uint8_t)(bits >> 8 * k);
    }
    return sizeof bits;
}

enum { DIGITS = 5, ZEROS = 121, RUN_MAX = 14 };

static float max_magnitude(const float *x, size_t n) {
    float max = 0.0f;
    for (size_t i = 0; i < n; i++) {
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    }
    return max;
}

static void quantise(const float *x, size_t n, float m, int8_t *digit) {
    for (size_t i = 0; i < n; i++) {
        digit[i] = (int8_t)((x[i] > 0.5f * m) - (x[i] < -0.5f * m));
    }
}

static void subtract(float *x, const int8_t *digit, size_t n, float m) {
    for (size_t i = 0; i < n; i++) {
        x[i] -= (float)digit[i] * m;
    }
}

static void pack(const int8_t *digit, uint8_t *byte, size_t len) {
    for (size_t i = 0; i < len; i++) {
        int v = 0;
        for (size_t k = 0; k < DIGITS; k++) {
            v = 3 * v + 1 + digit[i + k * len];
        }
        byte[i] = (uint8_t)v;
    }
}

static size_t shorten_runs(const uint8_t *byte, size_t len, uint8_t *dst) {
    size_t out = 0, run = 0;
    for (size_t i = 0; i < len; i++) {
        run = byte[i] == ZEROS ? run + 1 : 0;
        if (run == 0) {
            dst[out++] = byte[i];
        } else if (run == RUN_MAX || i + 1 == len || byte[i + 1] != ZEROS) {
            dst[out++] = (uint8_t)(run == 1 ? ZEROS : 241 + run);
            run = 0;
        }
    }
    return out;
}

/* 3lc in six passes, one for each step of the paper. */
static size_t plain_3lc(double s, float *residual, const float *x, size_t n, void *scratch,
                        uint8_t *dst) {
    size_t len = (n + DIGITS - 1) / DIGITS;
    int8_t *digit = scratch;
    uint8_t *byte = (uint8_t *)scratch + DIGITS * len;
    bench_add(residual, x, n);
    float m = (float)(s * (double)max_magnitude(residual, n));
    size_t out = put_f32(dst, m);
    if (m > 0.0f) {
        quantise(residual, n, m, digit);
        subtract(residual, digit, n, m);
        memset(digit + n, 0, DIGITS * len - n);
        pack(digit, byte, len);
        out += shorten_runs(byte, len, dst + out);
    }
    return out;
}

static void swap(float *a, float *b) {
    float t = *a;
    *a = *b;
    *b = t;
}

/* Return the k-th largest of x[n], counted from 0, by Hoare's selection. Reorders x. */
static float kth_largest(float *x, ptrdiff_t n, ptrdiff_t k) {
    ptrdiff_t low = 0, high = n - 1;
    while (low < high) {
        const float pivot = x[k];
        ptrdiff_t i = low, j = high;
        while (i <= j) {
            while (x[i] > pivot) {
                i++;
            }
            while (x[j] < pivot) {
                j--;
            }
            if (i <= j) {
                swap(&x[i++], &x[j--]);
            }
        }
        low = j < k ? i : low;
        high = k < i ? j : high;
    }
    return x[k];
}

/* The values of one sign to send: those above `least`, and the first `ties` that equal it. */
typedef struct side {
    float sign, least;
    size_t ties, count;
    double mean;
} side;

static bool is_chosen(const side *s, float x, size_t *ties) {
    float v = s->sign * x;
    return v > s->least || (v == s->least && (*ties)++ < s->ties);
}

static side choose(const float *x, size_t n, size_t k, float sign, float *copy) {
    for (size_t i = 0; i < n; i++) {
        copy[i] = sign * x[i];
    }
    side s = {.sign = sign, .least = kth_largest(copy, (ptrdiff_t)n, (ptrdiff_t)k - 1)};
    if (s.least > 0.0f) {
        s.ties = k;
        for (size_t i = 0; i < n; i++) {
            s.ties -= sign * x[i] > s.least;
        }
    } else {
        s.least = 0.0f;
    }
    size_t ties = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_chosen(&s, x[i], &ties)) {
            s.mean += (double)x[i];
            s.count++;
        }
    }
    s.mean = s.count > 0 ? s.mean / (double)s.count : 0.0;
    return s;
}

typedef struct bits {
    uint8_t *dst;
    size_t count;
} bits;

static void put_bit(bits *b, unsigned bit) {
    uint8_t *byte = b->dst + b->count / 8;
    *byte = (uint8_t)((b->count % 8 == 0 ? 0 : *byte) | bit << (7 - b->count % 8));
    b->count++;
}

static void put_gap(bits *out, size_t gap, unsigned b) {
    for (size_t ones = gap >> b; ones > 0; ones--) {
        put_bit(out, 1);
    }
    put_bit(out, 0);
    for (unsigned k = b; k-- > 0;) {
        put_bit(out, gap >> k & 1);
    }
}

static size_t put_varint(uint8_t *dst, size_t v) {
    size_t len = 0;
    for (; v >= 0x80; v >>= 7) {
        dst[len++] = (uint8_t)(v | 0x80);
    }
    dst[len++] = (uint8_t)v;
    return len;
}

static size_t send(const side *s, float *x, size_t n, unsigned b, uint8_t *dst) {
    const float mu = (float)s->mean;
    size_t len = put_varint(dst, s->count), ties = 0, next = 0;
    if (s->count == 0) {
        return len;
    }
    dst[len++] = (uint8_t)b;
    len += put_f32(dst + len, mu);
    bits out = {.dst = dst + len};
    for (size_t i = 0; i < n; i++) {
        if (is_chosen(s, x[i], &ties)) {
            put_gap(&out, i - next, b);
            next = i + 1;
            x[i] -= mu;
        }
    }
    while (out.count % 8 != 0) {
        put_bit(&out, 1);
    }
    return len + out.count / 8;
}

static size_t plain_sbc(double p, float *residual, const float *x, size_t n, void *scratch,
                        uint8_t *dst) {
    const double phi = 0.5 * (sqrt(5.0) + 1.0);
    double b = 1.0 + floor(log2(log(phi - 1.0) / log1p(-p)));
    double k = ceil(p * (double)n);
    bench_add(residual, x, n);
    side up = choose(residual, n, (size_t)k, 1.0f, scratch);
    side down = choose(residual, n, (size_t)k, -1.0f, scratch);
    return send(up.mean >= -down.mean ? &up : &down, residual, n, (unsigned)fmax(b, 0.0), dst);
}

static size_t plain_twobit(double t, float *residual, const float *x, size_t n, void *scratch,
                           uint8_t *dst) {
    static const uint8_t plus[4] = {0xc0, 0x30, 0x0c, 0x03}, minus[4] = {0x80, 0x20, 0x08, 0x02};
    (void)scratch;
    const float threshold = (float)t;
    uint8_t *byte = dst + put_f32(dst, threshold);
    for (size_t i = 0; i < n; i += 4) {
        *byte = 0;
        for (size_t k = 0; k < 4 && i + k < n; k++) {
            float *r = residual + i + k;
            *r += x[i + k];
            if (*r >= threshold) {
                *byte |= plus[k];
                *r -= threshold;
            } else if (*r <= -threshold) {
                *byte |= minus[k];
                *r += threshold;
            }
        }
        byte++;
    }
    return (size_t)(byte - dst);
}

static const plain_loop loops[] = {
    {"3lc:s=1 dense", plain_3lc, 4.0}, {"3lc:s=1", plain_3lc, 4.0},
    {"3lc:s=1.75", plain_3lc, 4.0},    {"sbc:p=0.01", plain_sbc, 15.0},
    {"sbc:p=0.001", plain_sbc, 15.0},  {"twobit:t=0.002", plain_twobit, 3.0},
};

const plain_loop *plain_loop_find(const char *setting) {
    for (size_t k = 0; k < sizeof loops / sizeof loops[0]; k++) {
        if (strcmp(loops[k].setting, setting) == 0) {
            return &loops[k];
        }
    }
    return NULL;
}

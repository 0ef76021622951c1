/* onebit: a sign for each value, and the mean of each sign's values. Format:
 * docs/codec-formats.md#onebit   Paper: 3LC, section 5 ("MQE 1-bit int"), after 1-bit SGD */
#include <float.h>
#include <math.h>

#include "codecs/prim/bitmap.h"
#include "codecs/prim/floats.h"
#include "codecs/registry.h"

/* A message: the mean of the values that are not negative, that of the others, then the signs. */
enum { HEAD = 8, LANES = 16, BLOCK = 512 };

typedef struct means {
    float up, down; /* 0 where there are no such values */
} means;

static const fedcodec_param onebit_params[] = {{.key = NULL}};

static size_t onebit_bound(const double *param, size_t n) {
    (void)param;
    return HEAD + fedcodec_bitmap_len(n);
}

static size_t onebit_work_size(const double *param, size_t n) {
    (void)param;
    (void)n;
    return 0;
}

/* Rounding in a long sum could lift a mean past the largest float. */
static float mean(double sum, size_t count) {
    return count > 0 ? (float)fmin(sum / (double)count, (double)FLT_MAX) : 0.0f;
}

/* Value i belongs to lane i mod LANES: sums that do not wait for each other. The negative values'
 * sums are of magnitudes. */
static means find_means(const float *x, size_t n) {
    double up[LANES] = {0.0}, down[LANES] = {0.0};
    uint32_t negative[LANES] = {0};
    for (size_t i = 0; i < n; i += LANES) {
        size_t lanes = n - i < LANES ? n - i : LANES;
        for (size_t k = 0; k < lanes; k++) {
            float v = x[i + k];
            up[k] += (double)(v < 0.0f ? 0.0f : v);
            down[k] += (double)(v < 0.0f ? -v : 0.0f);
            negative[k] += v < 0.0f;
        }
    }
    double ups = 0.0, downs = 0.0;
    size_t negatives = 0;
    for (size_t k = 0; k < LANES; k++) {
        ups += up[k];
        downs += down[k];
        negatives += negative[k];
    }
    return (means){.up = mean(ups, n - negatives), .down = 0.0f - mean(downs, negatives)};
}

/* The signs of n <= BLOCK values. */
static void put_signs(float *restrict e, size_t n, means m, uint8_t *restrict dst) {
    uint8_t negative[BLOCK + 8];
    for (size_t i = 0; i < n; i++) {
        float v = e[i];
        negative[i] = v < 0.0f;
        e[i] = v - (v < 0.0f ? m.down : m.up);
    }
    memset(negative + n, 0, 8);
    for (size_t i = 0; i < n; i += 8) {
        dst[i / 8] = fedcodec_bitmap_byte(negative + i);
    }
}

static fed_status onebit_encode(const double *param, float *residual, size_t n, void *work,
                                uint8_t *dst, size_t cap, size_t *len) {
    (void)param;
    (void)work;
    (void)cap;
    means m = find_means(residual, n);
    fedcodec_store_f32(dst, m.up);
    fedcodec_store_f32(dst + 4, m.down);
    for (size_t i = 0; i < n; i += BLOCK) {
        put_signs(residual + i, n - i < BLOCK ? n - i : BLOCK, m, dst + HEAD + i / 8);
    }
    *len = HEAD + fedcodec_bitmap_len(n);
    return FED_OK;
}

static means load_means(const uint8_t *src) {
    return (means){.up = fedcodec_load_f32(src), .down = fedcodec_load_f32(src + 4)};
}

/* A mean of no values is +0; one of negative values is negative. */
static bool means_valid(means m, size_t n, size_t negatives) {
    bool up = isfinite(m.up) && !signbit(m.up) && (m.up == 0.0f || negatives < n);
    bool down = isfinite(m.down) && (negatives > 0 ? m.down < 0.0f : fedcodec_bits(m.down) == 0);
    return up && down;
}

static fed_status onebit_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len == HEAD + fedcodec_bitmap_len(n), FED_EFORMAT);
    FED_REQUIRE(fedcodec_bitmap_padded(src + HEAD, n), FED_EFORMAT);
    means m = load_means(src);
    size_t negatives = fedcodec_bitmap_count(src + HEAD, len - HEAD);
    FED_REQUIRE(means_valid(m, n, negatives), FED_EFORMAT);
    *max_abs = fmaxf(m.up, fabsf(m.down));
    return FED_OK;
}

/* The values of one byte of signs. Masks instead of shifts: those have no vector instruction. */
static inline void spread(uint8_t signs, means m, float value[8]) {
    static const uint32_t mask[8] = {0x80, 0x40, 0x20, 0x10, 8, 4, 2, 1};
    for (size_t k = 0; k < 8; k++) {
        value[k] = (signs & mask[k]) != 0 ? m.down : m.up;
    }
}

static void onebit_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    (void)len;
    means m = load_means(src);
    float value[8];
    size_t whole = n - n % 8;
    for (size_t i = 0; i < whole; i += 8) {
        spread(src[HEAD + i / 8], m, y + i);
    }
    if (whole < n) {
        spread(src[HEAD + whole / 8], m, value);
        memcpy(y + whole, value, (n - whole) * sizeof *y);
    }
}

static void onebit_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    (void)len;
    means m = load_means(src);
    const means step = {.up = w * m.up, .down = w * m.down};
    float value[8];
    for (size_t i = 0; i < n; i += 8) {
        spread(src[HEAD + i / 8], step, value);
        size_t count = n - i < 8 ? n - i : 8;
        for (size_t k = 0; k < count; k++) {
            y[i + k] += value[k];
        }
    }
}

static void onebit_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    (void)len;
    means m = load_means(src);
    const int64_t step[2] = {weight * fedcodec_fixed(m.up), weight * fedcodec_fixed(m.down)};
    for (size_t i = 0; i < n; i++) {
        acc[i] += step[src[HEAD + i / 8] >> (7 - i % 8) & 1];
    }
}

const fedcodec_vtable fedcodec_onebit = {
    .id = FEDCODEC_ID_onebit,
    .name = "onebit",
    .about = "a sign for each value, and the mean of each sign's values",
    .params = onebit_params,
    .feedback = true,
    .bound = onebit_bound,
    .work_size = onebit_work_size,
    .encode = onebit_encode,
    .check = onebit_check,
    .decode = onebit_decode,
    .axpy = onebit_axpy,
    .fold = onebit_fold,
};

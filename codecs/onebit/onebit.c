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

/* Rounding in a long sum could lift a mean past the largest float. */
static float mean(double sum, size_t count) {
    return count > 0 ? (float)fmin(sum / (double)count, (double)FLT_MAX) : 0.0f;
}

/* Sums that do not wait for each other: value i belongs to lane i mod LANES. Those of negative
 * values are of magnitudes. */
typedef struct lanes {
    double up[LANES], down[LANES];
    uint32_t negative[LANES];
} lanes;

/* With masks, since compilers make branches of floating point under "?:". */
static inline void add_lanes(lanes *restrict sum, const float x[LANES]) {
    for (size_t k = 0; k < LANES; k++) {
        uint32_t bits = fedcodec_bits(x[k]), sign = 0u - (bits >> 31);
        sum->up[k] += (double)fedcodec_float(bits & ~sign);
        sum->down[k] += (double)fedcodec_float(bits & sign & FEDCODEC_MAGNITUDE);
        sum->negative[k] += x[k] < 0.0f;
    }
}

static means find_means(const float *x, size_t n) {
    lanes sum = {.up = {0.0}};
    float rest[LANES] = {0.0f};
    size_t whole = n - n % LANES, negatives = 0;
    for (size_t i = 0; i < whole; i += LANES) {
        add_lanes(&sum, x + i);
    }
    memcpy(rest, x + whole, (n - whole) * sizeof *x);
    add_lanes(&sum, rest);
    double up = 0.0, down = 0.0;
    for (size_t k = 0; k < LANES; k++) {
        up += sum.up[k];
        down += sum.down[k];
        negatives += sum.negative[k];
    }
    return (means){.up = mean(up, n - negatives), .down = 0.0f - mean(down, negatives)};
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

static fed_status onebit_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_add(job->residual, job->x, job->n);
    means m = find_means(job->residual, job->n);
    fedcodec_store_f32(job->dst, m.up);
    fedcodec_store_f32(job->dst + 4, m.down);
    for (size_t i = 0; i < job->n; i += BLOCK) {
        put_signs(job->residual + i, job->n - i < BLOCK ? job->n - i : BLOCK, m,
                  job->dst + HEAD + i / 8);
    }
    *len = HEAD + fedcodec_bitmap_len(job->n);
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

/* What each four signs stand for. */
typedef struct fours {
    float value[16][4];
} fours;

static fours make_fours(means m) {
    fours f;
    for (unsigned signs = 0; signs < 16; signs++) {
        for (unsigned k = 0; k < 4; k++) {
            f.value[signs][k] = signs >> (3 - k) & 1 ? m.down : m.up;
        }
    }
    return f;
}

static inline unsigned four_signs(const uint8_t *src, size_t i) {
    return src[HEAD + i / 8] >> (4 - i % 8) & 15; /* i is a multiple of 4 */
}

static void onebit_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    (void)len;
    const fours f = make_fours(load_means(src));
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        memcpy(y + i, f.value[four_signs(src, i)], 4 * sizeof *y);
    }
    if (i < n) {
        memcpy(y + i, f.value[four_signs(src, i)], (n - i) * sizeof *y);
    }
}

static void onebit_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    (void)len;
    means m = load_means(src);
    const fours step = make_fours((means){.up = w * m.up, .down = w * m.down});
    for (size_t i = 0; i < n; i += 4) {
        const float *four = step.value[four_signs(src, i)];
        size_t count = n - i < 4 ? n - i : 4;
        for (size_t k = 0; k < count; k++) {
            y[i + k] += four[k];
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

const fedcodec_vtable FEDCODEC_VTABLE(onebit) = {
    .id = FEDCODEC_ID_onebit,
    .name = "onebit",
    .about = "a sign for each value, and the mean of each sign's values",
    .params = onebit_params,
    .feedback = true,
    .bound = onebit_bound,
    .scan = fedcodec_scan_added,
    .encode = onebit_encode,
    .check = onebit_check,
    .decode = onebit_decode,
    .axpy = onebit_axpy,
    .fold = onebit_fold,
};

/* Largest magnitudes, found by comparing bits: a float comparison would overlook NaN. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/floats.h"

#include "codecs/prim/fetch.h"

/* A finite float plus a magnitude below this is finite: this limit is half of the last bit of
 * FLT_MAX. */
static const float HARMLESS = 0x1p103f;

enum { BLOCK = 256 };

/* Prefetch the block that a loop from the end of an array of n values to its start will read later;
 * nothing if caches have room for the array. */
static void fetch(const float *at, size_t n) {
    for (ptrdiff_t i = 0; i < BLOCK && n > FEDCODEC_NEAR; i += FEDCODEC_FETCH_LINE) {
        fedcodec_fetch(at, i - FEDCODEC_FETCH);
    }
}

static int32_t largest_sum(const float *residual, const float *x, size_t n) {
    int32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t m = fedcodec_magnitude(residual[i] + x[i]);
        max = m > max ? m : max;
    }
    return max;
}

static int32_t absorb_block(float *restrict residual, const float *restrict x, size_t n) {
    int32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        residual[i] += x[i];
        int32_t m = fedcodec_magnitude(residual[i]);
        max = m > max ? m : max;
    }
    return max;
}

/* Scan from the end to the start, so that the first values are in the cache when encode begins. */
float fedcodec_scan_sum(const float *residual, const float *x, size_t n) {
    int32_t max = 0;
    for (size_t end = n; end > 0;) {
        size_t count = end % BLOCK != 0 ? end % BLOCK : BLOCK;
        end -= count;
        fetch(residual + end, n);
        if (x != NULL) {
            fetch(x + end, n);
        }
        int32_t m = x != NULL ? largest_sum(residual + end, x + end, count)
                              : fedcodec_largest(residual + end, count);
        max = m > max ? m : max;
    }
    return fedcodec_float((uint32_t)max);
}

/* Go from the end to the start, so that the first values are in the cache when encode begins. */
float fedcodec_absorb(float *residual, const float *x, size_t n) {
    if (x == NULL) {
        return fedcodec_scan_sum(residual, NULL, n);
    }
    int32_t max = 0;
    for (size_t end = n; end > 0;) {
        size_t count = end % BLOCK != 0 ? end % BLOCK : BLOCK;
        end -= count;
        fetch(residual + end, n);
        fetch(x + end, n);
        int32_t m = absorb_block(residual + end, x + end, count);
        max = m > max ? m : max;
    }
    return fedcodec_float((uint32_t)max);
}

float fedcodec_scan_added(const float *residual, const float *x, size_t n) {
    float max = fedcodec_scan_sum(x != NULL ? x : residual, NULL, n);
    return x == NULL || max < HARMLESS ? max : fedcodec_scan_sum(residual, x, n);
}

fed_status fedcodec_check_values(const uint8_t *src, size_t count, float *max_abs) {
    const int32_t infinity = 0x7f800000;
    int32_t max = 0, min = infinity;
    for (size_t i = 0; i < count; i++) {
        int32_t m = fedcodec_magnitude(fedcodec_load_f32(src + 4 * i));
        max = m > max ? m : max;
        min = m < min ? m : min;
    }
    FED_REQUIRE(min > 0 && max < infinity, FED_EFORMAT);
    *max_abs = fedcodec_float((uint32_t)max);
    return FED_OK;
}

/* The arithmetic of private updates: how many fields, how wide, in which steps. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/privacy.h"

#include <math.h>

/* sqrt(2 ln 1000): a vector rounded at random is longer than `reach` once in a thousand times. */
#define TAIL 3.7169221888498383

size_t fed_privacy_sent(size_t n, double p) {
    const double share = ceil(p * (double)n);
    const size_t k = share < (double)n ? (size_t)share : n;
    return k > 0 ? k : 1;
}

static int32_t most_of(unsigned bits) {
    return (int32_t)((1U << (bits - 1)) - 1);
}

float fed_privacy_step(float clip, size_t sent, unsigned bits) {
    return (float)(4.5 * (double)clip / (sqrt((double)sent) * (double)most_of(bits)));
}

double fed_privacy_reach(float clip, float step, size_t fields) {
    const double c = (double)clip / (double)step;
    const double k = (double)fields;
    return sqrt(c * c + k / 4 + TAIL * (c + sqrt(k) / 2));
}

unsigned fed_privacy_width(unsigned bits, uint32_t cohort, double sigma2) {
    const double sum = (double)cohort * (double)most_of(bits) + 8 * sqrt(sigma2);
    unsigned width = 1;
    double half = 1; /* 2^(width - 1) */
    while (width <= 32 && !(half > sum)) {
        width++;
        half *= 2;
    }
    return width <= 32 ? width : 0;
}

double fed_privacy_count_sigma2(const fed_privacy *privacy) {
    const double sigma = (double)privacy->goal / 10;
    return privacy->counted && privacy->sigma2 > 0 ? sigma * sigma : 0;
}

static size_t rounded_up(size_t k, uint32_t block) {
    return (k + block - 1) / block * block;
}

/* Each size is a power of 4, so that the norm of its Hadamard transform is a power of 2. */
static uint32_t block_of(size_t k) {
    const uint32_t sizes[] = {1024, 256};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if ((double)rounded_up(k, sizes[i]) <= 1.02 * (double)k) {
            return sizes[i];
        }
    }
    return 64;
}

fed_privacy_fields fed_privacy_shape(const fed_privacy *privacy, unsigned bits, double p,
                                     size_t n) {
    fed_privacy_fields f = {.bits = bits, .most = most_of(bits), .n = n};
    f.sent = fed_privacy_sent(n, p);
    f.block = block_of(f.sent);
    f.fields = rounded_up(f.sent, f.block);
    f.step = fed_privacy_step(privacy->clip, f.sent, bits);
    f.reach = fed_privacy_reach(privacy->clip, f.step, f.fields);
    f.all = f.fields + privacy->counted;
    const double count = fed_privacy_count_sigma2(privacy);
    f.width =
        fed_privacy_width(bits, privacy->cohort, count > privacy->sigma2 ? count : privacy->sigma2);
    f.bytes = (f.fields / 8) * f.width; /* the fields are a multiple of 64 */
    f.bytes += privacy->counted ? (f.width + 7) / 8 : 0;
    return f;
}

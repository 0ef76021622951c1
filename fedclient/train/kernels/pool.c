/* Max-pooling, a vector of channels at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels/isa.h"

/* The part of a window along one side that is inside the picture: first .. end - 1. */
typedef struct reach {
    size_t first, end;
} reach;

static reach reach_of(size_t output, size_t k, size_t stride, size_t pad, size_t in) {
    size_t begin = output * stride, end = begin + k - pad;
    return (reach){begin > pad ? begin - pad : 0, end < in ? end : in};
}

/*
 * Compute one window. The last vector's lanes may go past the window's channels. They are stored
 * over the next window's output, which is computed later and overwrites them.
 */
KERNEL_INLINE void window(const fedtrain_pool *p, const float *x, reach v, reach h, float *y,
                          int32_t *winner) {
    for (size_t c = 0; c < p->channels; c += LANES) {
        size_t first = v.first * p->in_w + h.first;
        vec best = vec_load(x + first * p->channels + c);
        ivec where = (int32_t)first - (ivec){0};
        for (size_t ky = v.first; ky < v.end; ky++) {
            for (size_t kx = h.first; kx < h.end; kx++) {
                size_t position = ky * p->in_w + kx;
                vec value = vec_load(x + position * p->channels + c);
                ivec larger = value > best;
                best = vec_select(larger, value, best);
                where = ivec_select(larger, (int32_t)position - (ivec){0}, where);
            }
        }
        vec_store(y + c, best);
        ivec_store(winner + c, where);
    }
}

void KERNEL(maxpool)(const fedtrain_pool *p, const float *x, float *y, int32_t *winner) {
    for (size_t r = 0; r < p->out_h; r++) {
        const reach v = reach_of(r, p->kh, p->stride, p->pad, p->in_h);
        for (size_t q = 0; q < p->out_w; q++) {
            const reach h = reach_of(q, p->kw, p->stride, p->pad, p->in_w);
            window(p, x, v, h, y, winner);
            y += p->channels;
            winner += p->channels;
        }
    }
}

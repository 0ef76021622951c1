/* Max-pooling, a vector of channels at a time. */
#include "fedclient/train/kernels/isa.h"

/*
 * The last vector of a window may hold lanes of the next one's channels: its output is stored past
 * the window's own, and overwritten when that next window is done.
 */
void KERNEL(maxpool)(const fedtrain_pool *p, const float *x, float *y, int32_t *winner) {
    for (size_t r = 0; r < p->out_h; r++) {
        for (size_t q = 0; q < p->out_w; q++) {
            const float *window = x + (r * p->k * p->in_w + q * p->k) * p->channels;
            for (size_t c = 0; c < p->channels; c += LANES) {
                vec best = vec_load(window + c);
                ivec where = {0};
                for (size_t ky = 0; ky < p->k; ky++) {
                    for (size_t kx = 0; kx < p->k; kx++) {
                        size_t position = ky * p->in_w + kx;
                        vec value = vec_load(window + position * p->channels + c);
                        ivec larger = value > best;
                        best = vec_select(larger, value, best);
                        where = ivec_select(larger, (int32_t)position - (ivec){0}, where);
                    }
                }
                vec_store(y + c, best);
                ivec_store(winner + c, where);
            }
            y += p->channels;
            winner += p->channels;
        }
    }
}

/* The elementwise part of an LSTM's cell, forward and backward; gemm computes its products. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels/exponential.h"
#include "fedclient/train/kernels/isa.h"

/* c = f c' + i g, h = o tanh(c), with c' the cell before, for the first `lanes` lanes of a vector.
 */
KERNEL_INLINE void forward(size_t size, float *gates, const float *before, float *cell, float *h,
                           size_t lanes) {
    vec i = vec_sigmoid(vec_load_first(gates, lanes));
    vec f = vec_sigmoid(vec_load_first(gates + size, lanes));
    vec g = vec_tanh(vec_load_first(gates + 2 * size, lanes));
    vec o = vec_sigmoid(vec_load_first(gates + 3 * size, lanes));
    vec c = f * vec_load_first(before, lanes) + i * g;
    vec_store_first(gates, i, lanes);
    vec_store_first(gates + size, f, lanes);
    vec_store_first(gates + 2 * size, g, lanes);
    vec_store_first(gates + 3 * size, o, lanes);
    vec_store_first(cell, c, lanes);
    vec_store_first(h, o * vec_tanh(c), lanes);
}

void KERNEL(lstm)(size_t size, float *gates, const float *before, float *cell, float *h) {
    size_t j = 0;
    for (; j + LANES <= size; j += LANES) {
        forward(size, gates + j, before + j, cell + j, h + j, LANES);
    }
    forward(size, gates + j, before + j, cell + j, h + j, size - j);
}

KERNEL_INLINE void backward(size_t size, float *gates, const float *before, const float *cell,
                            const float *dh, float *dc, size_t lanes) {
    vec i = vec_load_first(gates, lanes);
    vec f = vec_load_first(gates + size, lanes);
    vec g = vec_load_first(gates + 2 * size, lanes);
    vec o = vec_load_first(gates + 3 * size, lanes);
    vec t = vec_tanh(vec_load_first(cell, lanes));
    vec out = vec_load_first(dh, lanes);
    vec d = vec_load_first(dc, lanes) + out * o * (1.0F - t * t);
    vec_store_first(gates, d * g * i * (1.0F - i), lanes);
    vec_store_first(gates + size, d * vec_load_first(before, lanes) * f * (1.0F - f), lanes);
    vec_store_first(gates + 2 * size, d * i * (1.0F - g * g), lanes);
    vec_store_first(gates + 3 * size, out * t * o * (1.0F - o), lanes);
    vec_store_first(dc, d * f, lanes);
}

void KERNEL(lstm_grad)(size_t size, float *gates, const float *before, const float *cell,
                       const float *dh, float *dc) {
    size_t j = 0;
    for (; j + LANES <= size; j += LANES) {
        backward(size, gates + j, before + j, cell + j, dh + j, dc + j, LANES);
    }
    backward(size, gates + j, before + j, cell + j, dh + j, dc + j, size - j);
}

/* Batch normalization of rows of channels. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels/isa.h"

/* Floats that fit in the first-level cache, where they are read a second time. */
enum { AT_ONCE = 4096 };

enum { CHAINS = 4 }; /* independent sums, since an addition waits for the one before it */

static size_t rows_at_once(size_t rows, size_t width) {
    size_t most = AT_ONCE / width + CHAINS;
    return rows < most ? rows : most;
}

/* Sum a column of vectors; with `squares`, sum the squared differences from `mean`. */
KERNEL_INLINE vec column_sum(const float *x, size_t rows, size_t width, vec mean,
                             const bool squares) {
    vec sum[CHAINS] = {0};
    size_t r = 0;
    for (; r + CHAINS <= rows; r += CHAINS) {
        KERNEL_UNROLL
        for (size_t k = 0; k < CHAINS; k++) {
            vec value = vec_load(x + (r + k) * width) - mean;
            sum[k] += squares ? value * value : value;
        }
    }
    for (; r < rows; r++) {
        vec value = vec_load(x + r * width) - mean;
        sum[0] += squares ? value * value : value;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Add some rows to the mean and squares of the `before` rows before them (Chan et al. 1983). */
static void add_moments(const float *x, size_t rows, size_t before, size_t width, float *mean,
                        float *squares) {
    const float share = (float)rows / (float)(before + rows), weight = (float)before * share;
    for (size_t c = 0; c < width; c += LANES) {
        vec here = column_sum(x + c, rows, width, (vec){0}, false) / (float)rows;
        vec around = column_sum(x + c, rows, width, here, true);
        vec apart = here - vec_load(mean + c);
        vec_store(mean + c, vec_load(mean + c) + apart * share);
        vec_store(squares + c, vec_load(squares + c) + around + apart * apart * weight);
    }
}

void KERNEL(moments)(const float *x, size_t rows, size_t width, float *mean, float *squares) {
    const size_t at_once = rows_at_once(rows, width);
    for (size_t c = 0; c < width; c += LANES) {
        vec_store(mean + c, (vec){0});
        vec_store(squares + c, (vec){0});
    }
    for (size_t r = 0; r < rows; r += at_once) {
        size_t here = rows - r < at_once ? rows - r : at_once;
        add_moments(x + r * width, here, r, width, mean, squares);
    }
}

/* Return the first channel of the next vector. The coefficients' arrays repeat the first channels
 * after the last one. */
KERNEL_INLINE size_t next_channel(size_t c, size_t step, size_t width) {
    c += step;
    return c >= width ? c - width : c;
}

/* Both passes call this function. They must get the same bits, to agree on where the ReLU gives
 * 0. */
KERNEL_INLINE vec normalized(const fedtrain_norm *n, vec apart, size_t c) {
    return apart * vec_load(n->scale + c) + vec_load(n->bias + c);
}

KERNEL_INLINE vec passed(const fedtrain_norm *n, vec apart, size_t c, vec dy) {
    return vec_select(normalized(n, apart, c) > (vec){0}, dy, (vec){0});
}

KERNEL_INLINE void normalize(const fedtrain_norm *n, const float *x, float *y, const bool relu) {
    const size_t size = n->rows * n->width, step = LANES % n->width;
    for (size_t i = 0, c = 0; i < size; i += LANES, c = next_channel(c, step, n->width)) {
        vec value = normalized(n, vec_load(x + i) - vec_load(n->mean + c), c);
        vec_store(y + i, relu ? vec_select(value < (vec){0}, (vec){0}, value) : value);
    }
}

void KERNEL(normalize)(const fedtrain_norm *n, const float *x, float *y) {
    if (n->relu) {
        normalize(n, x, y, true);
    } else {
        normalize(n, x, y, false);
    }
}

KERNEL_INLINE void add_sums(const fedtrain_norm *n, const float *x, const float *dy, size_t rows,
                            float *sum, float *along, const bool relu) {
    enum { TWO = 2 };
    for (size_t c = 0; c < n->width; c += LANES) {
        vec total[TWO] = {0}, product[TWO] = {0}, mean = vec_load(n->mean + c);
        for (size_t r = 0; r < rows; r++) {
            vec apart = vec_load(x + r * n->width + c) - mean;
            vec grad = vec_load(dy + r * n->width + c);
            grad = relu ? passed(n, apart, c, grad) : grad;
            total[r % TWO] += grad;
            product[r % TWO] += grad * apart;
        }
        vec_store(sum + c, vec_load(sum + c) + (total[0] + total[1]));
        vec_store(along + c, vec_load(along + c) + (product[0] + product[1]));
    }
}

void KERNEL(normalize_sums)(const fedtrain_norm *n, const float *x, const float *dy, float *sum,
                            float *along) {
    const size_t at_once = rows_at_once(n->rows, n->width);
    for (size_t c = 0; c < n->width; c += LANES) {
        vec_store(sum + c, (vec){0});
        vec_store(along + c, (vec){0});
    }
    for (size_t r = 0; r < n->rows; r += at_once) {
        size_t here = n->rows - r < at_once ? n->rows - r : at_once;
        if (n->relu) {
            add_sums(n, x + r * n->width, dy + r * n->width, here, sum, along, true);
        } else {
            add_sums(n, x + r * n->width, dy + r * n->width, here, sum, along, false);
        }
    }
}

KERNEL_INLINE void normalize_grad(const fedtrain_norm *n, const float *slope, const float *offset,
                                  const float *x, const float *dy, float *dx, const bool relu,
                                  const bool add) {
    const size_t size = n->rows * n->width, step = LANES % n->width;
    for (size_t i = 0, c = 0; i < size; i += LANES, c = next_channel(c, step, n->width)) {
        vec apart = vec_load(x + i) - vec_load(n->mean + c), grad = vec_load(dy + i);
        grad = relu ? passed(n, apart, c, grad) : grad;
        grad = grad * vec_load(n->scale + c) + apart * vec_load(slope + c) + vec_load(offset + c);
        vec_store(dx + i, add ? vec_load(dx + i) + grad : grad);
    }
}

void KERNEL(normalize_grad)(const fedtrain_norm *n, const float *slope, const float *offset,
                            const float *x, const float *dy, float *dx, bool add) {
    if (add) {
        normalize_grad(n, slope, offset, x, dy, dx, n->relu, true);
    } else if (n->relu) {
        normalize_grad(n, slope, offset, x, dy, dx, true, false);
    } else {
        normalize_grad(n, slope, offset, x, dy, dx, false, false);
    }
}

/* Reorders pictures and convolution weights, and lists a gradient's values other than 0. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/fast/arrange.h"

#include <string.h>

void fedtrain_transpose(const fedtrain_kernels *k, const float *x, size_t rows, size_t columns,
                        float *y) {
    if (rows == 1 || columns == 1) {
        memcpy(y, x, rows * columns * sizeof *y);
        return;
    }
    k->transpose(x, (fedtrain_rows){.step = columns}, rows, columns, y,
                 (fedtrain_rows){.step = rows});
}

void fedtrain_filters_order(const fedtrain_filters *f, uint32_t *order) {
    const size_t area = f->kh * f->kw;
    for (size_t i = 0; i < f->in * area; i++) {
        order[i] = (uint32_t)(i % area * f->in + i / area);
    }
}

void fedtrain_filters_pack(const fedtrain_kernels *k, const fedtrain_filters *f,
                           const float *weight, float *packed) {
    const size_t size = f->in * f->kh * f->kw;
    k->transpose(weight, (fedtrain_rows){.step = size}, f->out, size, packed,
                 (fedtrain_rows){f->out_pad, f->order});
}

void fedtrain_filters_unpack(const fedtrain_kernels *k, const fedtrain_filters *f,
                             const float *packed, float *weight) {
    const size_t size = f->in * f->kh * f->kw;
    k->transpose(packed, (fedtrain_rows){f->out_pad, f->order}, size, f->out, weight,
                 (fedtrain_rows){.step = size});
}

static size_t taps(size_t k, size_t first, size_t stride) {
    return first < k ? (k - first + stride - 1) / stride : 0;
}

void fedtrain_filters_pack_backward(const fedtrain_kernels *k, const fedtrain_filters *f,
                                    const float *packed, size_t stride, size_t ky, size_t kx,
                                    size_t in_pad, float *flipped) {
    for (size_t y = taps(f->kh, ky, stride); y-- > 0;) {
        for (size_t x = taps(f->kw, kx, stride); x-- > 0; flipped += f->out * in_pad) {
            size_t tap = (ky + y * stride) * f->kw + kx + x * stride;
            k->transpose(packed + tap * f->in * f->out_pad, (fedtrain_rows){.step = f->out_pad},
                         f->in, f->out, flipped, (fedtrain_rows){.step = in_pad});
        }
    }
}

/* There is no branch, which random zeros would make slow: a 0 is written too, but not counted, so
 * the next value overwrites it. */
void fedtrain_list_by_position(const fedtrain_sparse_conv *c, const int32_t *winner,
                               const float *dy, size_t windows, fedtrain_sparse *list) {
    memset(list->count, 0, c->positions * sizeof *list->count);
    for (size_t k = 0; k < windows; k++, winner += c->out, dy += c->out) {
        for (size_t o = 0; o < c->out; o++) {
            size_t position = (size_t)winner[o],
                   at = position * list->width + list->count[position];
            list->offset[at] = (uint32_t)(o * c->kh * c->row_pad);
            list->value[at] = dy[o];
            list->count[position] += dy[o] != 0;
        }
    }
}

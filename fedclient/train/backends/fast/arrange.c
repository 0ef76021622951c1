/* Reorders pictures and convolution weights, and lists what is not 0 of a gradient. */
#include "fedclient/train/backends/fast/arrange.h"

#include <string.h>

void fedtrain_to_channels_last(const float *x, size_t channels, size_t area, bool add, float *y) {
    for (size_t c = 0; c < channels; c++) {
        for (size_t i = 0; i < area; i++) {
            y[i * channels + c] = (add ? y[i * channels + c] : 0) + x[c * area + i];
        }
    }
}

void fedtrain_to_channels_first(const float *x, size_t channels, size_t area, float *y) {
    for (size_t c = 0; c < channels; c++) {
        for (size_t i = 0; i < area; i++) {
            y[c * area + i] = x[i * channels + c];
        }
    }
}

enum {
    BLOCK = 16
}; /* outputs at a time: whole cache lines are written, and few are read at once */

static size_t block_end(const fedtrain_filters *f, size_t first) {
    return first + BLOCK < f->out ? first + BLOCK : f->out;
}

void fedtrain_filters_columns(const fedtrain_filters *f, const float *weight, size_t out_pad,
                              float *columns) {
    const size_t area = f->kh * f->kw, size = f->in * area;
    for (size_t first = 0; first < f->out; first += BLOCK) {
        const float *from = weight;
        for (size_t i = 0; i < f->in; i++) {
            for (size_t k = 0; k < area; k++, from++) {
                float *to = columns + (k * f->in + i) * out_pad;
                for (size_t o = first; o < block_end(f, first); o++) {
                    to[o] = from[o * size];
                }
            }
        }
    }
}

void fedtrain_filters_weight(const fedtrain_filters *f, const float *columns, size_t out_pad,
                             float *weight) {
    const size_t area = f->kh * f->kw, size = f->in * area;
    for (size_t first = 0; first < f->out; first += BLOCK) {
        float *to = weight;
        for (size_t i = 0; i < f->in; i++) {
            for (size_t k = 0; k < area; k++, to++) {
                const float *from = columns + (k * f->in + i) * out_pad;
                for (size_t o = first; o < block_end(f, first); o++) {
                    to[o * size] = from[o];
                }
            }
        }
    }
}

static size_t taps(size_t k, size_t first, size_t stride) {
    return first < k ? (k - first + stride - 1) / stride : 0;
}

void fedtrain_filters_back(const fedtrain_filters *f, const float *weight, size_t stride, size_t ky,
                           size_t kx, size_t in_pad, float *back) {
    const size_t area = f->kh * f->kw;
    for (size_t y = taps(f->kh, ky, stride); y-- > 0;) {
        for (size_t x = taps(f->kw, kx, stride); x-- > 0;) {
            const float *from = weight + (ky + y * stride) * f->kw + kx + x * stride;
            for (size_t o = 0; o < f->out; o++, from += f->in * area, back += in_pad) {
                for (size_t i = 0; i < f->in; i++) {
                    back[i] = from[i * area];
                }
            }
        }
    }
}

void fedtrain_filters_rows(const fedtrain_filters *f, const float *weight, size_t row_pad,
                           float *rows) {
    const size_t area = f->kh * f->kw;
    for (size_t o = 0; o < f->out; o++, weight += f->in * area) {
        for (size_t k = 0; k < area; k++) {
            float *to = rows + (o * f->kh + k / f->kw) * row_pad + k % f->kw * f->in;
            for (size_t i = 0; i < f->in; i++) {
                to[i] = weight[i * area + k];
            }
        }
    }
}

void fedtrain_filters_from_rows(const fedtrain_filters *f, const float *rows, size_t row_pad,
                                float *weight) {
    const size_t area = f->kh * f->kw;
    for (size_t o = 0; o < f->out; o++, weight += f->in * area) {
        for (size_t k = 0; k < area; k++) {
            const float *from = rows + (o * f->kh + k / f->kw) * row_pad + k % f->kw * f->in;
            for (size_t i = 0; i < f->in; i++) {
                weight[i * area + k] = from[i];
            }
        }
    }
}

/* Without a branch, which random zeros would mislead: a 0 is written too, but not counted. */
static inline void append(fedtrain_sparse *s, size_t row, size_t offset, float value) {
    size_t at = row * s->width + s->count[row];
    s->offset[at] = (uint32_t)offset;
    s->value[at] = value;
    s->count[row] += value != 0;
}

void fedtrain_conv_grad_pooled(const fedtrain_sparse_conv *c, const int32_t *winner,
                               const float *dy, size_t windows, fedtrain_conv_grad *grad) {
    memset(grad->by_channel.count, 0, c->out * sizeof *grad->by_channel.count);
    if (grad->by_position.count != NULL) {
        memset(grad->by_position.count, 0, c->positions * sizeof *grad->by_position.count);
    }
    for (size_t k = 0; k < windows; k++, winner += c->out, dy += c->out) {
        for (size_t o = 0; o < c->out; o++) {
            size_t position = (size_t)winner[o];
            append(&grad->by_channel, o, c->patch[position], dy[o]);
            if (grad->by_position.count != NULL) {
                append(&grad->by_position, position, o * c->kh * c->row_pad, dy[o]);
            }
        }
    }
}

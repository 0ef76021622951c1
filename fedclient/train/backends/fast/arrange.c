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

/* Weight (o, i, ky, kx) is rows[(o * kh + ky) * row_pad + kx * in + i] and
 * columns[(ky * row + kx * in + i) * out_pad + o]. */

/* A block of outputs at a time: whole cache lines are written, and few are read at once. */
void fedtrain_conv_columns(const fedtrain_conv *c, const float *weight, float *columns) {
    enum { BLOCK = 16 };
    const size_t size = c->kh * c->row;
    for (size_t first = 0; first < c->out; first += BLOCK) {
        size_t end = first + BLOCK < c->out ? first + BLOCK : c->out;
        const float *from = weight;
        for (size_t i = 0; i < c->in; i++) {
            for (size_t ky = 0; ky < c->kh; ky++) {
                float *to = columns + (ky * c->row + i) * c->out_pad;
                for (size_t kx = 0; kx < c->kw; kx++, from++, to += c->in * c->out_pad) {
                    for (size_t o = first; o < end; o++) {
                        to[o] = from[o * size];
                    }
                }
            }
        }
    }
}

void fedtrain_conv_rows(const fedtrain_conv *c, const float *weight, float *rows) {
    const size_t area = c->kh * c->kw;
    for (size_t o = 0; o < c->out; o++, weight += c->in * area) {
        for (size_t k = 0; k < area; k++) {
            float *to = rows + (o * c->kh + k / c->kw) * c->row_pad + k % c->kw * c->in;
            for (size_t i = 0; i < c->in; i++) {
                to[i] = weight[i * area + k];
            }
        }
    }
}

void fedtrain_conv_weight(const fedtrain_conv *c, const float *rows, float *weight) {
    const size_t area = c->kh * c->kw;
    for (size_t o = 0; o < c->out; o++, weight += c->in * area) {
        for (size_t k = 0; k < area; k++) {
            const float *from = rows + (o * c->kh + k / c->kw) * c->row_pad + k % c->kw * c->in;
            for (size_t i = 0; i < c->in; i++) {
                weight[i * area + k] = from[i];
            }
        }
    }
}

static void start(const fedtrain_conv *c, fedtrain_conv_grad *grad) {
    size_t positions = c->out_h * c->out_w;
    grad->by_channel.width = positions;
    memset(grad->by_channel.count, 0, c->out * sizeof *grad->by_channel.count);
    if (grad->by_position.count != NULL) {
        grad->by_position.width = c->out;
        memset(grad->by_position.count, 0, positions * sizeof *grad->by_position.count);
    }
}

/* Without a branch, which random zeros would mislead: a 0 is written too, but not counted. */
static inline void append(fedtrain_sparse *s, size_t row, size_t offset, float value) {
    size_t at = row * s->width + s->count[row];
    s->offset[at] = (uint32_t)offset;
    s->value[at] = value;
    s->count[row] += value != 0;
}

/* Every window, or every position as a window of its own, gives one value a channel. */
static inline void add_window(const fedtrain_conv *c, size_t first, const int32_t *winner,
                              const float *dy, fedtrain_conv_grad *grad) {
    for (size_t o = 0; o < c->out; o++) {
        size_t position = first + (winner != NULL ? (size_t)winner[o] : 0);
        append(&grad->by_channel, o, c->patch[position], dy[o]);
        if (grad->by_position.count != NULL) {
            append(&grad->by_position, position, o * c->kh * c->row_pad, dy[o]);
        }
    }
}

void fedtrain_conv_grad_dense(const fedtrain_conv *c, const float *dy, fedtrain_conv_grad *grad) {
    start(c, grad);
    for (size_t position = 0; position < c->out_h * c->out_w; position++) {
        add_window(c, position, NULL, dy + position * c->out, grad);
    }
}

/* The pool's input is the convolution's output, so in both a position is row * out_w + column. */
void fedtrain_conv_grad_pooled(const fedtrain_conv *c, const fedtrain_pool *p,
                               const int32_t *winner, const float *dy, fedtrain_conv_grad *grad) {
    start(c, grad);
    for (size_t r = 0; r < p->out_h; r++) {
        for (size_t q = 0; q < p->out_w; q++) {
            size_t window = (r * p->out_w + q) * p->channels;
            add_window(c, (r * p->in_w + q) * p->k, winner + window, dy + window, grad);
        }
    }
}

void fedtrain_pool_scatter(const fedtrain_pool *p, const int32_t *winner, const float *dy,
                           float *dx) {
    for (size_t r = 0; r < p->out_h; r++) {
        for (size_t q = 0; q < p->out_w; q++) {
            size_t first = (r * p->in_w + q) * p->k;
            for (size_t c = 0; c < p->channels; c++) {
                dx[(first + (size_t)*winner++) * p->channels + c] += *dy++;
            }
        }
    }
}

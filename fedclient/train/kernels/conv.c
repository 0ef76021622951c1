/* Convolutions: forward by register tiles; backward by weighted sums over what is not 0. */
#include "fedclient/train/kernels/isa.h"

/* A tile holds `positions` x `vectors` sums: as many as leave registers for its operands. */
enum { MAX_POSITIONS = 8, MAX_VECTORS = LANES == 16 ? 4 : 3, MAX_TERMS = 8 };

/*
 * Outputs of `positions` neighbours in a row, `vectors` vectors of channels each.
 * y[p, :] = bias + sum_{ky, k} x[ky, p * in + k] * columns[ky * row + k, :]
 * Lanes at and past `lanes_left` of the last vector belong to the next position: they stay.
 */
KERNEL_INLINE void forward_tile(const fedtrain_conv *c, const float *columns, const float *bias,
                                const float *x, float *y, size_t lanes_left, const size_t positions,
                                const size_t vectors) {
    vec sum[MAX_POSITIONS][MAX_VECTORS];
    KERNEL_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        KERNEL_UNROLL
        for (size_t p = 0; p < positions; p++) {
            sum[p][v] = vec_load(bias + v * LANES);
        }
    }
    for (size_t ky = 0; ky < c->kh; ky++) {
        const float *under = x + ky * c->in_w * c->in;
        for (size_t k = 0; k < c->row; k++, columns += c->out_pad) {
            KERNEL_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                vec weight = vec_load(columns + v * LANES);
                KERNEL_UNROLL
                for (size_t p = 0; p < positions; p++) {
                    sum[p][v] += under[p * c->in + k] * weight;
                }
            }
        }
    }
    const size_t full = lanes_left < LANES ? vectors - 1 : vectors;
    KERNEL_UNROLL
    for (size_t p = 0; p < positions; p++) {
        KERNEL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            float *to = y + p * c->out + v * LANES;
            vec_store(to, v < full ? sum[p][v]
                                   : vec_select(lanes_from(lanes_left), vec_load(to), sum[p][v]));
        }
    }
}

/* One row of outputs. What is left behind the last whole tile is done by one that overlaps it. */
KERNEL_INLINE void forward_row(const fedtrain_conv *c, const float *columns, const float *bias,
                               const float *x, float *y, size_t lanes_left, const size_t positions,
                               const size_t vectors) {
    if (c->out_w < positions) {
        for (size_t q = 0; q < c->out_w; q++) {
            forward_tile(c, columns, bias, x + q * c->in, y + q * c->out, lanes_left, 1, vectors);
        }
        return;
    }
    for (size_t q = 0; q < c->out_w; q += positions) {
        size_t from = q + positions <= c->out_w ? q : c->out_w - positions;
        forward_tile(c, columns, bias, x + from * c->in, y + from * c->out, lanes_left, positions,
                     vectors);
    }
}

void KERNEL(conv)(const fedtrain_conv *c, const float *columns, const float *bias, const float *x,
                  float *y) {
    for (size_t o = 0; o < c->out; o += MAX_VECTORS * LANES) {
        size_t left = c->out - o;
        size_t vectors = (left + LANES - 1) / LANES;
        vectors = vectors < MAX_VECTORS ? vectors : MAX_VECTORS;
        size_t lanes_left = left - (vectors - 1) * LANES;
        for (size_t r = 0; r < c->out_h; r++) {
            const float *from = x + r * c->in_w * c->in;
            float *to = y + r * c->out_w * c->out + o;
            switch (vectors) {
            case 1:
                forward_row(c, columns + o, bias + o, from, to, lanes_left, 8, 1);
                break;
            case 2:
                forward_row(c, columns + o, bias + o, from, to, lanes_left, LANES == 16 ? 8 : 4, 2);
                break;
            case 3:
                forward_row(c, columns + o, bias + o, from, to, lanes_left, 4, 3);
                break;
#if FEDTRAIN_LANES == 16
            case 4:
                forward_row(c, columns + o, bias + o, from, to, lanes_left, 4, 4);
                break;
#endif
            default:
                break;
            }
        }
    }
}

/* One row of a sparse matrix, and where `terms` vectors lie behind each of its offsets. */
typedef struct gather {
    const float *base;
    const uint32_t *offset;
    const float *value;
    size_t count;
    size_t behind[MAX_TERMS];
} gather;

/* sum[t] = sum_j value[j] * base[offset[j] + behind[t] ..] */
KERNEL_INLINE void gather_terms(const gather *g, vec *sum, const size_t terms) {
    vec total[MAX_TERMS] = {0};
    for (size_t j = 0; j < g->count; j++) {
        const float *from = g->base + g->offset[j];
        float value = g->value[j];
        KERNEL_UNROLL
        for (size_t t = 0; t < terms; t++) {
            total[t] += value * vec_load(from + g->behind[t]);
        }
    }
    KERNEL_UNROLL
    for (size_t t = 0; t < terms; t++) {
        sum[t] = total[t];
    }
}

static void gather_sum(const gather *g, vec *sum, size_t terms) {
    switch (terms) {
    case 1:
        gather_terms(g, sum, 1);
        break;
    case 2:
        gather_terms(g, sum, 2);
        break;
    case 3:
        gather_terms(g, sum, 3);
        break;
    case 4:
        gather_terms(g, sum, 4);
        break;
    case 5:
        gather_terms(g, sum, 5);
        break;
    case 6:
        gather_terms(g, sum, 6);
        break;
    case 7:
        gather_terms(g, sum, 7);
        break;
    default:
        gather_terms(g, sum, 8);
        break;
    }
}

static gather gather_row(const fedtrain_sparse *s, size_t row, const float *base) {
    return (gather){.base = base,
                    .offset = s->offset + row * s->width,
                    .value = s->value + row * s->width,
                    .count = s->count[row]};
}

/* How many segments to sum at once: shares of equal size, none over MAX_TERMS. */
static size_t segments_at_once(const fedtrain_conv *c) {
    size_t shares = (c->segments + MAX_TERMS - 1) / MAX_TERMS;
    return (c->segments + shares - 1) / shares;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The patch under each output position gets the weights of the channels, times their gradients. */
void KERNEL(conv_input_grad)(const fedtrain_conv *c, const fedtrain_sparse *by_position,
                             const float *rows, float *dx) {
    size_t step = segments_at_once(c);
    for (size_t s = 0; s < c->segments; s += step) {
        size_t terms = smaller(step, c->segments - s);
        for (size_t position = 0; position < c->out_h * c->out_w; position++) {
            gather g = gather_row(by_position, position, rows);
            if (g.count == 0) {
                continue;
            }
            for (size_t t = 0; t < terms; t++) {
                g.behind[t] = (s + t) * LANES;
            }
            vec sum[MAX_TERMS];
            gather_sum(&g, sum, terms);
            for (size_t t = 0; t < terms; t++) {
                float *to = dx + c->patch[position] + c->segment[s + t];
                vec_store(to, vec_load(to) + sum[t]);
            }
        }
    }
}

/* The weights of each channel get the patches that it saw, times their gradients. */
void KERNEL(conv_weight_grad)(const fedtrain_conv *c, const fedtrain_sparse *by_channel,
                              const float *x, float *drows) {
    size_t step = segments_at_once(c);
    for (size_t o = 0; o < c->out; o++) {
        for (size_t s = 0; s < c->segments; s += step) {
            size_t terms = smaller(step, c->segments - s);
            gather g = gather_row(by_channel, o, x);
            for (size_t t = 0; t < terms; t++) {
                g.behind[t] = c->segment[s + t];
            }
            vec sum[MAX_TERMS];
            gather_sum(&g, sum, terms);
            for (size_t t = 0; t < terms; t++) {
                float *to = drows + (o * c->segments + s + t) * LANES;
                vec_store(to, vec_load(to) + sum[t]);
            }
        }
    }
}

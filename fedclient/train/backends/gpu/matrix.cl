/* Dense layers and convolutions: a product of two matrices, whose elements are gathered during the
 * product. A work-group computes a tile of 64 x 64 sums, and a work-item 4 x 4 of these. The
 * work-group loads 16 terms of its sums at a time: a slab of each matrix. */
/* SPDX-License-Identifier: Apache-2.0 */

#define TILE    64U
#define SLAB    16U
#define NOWHERE 0x20000000

/* A convolution. A dense layer is a convolution with a window of 1 x 1. */
typedef struct window {
    u32 batch, groups;
    u32 c, h, w;   /* input */
    u32 o, oh, ow; /* output */
    u32 kh, kw, stride, pad;
} window;

/* An element of x or dy lies at the sum of two places: one of a window, one of a tap. Each place is
 * an offset, a row and a column. `place` has the places of a slab's terms, `places` those of a
 * tile's columns. */
typedef struct place {
    u32 at[SLAB];
    i32 y[SLAB], x[SLAB];
} place;

typedef struct places {
    u32 at[TILE];
    i32 y[TILE], x[TILE];
} places;

/* The tile of a work-group: the group of channels, the first row m, the first column n, and the
 * part of the sum. */
typedef struct tile {
    u32 group, m, n, part;
} tile;

FUNC tile tile_of(u32 rows, u32 columns, u32 groups) {
    u32 down = (rows + TILE - 1) / TILE, across = (columns + TILE - 1) / TILE, at = GROUP;
    tile t;
    t.n = at % across * TILE;
    at /= across;
    t.m = at % down * TILE;
    at /= down;
    t.group = at % groups;
    t.part = at / groups;
    return t;
}

/* The column and the term of the i-th value that a work-item loads. A slab has 64 x 16 values, so
 * each work-item loads 4. by_product: the terms lie side by side in memory; otherwise the columns
 * do. */
FUNC u32 load_column(u32 i, u32 by_product) {
    u32 at = LANE + GROUP_SIZE * i;
    return by_product != 0 ? at / SLAB : at % TILE;
}

FUNC u32 load_product(u32 i, u32 by_product) {
    u32 at = LANE + GROUP_SIZE * i;
    return by_product != 0 ? at % SLAB : at / TILE;
}

/* A work-item's sums: 4 rows from row 4 (LANE / 16) on, 4 columns from column 4 (LANE % 16) on. */
typedef struct sums {
    f32x4 row[4];
} sums;

FUNC sums no_sums(void) {
    sums s;
    for (u32 i = 0; i < 4; i++) {
        s.row[i] = F32X4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    return s;
}

FUNC sums multiply(LOCALP const f32x4 *a, LOCALP const f32x4 *b, sums s) {
    LOCALP const f32x4 *p = a + LANE / 16, *q = b + LANE % 16;
    for (u32 k = 0; k < SLAB; k++) {
        f32x4 rows = p[k * (TILE / 4)], columns = q[k * (TILE / 4)];
        s.row[0] = fma4(rows.x, columns, s.row[0]);
        s.row[1] = fma4(rows.y, columns, s.row[1]);
        s.row[2] = fma4(rows.z, columns, s.row[2]);
        s.row[3] = fma4(rows.w, columns, s.row[3]);
    }
    return s;
}

/* The e-th of a work-item's 16 sums. row_of and column_of give its place in the tile. */
FUNC float sum_of(sums s, u32 e) {
    f32x4 v = s.row[e / 4];
    return e % 4 == 0 ? v.x : e % 4 == 1 ? v.y : e % 4 == 2 ? v.z : v.w;
}

FUNC u32 row_of(u32 e) {
    return 4 * (LANE / 16) + e / 4;
}

FUNC u32 column_of(u32 e) {
    return 4 * (LANE % 16) + e % 4;
}

/* Find where an output position's window begins in x. */
FUNC void place_position(window s, u32 group, u32 n, u32 end, LOCALP u32 *at, LOCALP i32 *y,
                         LOCALP i32 *x) {
    u32 p = s.oh * s.ow, q = n % p;
    *at = (n / p * s.c + group * (s.c / s.groups)) * s.h * s.w;
    *y = n < end ? (i32)(q / s.ow * s.stride) - (i32)s.pad : NOWHERE;
    *x = (i32)(q % s.ow * s.stride) - (i32)s.pad;
}

/* Find where a tap (channel, ky, kx) lies in a window. */
FUNC void place_tap(window s, u32 k, u32 end, LOCALP u32 *at, LOCALP i32 *y, LOCALP i32 *x) {
    u32 area = s.kh * s.kw, tap = k % area;
    *at = k / area * s.h * s.w;
    *y = k < end ? (i32)(tap / s.kw) : NOWHERE;
    *x = (i32)(tap % s.kw);
}

FUNC float input_at(window s, GLOBAL const float *x, u32 at, i32 row, i32 column) {
    u32 r = (u32)row, c = (u32)column; /* a negative place becomes a very large one */
    return r < s.h && c < s.w ? x[at + r * s.w + c] : 0.0f;
}

/* y[b, o, p] = bias[o] + sum over taps k of weight[o, k] x[position p of b, k] */
KERNEL matrix_forward(window s, GLOBAL const float *weight, GLOBAL const float *bias,
                      GLOBAL const float *x, GLOBAL float *y, u32 by_product) {
    LOCAL f32x4 a[SLAB * TILE / 4];
    LOCAL f32x4 b[SLAB * TILE / 4];
    LOCAL places column;
    LOCAL place product;
    u32 rows = s.o / s.groups, p = s.oh * s.ow, columns = s.batch * p;
    u32 products = s.c / s.groups * s.kh * s.kw;
    tile t = tile_of(rows, columns, s.groups);
    GLOBAL const float *w = weight + t.group * rows * products;
    LOCALP float *pa = (LOCALP float *)a, *pb = (LOCALP float *)b;
    sums sum = no_sums();
    if (LANE < TILE) {
        place_position(s, t.group, t.n + LANE, columns, &column.at[LANE], &column.y[LANE],
                       &column.x[LANE]);
    }
    for (u32 first = 0; first < products; first += SLAB) {
        if (LANE < SLAB) {
            place_tap(s, first + LANE, products, &product.at[LANE], &product.y[LANE],
                      &product.x[LANE]);
        }
        BARRIER();
        for (u32 i = 0; i < 4; i++) {
            u32 m = load_column(i, 1), k = load_product(i, 1);
            u32 inside = t.m + m < rows && first + k < products;
            pa[k * TILE + m] = inside != 0 ? w[(t.m + m) * products + first + k] : 0.0f;
            u32 n = load_column(i, by_product);
            k = load_product(i, by_product);
            pb[k * TILE + n] = input_at(s, x, column.at[n] + product.at[k],
                                        column.y[n] + product.y[k], column.x[n] + product.x[k]);
        }
        BARRIER();
        sum = multiply(a, b, sum);
    }
    for (u32 e = 0; e < 16; e++) {
        u32 m = t.m + row_of(e), n = t.n + column_of(e);
        if (m < rows && n < columns) {
            u32 o = t.group * rows + m;
            float v = sum_of(sum, e);
            y[(n / p * s.o + o) * p + n % p] = bias != 0 ? v + bias[o] : v;
        }
    }
}

/* Compute one part of dweight[o, k] = sum over positions n of dy[o, n] x[n, k]. The parts are
 * written one after the other, and matrix_parts sums them. */
KERNEL matrix_weight(window s, GLOBAL const float *x, GLOBAL const float *dy, GLOBAL float *dweight,
                     u32 each) {
    LOCAL f32x4 a[SLAB * TILE / 4];
    LOCAL f32x4 b[SLAB * TILE / 4];
    LOCAL places column;
    LOCAL place product;
    LOCAL u32 given[SLAB];
    u32 rows = s.o / s.groups, p = s.oh * s.ow, columns = s.c / s.groups * s.kh * s.kw;
    tile t = tile_of(rows, columns, s.groups);
    u32 start = t.part * each, all = s.batch * p, end = start + each < all ? start + each : all;
    LOCALP float *pa = (LOCALP float *)a, *pb = (LOCALP float *)b;
    sums sum = no_sums();
    if (LANE < TILE) {
        place_tap(s, t.n + LANE, columns, &column.at[LANE], &column.y[LANE], &column.x[LANE]);
    }
    for (u32 first = start; first < end; first += SLAB) {
        if (LANE < SLAB) {
            u32 n = first + LANE;
            place_position(s, t.group, n, end, &product.at[LANE], &product.y[LANE],
                           &product.x[LANE]);
            given[LANE] = (n / p * s.o + t.group * rows) * p + n % p;
        }
        BARRIER();
        for (u32 i = 0; i < 4; i++) {
            u32 m = load_column(i, 1), k = load_product(i, 1);
            u32 inside = t.m + m < rows && first + k < end;
            pa[k * TILE + m] = inside != 0 ? dy[given[k] + (t.m + m) * p] : 0.0f;
            pb[k * TILE + m] = input_at(s, x, column.at[m] + product.at[k],
                                        column.y[m] + product.y[k], column.x[m] + product.x[k]);
        }
        BARRIER();
        sum = multiply(a, b, sum);
    }
    for (u32 e = 0; e < 16; e++) {
        u32 m = t.m + row_of(e), n = t.n + column_of(e);
        if (m < rows && n < columns) {
            dweight[(t.part * s.o + t.group * rows + m) * columns + n] = sum_of(sum, e);
        }
    }
}

KERNEL matrix_parts(GLOBAL const float *part, GLOBAL float *to, u32 n, u32 parts, u32 adds) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i < n) {
        float sum = part[i];
        for (u32 k = 1; k < parts; k++) {
            sum += part[k * n + i];
        }
        put(to + i, adds, sum);
    }
}

/* dbias[o] = sum of dy[o] over all positions. There is a work-group for each o. */
KERNEL matrix_bias(window s, GLOBAL const float *dy, GLOBAL float *dbias) {
    LOCAL double room[GROUP_SIZE];
    u32 p = s.oh * s.ow, n = s.batch * p;
    double sum = 0.0;
    for (u32 i = LANE; i < n; i += GROUP_SIZE) {
        sum += (double)dy[(i / p * s.o + GROUP) * p + i % p];
    }
    sum = wg_sum(room, sum);
    if (LANE == 0) {
        dbias[GROUP] = (float)sum;
    }
}

/* n / stride. Divisions are slow, so the common strides 1, 2 and 4 use shifts. */
FUNC u32 by_stride(u32 n, u32 stride) {
    return stride == 1 ? n : stride == 2 ? n >> 1 : stride == 4 ? n >> 2 : n / stride;
}

/* dy at the output whose window has this input at tap (ky, kx), or 0. row and column are where
 * that window begins: the output's row and column times the stride. */
FUNC float output_at(window s, GLOBAL const float *dy, u32 at, i32 row, i32 column) {
    u32 r = by_stride((u32)row, s.stride), c = by_stride((u32)column, s.stride);
    u32 there = (row | column) >= 0 && r < s.oh && c < s.ow && r * s.stride == (u32)row &&
                c * s.stride == (u32)column;
    return there != 0 ? dy[at + r * s.ow + c] : 0.0f;
}

/* dx[b, c, i] = sum over o and taps of weight[o, c, tap] dy[b, o, p], where p is the output whose
 * window has input i at that tap. */
KERNEL matrix_input(window s, GLOBAL const float *weight, GLOBAL const float *dy, GLOBAL float *dx,
                    u32 adds, u32 by_product) {
    LOCAL f32x4 a[SLAB * TILE / 4];
    LOCAL f32x4 b[SLAB * TILE / 4];
    LOCAL places column;
    LOCAL place product;
    LOCAL u32 given[SLAB];
    u32 rows = s.c / s.groups, outputs = s.o / s.groups, area = s.h * s.w, taps = s.kh * s.kw;
    u32 columns = s.batch * area, products = outputs * taps;
    tile t = tile_of(rows, columns, s.groups);
    LOCALP float *pa = (LOCALP float *)a, *pb = (LOCALP float *)b;
    sums sum = no_sums();
    if (LANE < TILE) {
        u32 n = t.n + LANE, i = n % area;
        column.at[LANE] = (n / area * s.o + t.group * outputs) * s.oh * s.ow;
        column.y[LANE] = n < columns ? (i32)(i / s.w + s.pad) : -NOWHERE;
        column.x[LANE] = (i32)(i % s.w + s.pad);
    }
    for (u32 first = 0; first < products; first += SLAB) {
        if (LANE < SLAB) {
            u32 k = first + LANE, o = k / taps, tap = k % taps;
            product.at[LANE] = o * s.oh * s.ow;
            product.y[LANE] = k < products ? (i32)(tap / s.kw) : NOWHERE;
            product.x[LANE] = (i32)(tap % s.kw);
            given[LANE] = (t.group * outputs + o) * rows * taps + tap;
        }
        BARRIER();
        for (u32 i = 0; i < 4; i++) {
            u32 m = load_column(i, taps > 1), k = load_product(i, taps > 1);
            u32 inside = t.m + m < rows && first + k < products;
            pa[k * TILE + m] = inside != 0 ? weight[given[k] + (t.m + m) * taps] : 0.0f;
            u32 n = load_column(i, by_product);
            k = load_product(i, by_product);
            pb[k * TILE + n] = output_at(s, dy, column.at[n] + product.at[k],
                                         column.y[n] - product.y[k], column.x[n] - product.x[k]);
        }
        BARRIER();
        sum = multiply(a, b, sum);
    }
    for (u32 e = 0; e < 16; e++) {
        u32 m = t.m + row_of(e), n = t.n + column_of(e);
        if (m < rows && n < columns) {
            put(dx + (n / area * s.c + t.group * rows + m) * area + n % area, adds, sum_of(sum, e));
        }
    }
}

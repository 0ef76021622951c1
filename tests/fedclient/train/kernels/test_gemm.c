/* Matrix products in float32 and bfloat16 in every kernel set, compared with simple loops. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/rng.h"
#include "fedclient/train/kernels.h"

/* Sizes around those of the tiles (1 to 8 rows) and of the panels (12, 24 and 48 columns). */
static const size_t rows[] = {1, 2, 3, 4, 7, 8, 9, 21};
static const size_t columns[] = {1, 3, 4, 12, 13, 16, 17, 24, 31, 48, 49, 64, 97, 112};
static const size_t depths[] = {1, 5, 40};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { MOST = 128, PLACE = MOST * MOST, UNTOUCHED = 77 };

typedef struct matrices {
    float a[PLACE], b[PLACE], c[PLACE], pairs[PLACE], packed[PLACE], bias[MOST];
} matrices;

static const fedtrain_kernels *kernels_get(size_t k) {
    size_t float32 = 0;
    while (fedtrain_kernels_get(float32) != NULL) {
        float32++;
    }
    return k < float32 ? fedtrain_kernels_get(k) : fedtrain_kernels_bfloat16(k - float32);
}

/* Return a value from -1 to 1 that bfloat16 holds exactly. */
static float draw(fed_rng *rng) {
    enum { STEPS = 128 };
    return (float)fed_rng_below(rng, 2 * STEPS + 1) / STEPS - 1;
}

static matrices *make(void) {
    matrices *x = malloc(sizeof *x);
    assert_non_null(x);
    fed_rng rng;
    fed_rng_init(&rng, 3, 0, 0);
    for (size_t i = 0; i < PLACE; i++) {
        x->a[i] = draw(&rng);
        x->b[i] = draw(&rng);
        x->bias[i % MOST] = fed_rng_float(&rng);
    }
    return x;
}

static void check(const fedtrain_kernels *kernels, matrices *x, fedtrain_gemm g, int transposed) {
    size_t row = transposed ? 1 : g.n, column = transposed ? g.k : 1;
    g.a_row = transposed ? 1 : g.k + 2;
    g.a_column = transposed ? g.m : 1;
    g.c_row = g.n + 3;
    for (size_t i = 0; i < PLACE; i++) {
        x->c[i] = UNTOUCHED;
    }
    kernels->gemm_pack(x->b, row, column, g.k, g.n, x->packed);
    const float *a = x->a;
    if (kernels->pairs != NULL) {
        kernels->pairs(x->a, PLACE, g.a_column, x->pairs);
        a = x->pairs;
    }
    kernels->gemm(&g, a, x->packed, x->c);
    for (size_t i = 0; i < g.m; i++) {
        for (size_t j = 0; j < g.n; j++) {
            double sum = g.start == x->bias ? x->bias[j] : g.start == NULL ? 0 : UNTOUCHED;
            for (size_t l = 0; l < g.k; l++) {
                sum += (double)x->a[i * g.a_row + l * g.a_column] * x->b[l * row + j * column];
            }
            if (!(fabs(x->c[i * g.c_row + j] - sum) < 1e-4)) {
                fail_msg("%s, %zu x %zu x %zu: (%zu, %zu) is %g, not %g", kernels->isa, g.m, g.n,
                         g.k, i, j, (double)x->c[i * g.c_row + j], sum);
            }
        }
        for (size_t j = g.n; j < g.c_row; j++) {
            assert_true(x->c[i * g.c_row + j] == UNTOUCHED);
        }
    }
}

FED_TEST(test_products_of_any_size_are_right) {
    matrices *x = make();
    const fedtrain_kernels *kernels;
    for (size_t isa = 0; (kernels = kernels_get(isa)) != NULL; isa++) {
        for (size_t i = 0; i < COUNT(rows) * COUNT(columns) * COUNT(depths); i++) {
            fedtrain_gemm g = {.m = rows[i % COUNT(rows)],
                               .n = columns[i / COUNT(rows) % COUNT(columns)],
                               .k = depths[i / COUNT(rows) / COUNT(columns)]};
            check(kernels, x, g, 0);
            check(kernels, x, g, 1);
        }
    }
    free(x);
}

FED_TEST(test_a_product_is_added_to_what_it_starts_from) {
    matrices *x = make();
    const fedtrain_kernels *kernels;
    for (size_t isa = 0; (kernels = kernels_get(isa)) != NULL; isa++) {
        fedtrain_gemm g = {.m = 11, .n = 53, .k = 20, .start = x->bias};
        check(kernels, x, g, 0);
        g.start = x->c;
        g.start_row = g.n + 3;
        check(kernels, x, g, 1);
    }
    free(x);
}

FED_TEST(test_packing_keeps_to_its_place) {
    matrices *x = make();
    const fedtrain_kernels *kernels;
    for (size_t isa = 0; (kernels = kernels_get(isa)) != NULL; isa++) {
        for (size_t n = 1; n <= 100; n++) {
            size_t room = 3 * ((n + FEDTRAIN_PACKED - 1) / FEDTRAIN_PACKED * FEDTRAIN_PACKED);
            x->packed[room] = UNTOUCHED;
            kernels->gemm_pack(x->b, n, 1, 3, n, x->packed);
            kernels->gemm_pack(x->b, 1, 3, 3, n, x->packed);
            assert_true(x->packed[room] == UNTOUCHED);
        }
    }
    free(x);
}

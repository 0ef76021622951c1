/* Selection must be exact wherever the sample leads: against a sort, on data made to mislead it. */
#include "fed_test.h"

#include <float.h>
#include <math.h>

#include "codecs/prim/select.h"
#include "fed/rng.h"

typedef struct place {
    float value; /* with the side's sign taken off, or both signs */
    uint32_t index;
} place;

static int larger_first(const void *a, const void *b) {
    const place *left = a, *right = b;
    if (left->value != right->value) {
        return left->value > right->value ? -1 : 1;
    }
    return left->index < right->index ? -1 : 1;
}

static int by_index(const void *a, const void *b) {
    const place *left = a, *right = b;
    return left->index < right->index ? -1 : 1;
}

/* A sort's choice: of one sign, or (sign 0) by magnitude. */
static void assert_side(const float *x, size_t n, size_t k, float sign, fedcodec_chosen chosen) {
    place *places = malloc((n + 1) * sizeof *places);
    assert_non_null(places);
    for (size_t i = 0; i < n; i++) {
        places[i] = (place){sign == 0.0f ? fabsf(x[i]) : sign * x[i], (uint32_t)i};
    }
    qsort(places, n, sizeof *places, larger_first);
    size_t count = 0;
    while (count < k && places[count].value > 0.0f) {
        count++;
    }
    qsort(places, count, sizeof *places, by_index);
    assert_int_equal(chosen.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(chosen.index[i], places[i].index);
    }
    free(places);
}

static void assert_same_values(const float *x, fedcodec_chosen chosen) {
    for (size_t i = 0; i < chosen.count; i++) {
        assert_memory_equal(&chosen.value[i], &x[chosen.index[i]], sizeof *x);
    }
}

/* Memory of just that size, so that overruns are seen; one byte where it is 0. */
static void *exactly(size_t size) {
    void *memory = malloc(size + (size == 0));
    assert_non_null(memory);
    return memory;
}

/* x as a residual alone, or halved, as what is added to the other half: the sum is x again. */
static void assert_selects_sum(const float *x, size_t n, size_t k, bool halved) {
    fedcodec_chosen positive, negative, either;
    float *residual = exactly(n * sizeof *x), *added = exactly(n * sizeof *x);
    fedcodec_job job = {.residual = residual, .x = halved ? added : NULL, .n = n};
    for (int signs = 1; signs <= 2; signs++) {
        for (size_t i = 0; i < n; i++) {
            added[i] = 0.5f * x[i];
            residual[i] = halved ? x[i] - added[i] : x[i];
        }
        job.work = exactly(signs == 2 ? fedcodec_select_work_size(n, k)
                                      : fedcodec_select_magnitude_work_size(n, k));
        if (signs == 2) {
            assert_fed_ok(fedcodec_select(&job, k, &positive, &negative));
            assert_side(x, n, k, 1.0f, positive);
            assert_side(x, n, k, -1.0f, negative);
            assert_same_values(residual, positive);
            assert_same_values(residual, negative);
        } else {
            assert_fed_ok(fedcodec_select_magnitude(&job, k, &either));
            assert_side(x, n, k, 0.0f, either);
            assert_same_values(residual, either);
        }
        for (size_t i = 0; i < n; i++) {
            assert_true(residual[i] == x[i]);
        }
        free(job.work);
    }
    free(residual);
    free(added);
}

static void assert_selects(const float *x, size_t n, size_t k) {
    assert_selects_sum(x, n, k, false);
    assert_selects_sum(x, n, k, true);
}

enum { LARGE = 50021 };

static float *random_values(size_t n, uint32_t stream) {
    fed_rng rng;
    fed_rng_init(&rng, 99, stream, 0);
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        float u = fed_rng_float(&rng) - 0.5f;
        x[i] = u * u * u;
    }
    return x;
}

static void each_length_and_each_k_of_small_tensors(void **state) {
    (void)state;
    for (size_t n = 0; n <= 40; n++) {
        float *x = random_values(n, (uint32_t)n);
        for (size_t k = n > 0; k <= n; k++) {
            assert_selects(x, n, k);
        }
        free(x);
    }
}

static void random_values_of_a_large_tensor(void **state) {
    (void)state;
    static const size_t ks[] = {1, 2, 7, 51, 501, 5003, 25011, LARGE};
    float *x = random_values(LARGE, 1);
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        assert_selects(x, LARGE, ks[i]);
    }
    free(x);
}

static void many_equal_values_do_not_fit_the_candidates(void **state) {
    (void)state;
    float *x = random_values(LARGE, 2);
    for (size_t i = 0; i < LARGE; i++) {
        x[i] = i % 3 == 0 ? 0.5f : i % 3 == 1 ? -0.5f : x[i];
    }
    assert_selects(x, LARGE, 500);
    assert_selects(x, LARGE, 20000);
    free(x);
}

/* Large values only where the sample does not look; and small ones only where it does. */
static void values_hidden_from_the_sample(void **state) {
    (void)state;
    float *x = random_values(LARGE, 3);
    for (size_t i = 0; i < 4000; i++) {
        x[20000 + i] = (float)i * (i % 2 ? 1.0f : -1.0f);
    }
    assert_selects(x, LARGE, 10);
    assert_selects(x, LARGE, 500);
    for (size_t i = 0; i < LARGE; i++) {
        x[i] = i < 8000 ? (float)(i + 1) : -1e-3f * x[i];
    }
    assert_selects(x, LARGE, 5000);
    assert_selects(x, LARGE, 9000);
    free(x);
}

/* Larger values at just the places that are sampled: the threshold comes out too high. */
static void a_sample_of_the_largest_values_only(void **state) {
    (void)state;
    float *x = random_values(LARGE, 4);
    for (size_t i = 0; i < 2048; i++) {
        size_t first = (size_t)((uint64_t)i * LARGE / 2048);
        size_t next = (size_t)((uint64_t)(i + 1) * LARGE / 2048);
        uint32_t scatter = (uint32_t)i * UINT32_C(2654435769) >> 8;
        size_t at = first + (size_t)((uint64_t)scatter * (next - first) >> 24);
        x[at] = i % 2 ? 1.0f + x[at] : -1.0f - x[at];
    }
    assert_selects(x, LARGE, 4000);
    assert_selects(x, LARGE, 8000);
    free(x);
}

static void one_sign_only(void **state) {
    (void)state;
    float *x = random_values(LARGE, 5);
    for (size_t i = 0; i < LARGE; i++) {
        x[i] = fabsf(x[i]);
    }
    assert_selects(x, LARGE, 500);
    for (size_t i = 0; i < LARGE; i++) {
        x[i] = -x[i];
    }
    assert_selects(x, LARGE, 500);
    free(x);
}

static void zeros_of_either_sign_are_never_chosen(void **state) {
    (void)state;
    float *x = random_values(LARGE, 6);
    for (size_t i = 0; i < LARGE; i++) {
        x[i] = i % 1000 == 0 ? x[i] : i % 2 ? 0.0f : -0.0f;
    }
    assert_selects(x, LARGE, 500);
    assert_selects(x, 1000, 100);
    free(x);
}

static void extremes_of_the_float_range(void **state) {
    (void)state;
    float *x = random_values(LARGE, 7);
    for (size_t i = 0; i < LARGE; i++) {
        x[i] = i % 5 == 0   ? FLT_MAX
               : i % 5 == 1 ? -FLT_MAX
               : i % 5 == 2 ? FLT_TRUE_MIN
               : i % 5 == 3 ? -FLT_TRUE_MIN
                            : x[i];
    }
    assert_selects(x, LARGE, 500);
    assert_selects(x, LARGE, 15000);
    assert_selects(x, LARGE, 30000);
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_length_and_each_k_of_small_tensors),
        cmocka_unit_test(random_values_of_a_large_tensor),
        cmocka_unit_test(many_equal_values_do_not_fit_the_candidates),
        cmocka_unit_test(values_hidden_from_the_sample),
        cmocka_unit_test(a_sample_of_the_largest_values_only),
        cmocka_unit_test(one_sign_only),
        cmocka_unit_test(zeros_of_either_sign_are_never_chosen),
        cmocka_unit_test(extremes_of_the_float_range),
    };
    return cmocka_run_group_tests_name("select", tests, NULL, NULL);
}

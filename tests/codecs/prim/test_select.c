/* Selection by a sample must be exact for any data, also for data made to mislead the sample. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <float.h>
#include <math.h>

#include "codecs/prim/select.h"
#include "codecs/registry.h"
#include "fed/rng.h"

typedef struct functions {
    const char *unit;
    fed_status (*select)(const fedcodec_job *job, size_t k, fedcodec_chosen *positive,
                         fedcodec_chosen *negative);
    fed_status (*select_magnitude)(const fedcodec_job *job, size_t k, fedcodec_chosen *chosen);
    double (*mean_magnitude)(fedcodec_chosen chosen);
} functions;

#define FUNCTIONS(unit)                                                                            \
    {                                                                                              \
#unit, fedcodec_select_##unit, fedcodec_select_magnitude_##unit,                           \
            fedcodec_mean_magnitude_##unit                                                         \
    }

#if defined(__x86_64__)
#define DECLARE(unit)                                                                              \
    fed_status fedcodec_select_##unit(const fedcodec_job *job, size_t k,                           \
                                      fedcodec_chosen *positive, fedcodec_chosen *negative);       \
    fed_status fedcodec_select_magnitude_##unit(const fedcodec_job *job, size_t k,                 \
                                                fedcodec_chosen *chosen);                          \
    double fedcodec_mean_magnitude_##unit(fedcodec_chosen chosen)
DECLARE(avx2);
DECLARE(avx512);
#endif

static const functions all_functions[] = {
    {"plain", fedcodec_select, fedcodec_select_magnitude, fedcodec_mean_magnitude},
#if defined(__x86_64__)
    FUNCTIONS(avx2),
    FUNCTIONS(avx512),
#endif
};

static const functions *use;

typedef struct place {
    float value;
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

enum { LARGE = 50021 };

/* Compare the choice with that of a sort among the values of one sign or, if `sign` is 0, by
 * magnitude. */
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

/* Allocate memory without spare bytes, so that a sanitizer sees an access past its end. */
static void *exactly(size_t size) {
    void *memory = malloc(size + (size == 0));
    assert_non_null(memory);
    return memory;
}

/* A pool that runs the parts one after another, the last one first. */
static void run_backwards(const fed_pool *self, size_t parts, void (*part)(void *job, size_t k),
                          void *job) {
    (void)self;
    while (parts-- > 0) {
        part(job, parts);
    }
}

static const fed_pool backwards = {3, run_backwards};

/* Select from x as the residual alone, or from x halved into a residual and added values. */
static void assert_selects_sum(const float *x, size_t n, size_t k, bool halved,
                               const fed_pool *pool) {
    fedcodec_chosen positive, negative, either;
    float *residual = exactly(n * sizeof *x), *added = exactly(n * sizeof *x);
    fedcodec_job job = {.residual = residual, .x = halved ? added : NULL, .n = n, .pool = pool};
    for (int signs = 1; signs <= 2; signs++) {
        for (size_t i = 0; i < n; i++) {
            added[i] = 0.5f * x[i];
            residual[i] = halved ? x[i] - added[i] : x[i];
        }
        job.work = exactly(signs == 2 ? fedcodec_select_work_size(n, k)
                                      : fedcodec_select_magnitude_work_size(n, k));
        if (signs == 2) {
            assert_fed_ok(use->select(&job, k, &positive, &negative));
            assert_side(x, n, k, 1.0f, positive);
            assert_side(x, n, k, -1.0f, negative);
            assert_same_values(residual, positive);
            assert_same_values(residual, negative);
        } else {
            assert_fed_ok(use->select_magnitude(&job, k, &either));
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
    assert_selects_sum(x, n, k, false, NULL);
    assert_selects_sum(x, n, k, true, NULL);
    if (n == LARGE) {
        assert_selects_sum(x, n, k, true, &backwards);
    }
}

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

static void each_length_and_each_k_of_small_tensors(void) {
    for (size_t n = 0; n <= 40; n++) {
        float *x = random_values(n, (uint32_t)n);
        for (size_t k = n > 0; k <= n; k++) {
            assert_selects(x, n, k);
        }
        free(x);
    }
}

static void random_values_of_a_large_tensor(void) {
    static const size_t ks[] = {1, 2, 7, 51, 501, 5003, 25011, LARGE};
    float *x = random_values(LARGE, 1);
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        assert_selects(x, LARGE, ks[i]);
    }
    free(x);
}

static void many_equal_values_do_not_fit_the_candidates(void) {
    float *x = random_values(LARGE, 2);
    for (size_t i = 0; i < LARGE; i++) {
        x[i] = i % 3 == 0 ? 0.5f : i % 3 == 1 ? -0.5f : x[i];
    }
    assert_selects(x, LARGE, 500);
    assert_selects(x, LARGE, 20000);
    free(x);
}

static void large_values_that_stand_together(void) {
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

/* Values are larger only at the places that are sampled, so that the threshold becomes too high. */
static void a_sample_of_the_largest_values_only(void) {
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

static void one_sign_only(void) {
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

static void zeros_of_either_sign_are_never_chosen(void) {
    float *x = random_values(LARGE, 6);
    for (size_t i = 0; i < LARGE; i++) {
        x[i] = i % 1000 == 0 ? x[i] : i % 2 ? 0.0f : -0.0f;
    }
    assert_selects(x, LARGE, 500);
    assert_selects(x, 1000, 100);
    free(x);
}

static void extremes_of_the_float_range(void) {
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

static void lengths_around_the_first_sample(void) {
    float *x = random_values(LARGE, 8);
    for (size_t n = 4079; n <= 4114; n++) {
        assert_selects(x, n, 1);
        assert_selects(x, n, 41);
        assert_selects(x, n, n / 3);
    }
    free(x);
}

static void sorted_and_constant_values(void) {
    static const size_t ks[] = {1, 500, 5000, LARGE / 2};
    float *x = exactly(LARGE * sizeof *x);
    for (int order = -1; order <= 1; order++) {
        for (size_t i = 0; i < LARGE; i++) {
            x[i] = 1.0f + (float)order * (float)i / LARGE;
        }
        for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
            assert_selects(x, LARGE, ks[i]);
        }
    }
    free(x);
}

static void a_value_in_each_power_of_two(void) {
    float *x = exactly(LARGE * sizeof *x);
    for (size_t i = 0; i < LARGE; i++) {
        x[i] = ldexpf(i % 2 ? 1.0f : -1.0f, (int)(i % 268) - 140);
    }
    assert_selects(x, LARGE, 1);
    assert_selects(x, LARGE, 500);
    assert_selects(x, LARGE, 20000);
    free(x);
}

static void a_residual_that_is_not_finite_is_refused(void) {
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    const size_t lengths[] = {3, 1000, LARGE};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
            size_t n = lengths[i];
            float *x = random_values(n, 9);
            x[n / 2] = bad[j];
            fedcodec_chosen positive, negative;
            fedcodec_job job = {.residual = x, .n = n};
            job.work = exactly(fedcodec_select_work_size(n, 2));
            assert_fed_status(use->select(&job, 2, &positive, &negative), FED_ENONFINITE);
            assert_fed_status(use->select_magnitude(&job, 2, &positive), FED_ENONFINITE);
            free(job.work);
            free(x);
        }
    }
}

static void the_mean_is_that_of_the_sum_in_order(void) {
    for (int spread = 0; spread <= 40; spread += 4) {
        for (size_t n = 0; n <= 3000; n = 3 * n + 1) {
            float *x = random_values(n, 10);
            double sum = 0.0;
            for (size_t i = 0; i < n; i++) {
                x[i] = ldexpf(x[i] + copysignf(0.1f, x[i]), i % 3 == 0 ? spread : 0);
                sum += fabs((double)x[i]);
            }
            double mean = use->mean_magnitude((fedcodec_chosen){NULL, x, n});
            assert_true(mean == (n > 0 ? sum / (double)n : 0.0));
            free(x);
        }
    }
}

static int run(const functions *of) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(each_length_and_each_k_of_small_tensors),
        fed_unit_test(lengths_around_the_first_sample),
        fed_unit_test(random_values_of_a_large_tensor),
        fed_unit_test(many_equal_values_do_not_fit_the_candidates),
        fed_unit_test(large_values_that_stand_together),
        fed_unit_test(a_sample_of_the_largest_values_only),
        fed_unit_test(one_sign_only),
        fed_unit_test(zeros_of_either_sign_are_never_chosen),
        fed_unit_test(extremes_of_the_float_range),
        fed_unit_test(sorted_and_constant_values),
        fed_unit_test(a_value_in_each_power_of_two),
        fed_unit_test(a_residual_that_is_not_finite_is_refused),
        fed_unit_test(the_mean_is_that_of_the_sum_in_order),
    };
    use = of;
    return cmocka_run_group_tests_name(of->unit, tests, NULL, NULL);
}

int main(void) {
    int failed = 0;
    for (size_t k = 0; fedcodec_unit_at(k) != NULL; k++) {
        for (size_t i = 0; i < sizeof all_functions / sizeof all_functions[0]; i++) {
            if (strcmp(all_functions[i].unit, fedcodec_unit_at(k)->name) == 0) {
                failed += run(&all_functions[i]);
            }
        }
    }
    return failed;
}

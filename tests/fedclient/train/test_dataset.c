/* Samples as floats: scaled, normalised, cropped and flipped; means and deviations of a data
 * set. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fedtrain/dataset.h"

enum { COUNT = 3, C = 2, H = 4, W = 5, PLANE = H * W, SIZE = C * PLANE };

static uint8_t pixel[COUNT * SIZE];
static const uint8_t label[COUNT] = {4, 0, 9};
static const uint32_t every[COUNT] = {0, 1, 2};
static fedtrain_dataset set;

static int setup(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof pixel; i++) {
        pixel[i] = (uint8_t)(1 + i * 37 % 255); /* never 0, which is the padding */
    }
    assert_fed_ok(fedtrain_dataset_wrap(pixel, label, COUNT, (fed_shape){C, H, W}, &set));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fedtrain_dataset_free(&set);
    return 0;
}

FED_TEST(test_a_wrapped_set_borrows_its_pixels) {
    assert_int_equal(set.count, COUNT);
    assert_int_equal(set.classes, 10);
    assert_ptr_equal(set.block[0].first, pixel);
    assert_memory_equal(set.label, label, COUNT);
    fedtrain_dataset none;
    assert_fed_status(fedtrain_dataset_wrap(pixel, label, 0, (fed_shape){C, H, W}, &none),
                      FED_EINVAL);
    assert_fed_status(fedtrain_dataset_wrap(pixel, label, 1, (fed_shape){C, 0, W}, &none),
                      FED_EINVAL);
}

FED_TEST(test_gather_scales_pixels_to_one) {
    const uint32_t index[] = {2, 0, 2};
    const uint32_t wanted[] = {9, 4, 9};
    float x[3 * SIZE];
    uint32_t got[3];
    fedtrain_dataset_gather(&set, index, 3, x, got);
    assert_memory_equal(got, wanted, sizeof got);
    for (size_t i = 0; i < SIZE; i++) {
        assert_true(x[i] == (float)pixel[2 * SIZE + i] / 255.0F);
        assert_true(x[SIZE + i] == (float)pixel[i] / 255.0F);
        assert_true(x[2 * SIZE + i] == x[i]);
    }
}

FED_TEST(test_a_normalised_set_has_mean_0_and_deviation_1) {
    float mean[C], deviation[C], x[COUNT * SIZE];
    uint32_t got[COUNT];
    fedtrain_dataset_measure(&set, mean, deviation);
    assert_fed_ok(fedtrain_dataset_normalise(&set, mean, deviation));
    fedtrain_dataset_gather(&set, every, COUNT, x, got);
    for (size_t c = 0; c < C; c++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < COUNT * PLANE; i++) {
            double v = x[i / PLANE * SIZE + c * PLANE + i % PLANE];
            sum += v;
            squares += v * v;
        }
        assert_true(fabs(sum / (COUNT * PLANE)) < 1e-5);
        assert_true(fabs(squares / (COUNT * PLANE) - 1) < 1e-5);
    }
    /* The measured mean and deviation are of the files' values, without normalisation. */
    float again[C], deviation_again[C];
    fedtrain_dataset_measure(&set, again, deviation_again);
    assert_memory_equal(again, mean, sizeof mean);
    assert_memory_equal(deviation_again, deviation, sizeof deviation);
}

FED_TEST(test_a_constant_channel_is_left_finite) {
    float mean[C], deviation[C];
    memset(pixel, 51, sizeof pixel);
    fedtrain_dataset_measure(&set, mean, deviation);
    assert_true(mean[0] == 51.0F / 255.0F);
    assert_true(deviation[1] == 1.0F);
}

FED_TEST(test_impossible_normalisations_are_refused) {
    const float mean[C] = {0, 0}, zero[C] = {1, 0}, negative[C] = {-1, 1}, nan[C] = {1, NAN};
    const float infinite[C] = {INFINITY, 0}, one[C] = {1, 1}, tiny[C] = {1, 1e-42F};
    assert_fed_status(fedtrain_dataset_normalise(&set, mean, zero), FED_EINVAL);
    assert_fed_status(fedtrain_dataset_normalise(&set, mean, negative), FED_EINVAL);
    assert_fed_status(fedtrain_dataset_normalise(&set, mean, nan), FED_EINVAL);
    assert_fed_status(fedtrain_dataset_normalise(&set, mean, tiny), FED_EINVAL);
    assert_fed_status(fedtrain_dataset_normalise(&set, infinite, one), FED_EINVAL);
    assert_null(set.scale);
}

static float expected(const uint8_t *sample, size_t i, int dy, int dx, bool flip) {
    int c = (int)(i / PLANE), y = (int)(i % PLANE / W) + dy, x = (int)(i % W);
    x = (flip ? W - 1 - x : x) + dx;
    bool inside = y >= 0 && y < H && x >= 0 && x < W;
    return inside ? (float)sample[c * PLANE + y * W + x] / 255.0F : 0;
}

/* Count in seen which of the possible augmentations x is. The test fails if x is none. */
static void classify(const float *x, int padding, bool flip, unsigned *seen) {
    unsigned kind = 0;
    for (int dy = -padding; dy <= padding; dy++) {
        for (int dx = -padding; dx <= padding; dx++) {
            for (int f = 0; f <= (int)flip; f++, kind++) {
                size_t same = 0;
                while (same < SIZE && x[same] == expected(pixel, same, dy, dx, f == 1)) {
                    same++;
                }
                if (same == SIZE) {
                    seen[kind]++;
                    return;
                }
            }
        }
    }
    fail_msg("the augmentation made a picture that is no cut or flip of its sample");
}

static void check_kinds(uint32_t padding, bool flip, size_t kinds) {
    unsigned seen[64] = {0};
    float x[SIZE];
    uint32_t got;
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < 40 * kinds; i++) {
        fedtrain_dataset_gather_augmented(&set, &(fedtrain_augment){padding, flip}, &rng, every, 1,
                                          x, &got);
        assert_int_equal(got, label[0]);
        classify(x, (int)padding, flip, seen);
    }
    for (size_t i = 0; i < kinds; i++) {
        assert_true(seen[i] > 10 && seen[i] < 90);
    }
}

FED_TEST(test_every_cut_and_flip_is_about_as_likely) {
    check_kinds(1, false, 9);
    check_kinds(0, true, 2);
    check_kinds(1, true, 18);
    check_kinds(2, true, 50);
}

FED_TEST(test_padding_is_black_before_normalisation) {
    const float mean[C] = {0.5F, 0.25F}, deviation[C] = {0.5F, 0.125F};
    float x[SIZE];
    uint32_t got;
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    memset(pixel, 255, sizeof pixel);
    assert_fed_ok(fedtrain_dataset_normalise(&set, mean, deviation));
    size_t black = 0;
    for (int i = 0; i < 50; i++) {
        fedtrain_dataset_gather_augmented(&set, &(fedtrain_augment){.padding = 3}, &rng, every, 1,
                                          x, &got);
        for (size_t p = 0; p < SIZE; p++) {
            float white = p < PLANE ? 1 : 6, dark = p < PLANE ? -1 : -2;
            assert_true(x[p] == white || x[p] == dark);
            black += x[p] == dark;
        }
    }
    assert_true(black > 0);
}

FED_TEST(test_the_seed_alone_decides_how_pictures_vary) {
    float a[COUNT * SIZE], b[COUNT * SIZE];
    uint32_t got[COUNT];
    for (uint64_t seed = 0; seed < 3; seed++) {
        fed_rng rng, same;
        fed_rng_init(&rng, seed, 0, 0);
        same = rng;
        const fedtrain_augment how = {.padding = 2, .flip = true};
        fedtrain_dataset_gather_augmented(&set, &how, &rng, every, COUNT, a, got);
        fedtrain_dataset_gather_augmented(&set, &how, &same, every, COUNT, b, got);
        assert_memory_equal(a, b, sizeof a);
        fedtrain_dataset_gather_augmented(&set, &how, &rng, every, COUNT, b, got);
        assert_memory_not_equal(a, b, sizeof a);
    }
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}

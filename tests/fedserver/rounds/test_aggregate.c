/* The exact sum of updates: its value, what it refuses, and that a refused update changes
 * nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fedserver/rounds/aggregate.h"

enum { SIZE = 3 };

typedef struct fixture {
    fed_layout layout;
    fedserver_sum sum;
} fixture;

static int setup(void **state) {
    static fixture f;
    fed_layout_init(&f.layout);
    assert_fed_ok(fed_layout_add(&f.layout, "w", 1, (uint32_t[]){SIZE}));
    assert_fed_ok(fedserver_sum_init(&f.sum, &f.layout, &(fedserver_strategy){0}, NULL));
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    fedserver_sum_free(&f->sum);
    fed_layout_free(&f->layout);
    return 0;
}

static fedcodec_message encode(const fixture *f, const float x[SIZE], fed_writer *bytes) {
    fed_error err = {0};
    fedcodec codec;
    fedcodec_message values;
    float residual[SIZE] = {0};
    fed_writer_growing(bytes);
    assert_fed_ok_err(fedcodec_parse("float32", &codec, &err));
    void *work = malloc(fedcodec_envelope_work_size(&codec, &f->layout, 0));
    assert_non_null(work);
    assert_fed_ok(fedcodec_envelope_encode(&codec, &f->layout, 0, residual, x, work, bytes));
    free(work);
    assert_fed_ok_err(
        fedcodec_message_open(bytes->data, bytes->len, &f->layout, NULL, 0, &values, &err));
    return values;
}

static void drop(fedcodec_message *values, fed_writer *bytes) {
    fedcodec_message_close(values);
    fed_writer_free(bytes);
}

static fed_status add_weighted(fixture *f, const float x[SIZE], uint32_t samples, uint32_t weight,
                               float loss) {
    fed_error err = {0};
    fed_writer bytes;
    fedcodec_message values = encode(f, x, &bytes);
    const fedserver_contribution contribution = {.device = f->sum.updates + 1,
                                                 .weight = (uint64_t)weight * samples,
                                                 .samples = samples,
                                                 .loss = loss,
                                                 .bytes = bytes.len};
    fed_status status = fedserver_sum_add(&f->sum, &values, contribution, &err);
    drop(&values, &bytes);
    return status;
}

/* End the round. `x` has the values of each update. */
static fedserver_weights settle(fixture *f, double most, const float (*x)[SIZE]) {
    fed_error err = {0};
    fedserver_weights weights;
    bool refold = false;
    assert_fed_ok_err(fedserver_sum_settle(&f->sum, most, &weights, &refold, &err));
    for (uint32_t k = 0; refold && k < f->sum.updates; k++) {
        fed_writer bytes;
        fedcodec_message values = encode(f, x[k], &bytes);
        assert_fed_ok_err(fedserver_sum_refold(&f->sum, k, &values, &err));
        drop(&values, &bytes);
    }
    return weights;
}

static fed_status add(fixture *f, const float x[SIZE], uint32_t samples, float loss) {
    return add_weighted(f, x, samples, 1, loss);
}

FED_TEST_WITH(a_weight_counts_as_so_many_times_the_samples, fixture *f) {
    float mean[SIZE];
    assert_fed_ok(add_weighted(f, (float[]){1, -2, 16}, 2, 3, 4));
    assert_fed_ok(add_weighted(f, (float[]){5, 2, -16}, 1, 2, 8));
    fedserver_sum_mean(&f->sum, mean);
    assert_true(mean[0] == 2.0f && mean[1] == -1.0f && mean[2] == 8.0f);
    assert_int_equal(f->sum.samples, 3);
    assert_int_equal(f->sum.weight, 8);
}

FED_TEST_WITH(the_mean_weighs_by_samples, fixture *f) {
    float mean[SIZE];
    assert_fed_ok(add(f, (float[]){1, -2, 16}, 1, 4));
    assert_fed_ok(add(f, (float[]){5, 2, -16}, 3, 8));
    fedserver_sum_mean(&f->sum, mean);
    assert_true(mean[0] == 4.0f && mean[1] == 1.0f && mean[2] == -8.0f);
    assert_true(settle(f, 0.5, NULL).loss == 7.0);
    assert_int_equal(f->sum.updates, 2);
}

FED_TEST_WITH(clearing_starts_from_nothing, fixture *f) {
    float mean[SIZE];
    assert_fed_ok(add(f, (float[]){1, 1, 1}, 9, 1));
    fedserver_sum_clear(&f->sum);
    assert_int_equal(f->sum.samples + f->sum.updates + f->sum.bytes, 0);
    assert_fed_ok(add(f, (float[]){3, 3, 3}, 2, 1));
    fedserver_sum_mean(&f->sum, mean);
    assert_true(mean[0] == 3.0f && mean[2] == 3.0f);
}

/* The largest number of samples and the largest weight. */
FED_TEST_WITH(no_number_of_samples_is_too_large_for_the_sum, fixture *f) {
    enum { MANY = 200 };
    static float x[MANY][SIZE];
    float mean[SIZE];
    for (int k = 0; k < MANY; k++) {
        memcpy(x[k], (float[]){16, -16, k % 2 == 0 ? 1 : 3}, sizeof x[k]);
        assert_fed_ok(add_weighted(f, x[k], UINT32_MAX, 64, 1));
    }
    const fedserver_weights weights = settle(f, 0.5, (const float(*)[SIZE])x);
    assert_false(weights.as_claimed);
    assert_in_range(weights.weight, 1 << 28, (1 << 29) - 1);
    fedserver_sum_mean(&f->sum, mean);
    assert_true(mean[0] == 16.0f && mean[1] == -16.0f && mean[2] == 2.0f);
}

FED_TEST_WITH(who_claims_most_does_not_outweigh_the_others, fixture *f) {
    static const float x[3][SIZE] = {{1, 0, 0}, {1, 0, 0}, {-1, 0, 0}};
    float mean[SIZE];
    assert_fed_ok(add(f, x[0], 10, 1));
    assert_fed_ok(add(f, x[1], 30, 1));
    assert_fed_ok(add(f, x[2], 1 << 20, 1));
    const fedserver_weights weights = settle(f, 0.5, x);
    fedserver_sum_mean(&f->sum, mean);
    assert_true(mean[0] == 0.0f);
    assert_int_equal(weights.heaviest, 3);
    assert_true(weights.heaviest_lowered && !weights.furthest_lowered);
    assert_true(weights.heaviest_share > 0.99 && weights.heaviest_share < 1);
}

FED_TEST_WITH(what_is_refused_leaves_no_trace, fixture *f) {
    assert_fed_status(add(f, (float[]){1, 1, 16.5f}, 1, 1), FED_ERANGE);
    assert_int_equal(f->sum.samples + f->sum.updates + f->sum.bytes, 0);
    assert_true(f->sum.acc[0] == 0 && f->sum.acc[1] == 0 && f->sum.acc[2] == 0);
}

/* Return the norm of the mean of one update of norm `norm`, which eden sends and clip:norm=1 may
 * shorten. sent: the norm of the update as decoded. */
static double clipped_norm(double norm, double *sent) {
    enum { MANY = 4096 };
    static float x[MANY], decoded[MANY], mean[MANY];
    fixture f = {0};
    fedserver_strategy strategy;
    fedcodec codec;
    fedcodec_message values;
    fed_writer bytes;
    fed_error err = {0};
    fed_layout_init(&f.layout);
    assert_fed_ok(fed_layout_add(&f.layout, "w", 1, (uint32_t[]){MANY}));
    assert_fed_ok_err(fedserver_strategy_parse("fedavg+clip:norm=1", &strategy, &err));
    assert_fed_ok(fedserver_sum_init(&f.sum, &f.layout, &strategy, NULL));
    assert_fed_ok_err(fedcodec_parse("eden:p=0.008", &codec, &err));
    for (size_t i = 0; i < MANY; i++) {
        x[i] = (float)(i % 2 == 0 ? norm / 64 : -norm / 64);
    }
    void *work = malloc(fedcodec_envelope_work_size(&codec, &f.layout, 0));
    assert_non_null(work);
    fed_writer_growing(&bytes);
    assert_fed_ok(fedcodec_envelope_encode(&codec, &f.layout, 0, NULL, x, work, &bytes));
    assert_fed_ok_err(
        fedcodec_message_open(bytes.data, bytes.len, &f.layout, &codec, 0, &values, &err));
    assert_fed_ok_err(fedcodec_message_decode(&values, decoded, &err));
    assert_fed_ok_err(fedserver_sum_add(
        &f.sum, &values, (fedserver_contribution){.device = 1, .weight = 1, .samples = 1}, &err));
    fedserver_sum_mean(&f.sum, mean);
    double squares = 0, sent_squares = 0;
    for (size_t i = 0; i < MANY; i++) {
        squares += (double)mean[i] * (double)mean[i];
        sent_squares += (double)decoded[i] * (double)decoded[i];
    }
    drop(&values, &bytes);
    free(work);
    fedserver_sum_free(&f.sum);
    fed_layout_free(&f.layout);
    *sent = sqrt(sent_squares);
    return sqrt(squares);
}

/* Of eden's values below a bit, what arrives is 3.7 times as long as the update. */
FED_TEST(clip_shortens_by_the_norm_that_the_device_had) {
    double sent = 0;
    double norm = clipped_norm(0.9, &sent);
    assert_true(sent > 2.5 && fabs(norm - sent) < 1e-4);
    norm = clipped_norm(2.0, &sent);
    assert_true(fabs(norm / sent - 0.5) < 0.03);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}

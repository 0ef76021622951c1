/* The exact sum: what it is, what it refuses, and that a refusal leaves no trace. */
#include "fed_test.h"

#include "fedcodec/envelope.h"
#include "fedserver/aggregate.h"

enum { SIZE = 3 };

typedef struct fixture {
    fed_layout layout;
    fedserver_sum sum;
} fixture;

static int setup(void **state) {
    static fixture f;
    fed_layout_init(&f.layout);
    assert_fed_ok(fed_layout_add(&f.layout, "w", 1, (uint32_t[]){SIZE}));
    assert_fed_ok(fedserver_sum_init(&f.sum, &f.layout, &(fedserver_strategy){0}));
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    fedserver_sum_free(&f->sum);
    fed_layout_free(&f->layout);
    return 0;
}

static fed_status add_weighted(fixture *f, const float x[SIZE], uint32_t samples, uint32_t weight,
                               float loss) {
    fed_error err = {0};
    fedcodec codec;
    float residual[SIZE] = {0};
    fed_writer body;
    fed_writer_growing(&body);
    fed_update_write(&body, &(fed_update){.samples = samples, .loss = loss});
    assert_fed_ok_err(fedcodec_parse("float32", &codec, &err));
    void *work = malloc(fedcodec_envelope_work_size(&codec, &f->layout, 0));
    assert_non_null(work);
    assert_fed_ok(fedcodec_envelope_encode(&codec, &f->layout, 0, residual, x, work, &body));
    free(work);
    fedserver_update update;
    fed_status status = fedserver_update_read(body.data, body.len, &update);
    if (status == FED_OK) {
        assert_int_equal(body.len - update.envelope_len, fedserver_update_head_size());
        status = fedserver_sum_add(&f->sum, &f->layout, &update, weight, &err);
    }
    fed_writer_free(&body);
    return status;
}

static fed_status add(fixture *f, const float x[SIZE], uint32_t samples, float loss) {
    return add_weighted(f, x, samples, 1, loss);
}

static void a_weight_counts_as_so_many_times_the_samples(void **state) {
    fixture *f = *state;
    float mean[SIZE];
    assert_fed_ok(add_weighted(f, (float[]){1, -2, 16}, 2, 3, 4));
    assert_fed_ok(add_weighted(f, (float[]){5, 2, -16}, 1, 2, 8));
    fedserver_sum_mean(&f->sum, mean);
    assert_true(mean[0] == 2.0f && mean[1] == -1.0f && mean[2] == 8.0f);
    assert_int_equal(f->sum.samples, 3);
    assert_int_equal(f->sum.weight, 8);
    for (uint64_t left = (1 << 29) - 1 - 8; left > 0;) {
        uint32_t samples = left < (63 << 20) ? 1 : 1 << 20;
        uint32_t weight = (uint32_t)(samples > 1 ? 63 : left);
        assert_fed_ok(add_weighted(f, (float[]){0, 0, 0}, samples, weight, 1));
        left -= (uint64_t)samples * weight;
    }
    assert_fed_status(add_weighted(f, (float[]){0, 0, 0}, 1, 1, 1), FED_ERANGE);
}

static void the_mean_weighs_by_samples(void **state) {
    fixture *f = *state;
    float mean[SIZE];
    assert_fed_ok(add(f, (float[]){1, -2, 16}, 1, 4));
    assert_fed_ok(add(f, (float[]){5, 2, -16}, 3, 8));
    fedserver_sum_mean(&f->sum, mean);
    assert_true(mean[0] == 4.0f && mean[1] == 1.0f && mean[2] == -8.0f);
    assert_true(f->sum.loss / (double)f->sum.samples == 7.0);
    assert_int_equal(f->sum.updates, 2);
}

static void clearing_starts_from_nothing(void **state) {
    fixture *f = *state;
    float mean[SIZE];
    assert_fed_ok(add(f, (float[]){1, 1, 1}, 9, 1));
    fedserver_sum_clear(&f->sum);
    assert_int_equal(f->sum.samples + f->sum.updates + f->sum.bytes, 0);
    assert_fed_ok(add(f, (float[]){3, 3, 3}, 2, 1));
    fedserver_sum_mean(&f->sum, mean);
    assert_true(mean[0] == 3.0f && mean[2] == 3.0f);
}

static void the_largest_sum_there_can_be_does_not_overflow(void **state) {
    fixture *f = *state;
    float mean[SIZE];
    for (int k = 0; k < 511; k++) {
        assert_fed_ok(add(f, (float[]){16, -16, 0}, 1 << 20, 1));
    }
    assert_fed_status(add(f, (float[]){16, -16, 0}, 1 << 20, 1), FED_ERANGE); /* that were 2^29 */
    assert_fed_ok(add(f, (float[]){16, -16, 0}, (1 << 20) - 1, 1));
    fedserver_sum_mean(&f->sum, mean);
    assert_true(mean[0] == 16.0f && mean[1] == -16.0f && mean[2] == 0.0f);
}

static void what_is_refused_leaves_no_trace(void **state) {
    fixture *f = *state;
    assert_fed_status(add(f, (float[]){1, 1, 1}, (1 << 20) + 1, 1), FED_ERANGE);
    assert_fed_status(add(f, (float[]){1, 1, 16.5f}, 1, 1), FED_ERANGE);
    assert_fed_status(add(f, (float[]){1, 1, 1}, 0, 1), FED_EFORMAT);
    assert_int_equal(f->sum.samples + f->sum.updates + f->sum.bytes, 0);
    assert_true(f->sum.acc[0] == 0 && f->sum.acc[1] == 0 && f->sum.acc[2] == 0);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(the_mean_weighs_by_samples),      WITH(a_weight_counts_as_so_many_times_the_samples),
        WITH(clearing_starts_from_nothing),    WITH(the_largest_sum_there_can_be_does_not_overflow),
        WITH(what_is_refused_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

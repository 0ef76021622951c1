/* Plain updates: how they are decoded, what is refused and why, and their largest size. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/arch.h"
#include "fedserver/rounds/intake.h"
#include "fedserver/task/config.h"

enum { VALUES = 66 }; /* values of "dense 2" on 32 inputs */

typedef struct fixture {
    fedserver_task task;
    fed_arch arch;
    fed_writer body;
} fixture;

static const char task_text[] =
    "{\"model\": \"input 32 | dense 2\", \"codec_up\": \"3lc:s=1\", \"cohort\": 2, \"rounds\": 4,"
    " \"phases\": [{\"round\": 3, \"codec_up\": \"float32\"}]}";

static int setup(void **state) {
    static fixture f;
    fed_error err = {0};
    fedserver_config config;
    assert_fed_ok_err(
        fedserver_config_parse("task.json", task_text, strlen(task_text), &config, &err));
    f.task = config.task;
    assert_fed_ok_err(fed_arch_parse(f.task.wire.model, &f.arch, &err));
    assert_int_equal(f.arch.layout.size, VALUES);
    fed_writer_growing(&f.body);
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    fed_writer_free(&f->body);
    fed_arch_free(&f->arch);
    return 0;
}

static void encode(fixture *f, uint32_t round, const char *spec, float x, float loss) {
    fedcodec codec;
    float residual[VALUES];
    for (size_t i = 0; i < VALUES; i++) {
        residual[i] = x;
    }
    f->body.len = 0;
    fed_update_write(&f->body, &(fed_update){.round = round, .samples = 5, .loss = loss});
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    const uint32_t small = f->task.wire.small_tensor;
    void *work = malloc(fedcodec_envelope_work_size(&codec, &f->arch.layout, small) + 1);
    assert_non_null(work);
    assert_fed_ok(
        fedcodec_envelope_encode(&codec, &f->arch.layout, small, residual, NULL, work, &f->body));
    free(work);
}

static fed_status open_update(fixture *f, fedserver_update *update, fed_error *err) {
    assert_fed_ok(fedserver_intake_read(f->body.data, f->body.len, update, NULL));
    return fedserver_intake_of(&f->task)->open(&f->task, &f->arch.layout, update, err);
}

FED_TEST_WITH(an_update_is_taken_apart_and_its_values_opened, fixture *f) {
    fed_error err = {0};
    fedserver_update update;
    float y[VALUES];
    encode(f, 1, "3lc:s=1", 0.5f, 2);
    assert_fed_ok_err(open_update(f, &update, &err));
    assert_int_equal(update.head.samples, 5);
    assert_ptr_equal(update.body, f->body.data);
    assert_int_equal(update.body_len, f->body.len);
    assert_int_equal(update.body_len - update.envelope_len, fedserver_intake_head_bytes());
    assert_fed_ok_err(fedcodec_message_decode(&update.values, y, &err));
    assert_true(y[0] == 0.5f && y[VALUES - 1] == 0.5f && update.values.max_abs == 0.5f);
    fedserver_intake_of(&f->task)->drop(&update);
}

FED_TEST_WITH(an_update_is_judged_by_its_rounds_phase, fixture *f) {
    fed_error err = {0};
    fedserver_update update;
    encode(f, 3, "3lc:s=1", 0.5f, 2);
    assert_fed_status(open_update(f, &update, &err), FED_EFORMAT);
    assert_fed_says(err, "sent as 3lc, expected float32");
    fedserver_intake_of(&f->task)->drop(&update);
    encode(f, 3, "float32", 0.5f, 2);
    assert_fed_ok_err(open_update(f, &update, &err));
    fedserver_intake_of(&f->task)->drop(&update);
}

FED_TEST_WITH(values_and_losses_that_no_sum_can_hold_are_out_of_range, fixture *f) {
    fed_error err = {0};
    fedserver_update update;
    encode(f, 1, "3lc:s=1", 16.5f, 2);
    assert_fed_status(open_update(f, &update, &err), FED_ERANGE);
    assert_fed_says(err, "a value of magnitude 16.5; the sum takes up to 16");
    encode(f, 1, "3lc:s=1", 0.5f, -3e38f);
    assert_fed_status(open_update(f, &update, &err), FED_ERANGE);
    assert_fed_says(err, "has its training diverged?");
}

FED_TEST_WITH(a_cut_body_is_refused, fixture *f) {
    fedserver_update update;
    encode(f, 1, "3lc:s=1", 0.5f, 2);
    const size_t len = f->body.len;
    for (f->body.len = 0; f->body.len < len; f->body.len++) {
        if (f->body.len < fedserver_intake_head_bytes()) {
            assert_fed_status(fedserver_intake_read(f->body.data, f->body.len, &update, NULL),
                              FED_EFORMAT);
        } else {
            assert_fed_status(open_update(f, &update, NULL), FED_EFORMAT);
        }
    }
}

FED_TEST_WITH(no_phase_sends_more_than_the_most_bytes, fixture *f) {
    fed_error err = {0};
    uint64_t most = 0;
    assert_fed_ok_err(fedserver_intake_most_bytes(&f->task, &f->arch.layout, &most, &err));
    encode(f, 3, "float32", 0.5f, 2);
    assert_in_range(most, f->body.len + FED_OWN_BYTES, f->body.len + FED_OWN_BYTES + 16);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}

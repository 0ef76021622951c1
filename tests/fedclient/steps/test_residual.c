/* A device's residual: it survives a change of the codec, the program is told which values were
 * counted, and with momentum on the device the result is DGC (Deep Gradient Compression). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed/optimizer_spec.h"
#include "fed/rng.h"
#include "fed_cases.h"
#include "fed_device.h"
#include "fedtrain/optimizer.h"

enum { N = 27, ROUNDS = 12 };

typedef struct curious {
    fed_device device; /* must be the first member: the callback gets a pointer to it */
    fed_status (*train)(void *user, fedclient_round *round, fed_error *err);
    unsigned told; /* how often fedclient_round_sent has called note_sent in the last training */
    float sent[N];
    uint64_t number;
    bool owes;
} curious;

static void note_sent(void *user, const float *sent, size_t count) {
    curious *c = user;
    assert_int_equal(count, N);
    memcpy(c->sent, sent, sizeof c->sent);
    c->told++;
}

static fed_status ask_then_train(void *user, fedclient_round *round, fed_error *err) {
    curious *c = user;
    float model[N];
    memcpy(model, round->values, sizeof model);
    c->told = 0;
    c->number = round->number;
    c->owes = round->owes;
    FED_TRY(fedclient_round_sent(round, note_sent, c, err));
    assert_memory_equal(round->values, model, sizeof model);
    return c->train(user, round, err);
}

static int setup(void **state) {
    curious *c = calloc(1, sizeof *c);
    assert_non_null(c);
    fed_device_open(&c->device, "dgc:p=0.1", ROUNDS);
    c->train = c->device.options.train;
    c->device.options.train = ask_then_train;
    fed_device_restart(&c->device);
    *state = c;
    return 0;
}

/** Do a round that is counted. sent[N]: the values that the coordinator has counted. */
static void count_round(curious *c, float *sent) {
    float before[N];
    memcpy(before, c->device.fake.counted, sizeof before);
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    unsigned some = 0;
    for (int i = 0; i < N; i++) {
        sent[i] = c->device.fake.counted[i] - before[i];
        some += sent[i] != 0;
    }
    assert_true(some > 0 && some < N);
}

FED_TEST_WITH(what_was_counted_is_told_before_the_next_training, curious *c) {
    float sent[N], next[N];
    count_round(c, sent);
    assert_int_equal(c->told, 0);
    for (int k = 0; k < 3; k++) {
        count_round(c, next);
        assert_int_equal(c->told, 1);
        assert_memory_equal(c->sent, sent, sizeof sent);
        memcpy(sent, next, sizeof sent);
    }
    fed_device_check(&c->device, 0);
}

FED_TEST_WITH(what_was_refused_is_not_told, curious *c) {
    float sent[N];
    count_round(c, sent);
    fed_fake_refuse(&c->device.fake, "/v1/update", 409, "round_closed");
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_REFUSED);
    assert_int_equal(c->told, 1);
    count_round(c, sent);
    assert_int_equal(c->told, 0);
    count_round(c, sent);
    assert_int_equal(c->told, 1);
}

FED_TEST_WITH(a_device_that_was_off_is_told_too, curious *c) {
    float sent[N], next[N];
    count_round(c, sent);
    fed_device_restart(&c->device);
    count_round(c, next);
    assert_int_equal(c->told, 1);
    assert_memory_equal(c->sent, sent, sizeof sent);
}

FED_TEST_WITH(it_is_told_again_until_a_training_is_durable, curious *c) {
    float sent[N], next[N];
    count_round(c, sent);
    fedclient_event event;
    c->device.flash.dies_at = c->device.flash.puts + 1;
    assert_true(fed_device_step(&c->device, &event) != FED_OK);
    assert_int_equal(c->told, 1);
    fed_device_restart(&c->device);
    count_round(c, next);
    assert_int_equal(c->told, 1);
    assert_memory_equal(c->sent, sent, sizeof sent);
    fed_device_check(&c->device, 0);
}

FED_TEST_WITH(another_task_is_told_nothing_of_the_one_before, curious *c) {
    float sent[N];
    count_round(c, sent);
    fed_fake_new_task(&c->device.fake, "input 8 | dense 3");
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(c->told, 0);
}

FED_TEST_WITH(what_carries_everything_is_not_told, curious *c) {
    snprintf(c->device.fake.task.codec_up, sizeof c->device.fake.task.codec_up, "float32");
    for (int k = 0; k < 2; k++) {
        assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
        assert_int_equal(c->told, 0);
    }
}

FED_TEST_WITH(what_is_owed_outlives_a_change_of_codec, curious *c) {
    fed_device *device = &c->device;
    static const char *const codecs[] = {"dgc:p=0.25", "sbc:p=0.05", "3lc:s=1", "topk:p=0.1",
                                         "onebit",     "dgc:p=0.04", "float32"};
    for (size_t k = 0; k < sizeof codecs / sizeof codecs[0]; k++) {
        snprintf(device->fake.task.codec_up, sizeof device->fake.task.codec_up, "%s", codecs[k]);
        device->step =
            k == 6 ? 0 : 1.0f / 1024; /* the last training is 0: only the residual is sent */
        assert_true(k == 0 || fed_device_owed(device) > 0);
        assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
        fed_device_check(device, 1e-6f);
    }
    assert_true(fed_device_owed(device) == 0);
}

FED_TEST_WITH(a_trainings_number_comes_again_until_it_is_stored, curious *c) {
    fedclient_event event;
    c->device.answer = FED_EIO;
    fed_device_fail(&c->device, FED_EIO);
    const uint64_t first = c->number;
    fed_device_restart(&c->device);
    c->device.answer = FED_OK;
    c->device.flash.dies_at = c->device.flash.puts; /* the put of the residual */
    assert_int_not_equal(fed_device_step(&c->device, &event), FED_OK);
    assert_int_equal(c->number, first);
    fed_device_restart(&c->device);
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    fed_device_restart(&c->device);
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_true(c->number > first);
}

FED_TEST_WITH(what_was_refused_is_owed, curious *c) {
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_false(c->owes);
    fed_fake_refuse(&c->device.fake, "/v1/update", 409, "round_closed");
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_REFUSED);
    assert_false(c->owes);
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_true(c->owes);
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_false(c->owes);
}

static fed_status change_a_little(void *user, fedclient_round *round, fed_error *err) {
    (void)user;
    (void)err;
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] = 0x1p-40f;
    }
    round->is_change = true;
    round->samples = 1;
    round->loss = 1;
    return FED_OK;
}

FED_TEST(a_change_is_not_rounded_by_the_model) {
    fed_device device;
    fedclient_event event;
    fed_device_open(&device, "float32", ROUNDS);
    device.options.train = change_a_little;
    fed_device_restart(&device);
    assert_fed_ok_err_of(&device, fedclient_step(device.client, &event, &device.err));
    for (size_t i = 0; i < device.fake.arch.layout.size; i++) {
        assert_true(device.fake.counted[i] == 0x1p-40f);
    }
    fed_device_close(&device);
}

/** A device whose training only measures running statistics, which get the value `measures`. */
typedef struct meter {
    fed_device device; /* must be the first member: the callback gets a pointer to it */
    float measures;
} meter;

static fed_status measure(void *user, fedclient_round *round, fed_error *err) {
    const meter *m = user;
    (void)err;
    for (size_t i = round->arch->trained; i < round->arch->layout.size; i++) {
        round->values[i] = m->measures;
    }
    round->samples = 1;
    round->loss = 1;
    return FED_OK;
}

static void assert_statistics(const meter *m, float value) {
    const fed_arch *arch = &m->device.fake.arch;
    assert_true(arch->trained < arch->layout.size);
    for (size_t i = arch->trained; i < arch->layout.size; i++) {
        assert_true(m->device.fake.model[i] == value);
    }
}

static fedclient_outcome measure_round(meter *m, float value) {
    fedclient_event event;
    m->measures = value;
    assert_fed_ok_err_of(&m->device, fedclient_step(m->device.client, &event, &m->device.err));
    return event.outcome;
}

FED_TEST(a_statistic_that_was_not_counted_is_not_owed) {
    meter m;
    fed_device_open(&m.device, "sbc:p=0.1", ROUNDS);
    fed_fake_new_task(&m.device.fake, "input 2x4x4 | bn | dense 3");
    m.device.options.train = measure;
    fed_device_restart(&m.device);
    assert_int_equal(measure_round(&m, 5), FEDCLIENT_COUNTED);
    assert_statistics(&m, 5);
    fed_fake_refuse(&m.device.fake, "/v1/update", 409, "round_closed");
    assert_int_equal(measure_round(&m, 1), FEDCLIENT_REFUSED);
    assert_int_equal(measure_round(&m, 2), FEDCLIENT_COUNTED);
    assert_statistics(&m, 2); /* the refused change of -4 is not sent again: 5 - 3 = 2, not -2 */
    assert_int_equal(measure_round(&m, 100), FEDCLIENT_COUNTED);
    assert_statistics(&m, 10); /* one message changes a statistic by at most 8 */
    assert_int_equal(measure_round(&m, 4), FEDCLIENT_COUNTED);
    assert_statistics(&m, 4); /* 10 - 6; the rest of the 100 is not sent later */
    fed_device_close(&m.device);
}

/** Gradients with few bits, so that sums over rounds are exact. */
static void gradient(uint32_t round, float *g) {
    fed_rng rng;
    fed_rng_init(&rng, 7, round, 0);
    for (int i = 0; i < N; i++) {
        g[i] = ((float)fed_rng_below(&rng, 4001) - 2000) / 8192;
    }
}

#define RATE 0.25f
enum { SENT = 3, /* values of 27 that dgc:p=0.1 sends */ STEPS = 7 };

typedef struct pupil {
    fed_device device; /* must be the first member: the callback gets a pointer to it */
    fed_optimizer optimizer;
    float state[N];
    uint32_t rounds;
} pupil;

static void mask(void *user, const float *sent, size_t count) {
    pupil *p = user;
    fedtrain_optimizer_mask(&p->optimizer, p->state, sent, count);
}

static fed_status one_step(void *user, fedclient_round *round, fed_error *err) {
    pupil *p = user;
    float g[N];
    if (p->optimizer.mask) {
        FED_TRY(fedclient_round_sent(round, mask, p, err));
    }
    gradient(p->rounds++, g);
    fedtrain_optimizer_step(&p->optimizer, p->state, round->values, g, N);
    round->samples = 1;
    round->loss = 1;
    return FED_OK;
}

/** u and v of the paper's section 3.2, and the sum of what was sent. */
typedef struct paper {
    float u[N], v[N], total[N];
} paper;

/** u = m u + g and v = v + u. The largest values of v are sent and become 0 in v, and with momentum
 * factor masking in u, too. */
static void paper_round(paper *p, uint32_t round, bool masked) {
    float g[N];
    gradient(round, g);
    for (int i = 0; i < N; i++) {
        p->u[i] = 0.5f * p->u[i] + g[i];
        p->v[i] += p->u[i];
    }
    for (int k = 0; k < SENT; k++) {
        int most = 0;
        for (int i = 0; i < N; i++) {
            most = fabsf(p->v[i]) > fabsf(p->v[most]) ? i : most;
        }
        p->total[most] += p->v[most];
        p->v[most] = 0;
        p->u[most] = masked ? 0 : p->u[most];
    }
}

static void pupil_open(pupil *p, const char *optimizer) {
    fed_error err = {0};
    *p = (pupil){0};
    assert_fed_ok_err(fed_optimizer_parse(optimizer, RATE, &p->optimizer, &err));
    fed_device_open(&p->device, "dgc:p=0.1", ROUNDS);
    /* All tensors are small, so they form one group: its largest values are sent, as in the
     * paper. */
    p->device.fake.task.small_tensor = 1024;
    p->device.options.train = one_step;
    fed_device_restart(&p->device);
}

static void pupil_round(pupil *p) {
    fedclient_event event;
    assert_fed_ok_err_of(&p->device, fedclient_step(p->device.client, &event, &p->device.err));
    assert_int_equal(event.outcome, FEDCLIENT_COUNTED);
}

FED_TEST(a_momentum_that_stays_on_the_device_is_momentum_correction) {
    for (int masked = 0; masked < 2; masked++) {
        pupil p;
        paper wanted = {0};
        pupil_open(&p, masked ? "momentum:m=0.5+mask" : "momentum:m=0.5");
        for (uint32_t k = 0; k < STEPS; k++) {
            pupil_round(&p);
            paper_round(&wanted, k, masked);
            float *owed = fed_owed(&p.device.flash.inner, &p.device.fake.arch.layout);
            for (int i = 0; i < N; i++) {
                assert_true(p.device.fake.counted[i] == -RATE * wanted.total[i]);
                assert_true(owed[i] == -RATE * wanted.v[i]);
            }
            free(owed);
        }
        fed_device_close(&p.device);
    }
}

FED_TEST(masking_changes_what_is_sent_later) {
    pupil plain, masked;
    pupil_open(&plain, "momentum:m=0.5");
    pupil_open(&masked, "momentum:m=0.5+mask");
    for (int k = 0; k < STEPS; k++) {
        pupil_round(&plain);
        pupil_round(&masked);
    }
    assert_memory_not_equal(plain.device.fake.model, masked.device.fake.model, N * sizeof(float));
    fed_device_close(&plain.device);
    fed_device_close(&masked.device);
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}

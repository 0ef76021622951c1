/* Rounds of private tasks: the sum of fields is exact, whatever comes between, and what is no
 * field of a device is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/masked.h"

#include <math.h>

#include "coordinator_fixture.h"
#include "fed_cases.h"

enum { DEVICES = 4, INPUTS = 100, VALUES = 2 * INPUTS + 2 };

#define TASK                                                                                       \
    "{\"model\": \"input 100 | dense 2\", \"codec_up\": \"ring:b=6\", \"clip\": 1,"                \
    " \"codec_down\": \"float32\", \"cohort\": 4, \"goal\": 4, \"rounds\": 2}"

static void values_of_device(size_t k, float x[VALUES]) {
    for (size_t i = 0; i < VALUES; i++) {
        x[i] = 0.02F * sinf((float)(k * 37 + i));
    }
}

typedef struct federation {
    test_device device[DEVICES];
    fed_assignment work[DEVICES];
    float before[VALUES];
} federation;

static federation *begin(coordinator *c) {
    federation *f = calloc(1, sizeof *f);
    assert_non_null(f);
    coordinator_task(c, TASK);
    for (size_t k = 0; k < DEVICES; k++) {
        f->device[k] = coordinator_enrol(c);
    }
    for (size_t k = 0; k < DEVICES; k++) {
        f->work[k] = device_ask_work(c, &f->device[k]);
        assert_int_equal(f->work[k].action, FED_ACTION_TRAIN);
        assert_true(f->work[k].privacy.clip == 1);
        assert_int_equal(f->work[k].privacy.cohort, 4);
    }
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, 0, f->before, NULL),
                     200);
    return f;
}

static void send(coordinator *c, const federation *f, size_t k) {
    float x[VALUES];
    values_of_device(k, x);
    assert_int_equal(device_upload(c, &f->device[k], &f->work[k], x, 1, NULL), 200);
}

static void changes_of(coordinator *c, const federation *f, float change[VALUES]) {
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, 1, change, NULL), 200);
    for (size_t i = 0; i < VALUES; i++) {
        change[i] -= f->before[i];
    }
}

static void play(const unsigned order[DEVICES], bool crash, float change[VALUES]) {
    coordinator c;
    coordinator_setup(&c);
    federation *f = begin(&c);
    for (size_t k = 0; k < DEVICES; k++) {
        send(&c, f, order[k]);
        if (crash) {
            coordinator_commit(&c);
            coordinator_crash(&c);
        }
    }
    changes_of(&c, f, change);
    free(f);
    coordinator_teardown(&c);
}

FED_TEST(any_order_and_a_crash_after_each_update_make_the_same_bits) {
    static const unsigned orders[][DEVICES] = {{0, 1, 2, 3}, {3, 1, 0, 2}, {2, 3, 1, 0}};
    float first[VALUES], other[VALUES];
    play(orders[0], false, first);
    assert_true(first[0] != 0); /* the sum was not voided as too long */
    for (size_t k = 1; k < 3; k++) {
        play(orders[k], k == 2, other);
        assert_memory_equal(first, other, sizeof first);
    }
}

FED_TEST(the_model_moves_by_the_mean_of_the_updates) {
    static const unsigned order[DEVICES] = {0, 1, 2, 3};
    float change[VALUES], x[VALUES];
    double squares = 0, mean[VALUES] = {0}, length = 0;
    play(order, false, change);
    for (size_t k = 0; k < DEVICES; k++) {
        values_of_device(k, x);
        for (size_t i = 0; i < VALUES; i++) {
            mean[i] += (double)x[i] / DEVICES;
        }
    }
    for (size_t i = 0; i < VALUES; i++) {
        squares += ((double)change[i] - mean[i]) * ((double)change[i] - mean[i]);
        length += mean[i] * mean[i];
    }
    assert_true(length > 0 && sqrt(squares) < 0.1 * 1); /* of the clip */
}

static int send_body(coordinator *c, const federation *f, const fed_writer *w) {
    answer a = coordinator_ask(c, &f->device[0], "POST", "/v1/update", NULL, w->data, w->len);
    const int status = a.status;
    answer_free(&a);
    return status;
}

/* Each change of an honest message makes it another one, which is refused. */
FED_TEST_WITH(what_no_device_of_the_round_sends_is_refused, coordinator *c) {
    federation *f = begin(c);
    float x[VALUES];
    fed_writer w;
    values_of_device(0, x);
    for (unsigned k = 0; k < 8; k++) {
        fed_writer_growing(&w);
        device_encode(&f->work[0], x, 1, &w);
        w.len -= k == 0;                         /* too short */
        w.data[w.len - 1] ^= k == 1 ? 0x40 : 0;  /* a level past the largest */
        w.data[8] ^= k == 2;                     /* another round */
        w.data[20] = k == 3 ? 2 : w.data[20];    /* samples */
        w.data[27] = k == 4 ? 0x3f : w.data[27]; /* a loss */
        w.data[29] = k == 6;                     /* helpers */
        if (k == 5) {
            fed_write_u8(&w, 0); /* too long */
        }
        const int status = send_body(c, f, &w);
        assert_int_equal(status, k == 2 ? 409 : k == 7 ? 200 : 400);
        fed_writer_free(&w);
    }
    free(f);
}

static fed_status hide(fedserver_rounds *rounds, const fedserver_training *t,
                       const fedcodec_ring *ring, uint32_t *sums, fed_error *err) {
    (void)rounds;
    (void)err;
    assert_int_equal(t->sum.updates, DEVICES);
    memset(sums, 0, ring->shape.fields * sizeof *sums);
    return FED_OK;
}

FED_TEST_WITH(the_opening_stands_between_the_sum_and_the_model, coordinator *c) {
    federation *f = begin(c);
    float change[VALUES];
    c->server->rounds.opening = hide;
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k);
    }
    changes_of(c, f, change);
    for (size_t i = 0; i < VALUES; i++) {
        assert_true(change[i] == 0);
    }
    free(f);
}

FED_TEST_WITH(an_older_device_gets_no_private_task, coordinator *c) {
    coordinator_task(c, TASK);
    test_device d = coordinator_enrol(c);
    const fed_checkin old = {.role = FED_ROLE_TRAIN,
                             .capabilities = FED_CAN_STAGES | FED_CAN_LONG | FED_CAN_DECLINE};
    assert_int_equal(device_say(c, &d, &old).reason, FED_WAIT_DECLINED);
    assert_int_equal(device_ask_work(c, &d).action, FED_ACTION_TRAIN); /* once it is updated */
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}

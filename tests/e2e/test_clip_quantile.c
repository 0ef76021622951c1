/* A clip that follows a quantile of the updates' lengths: the same with and without a helper, and
 * after any restart. The linker's option --wrap gives the noise a fixed key, where a test asks for
 * that. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fed_cases.h"
#include "fedserver/rounds/ledger.h"
#include "fedserver/rounds/masked.h"
#include "fedserver/task/private_task.h"
#include "private_federation.h"

enum { ROUNDS = 2, SEED = 48 };

/* The noise is that of the promise, with fresh keys or with a fixed key. Or it is 0, but for
 * MINUS_ONE on the count. */
static enum { FRESH, FIXED, NONE, MINUS_ONE } noises;
static uint8_t draws;

fed_status __real_fedserver_noise_draw(const uint8_t *key, const uint8_t *set,
                                       fedserver_variance variance, int64_t *noise, size_t count);
fed_status __wrap_fedserver_noise_draw(const uint8_t *key, const uint8_t *set,
                                       fedserver_variance variance, int64_t *noise, size_t count);

fed_status __wrap_fedserver_noise_draw(const uint8_t *key, const uint8_t *set,
                                       fedserver_variance variance, int64_t *noise, size_t count) {
    const uint8_t fixed_key[FEDSERVER_NOISE_KEY] = {SEED, draws++}, any_set[FED_SHA256_SIZE] = {0};
    if (noises == NONE || noises == MINUS_ONE) {
        memset(noise, 0, count * sizeof *noise);
        noise[0] = noises == MINUS_ONE && count == 1 ? -1 : 0;
        return FED_OK;
    }
    return noises == FIXED ? __real_fedserver_noise_draw(fixed_key, any_set, variance, noise, count)
                           : __real_fedserver_noise_draw(key, set, variance, noise, count);
}

/* Goal 4 is above 10 z here. */
#define QUANTILE                                                                                   \
    ", \"epsilon\": 100, \"delta\": 1e-5, \"participations\": 2, \"clip_quantile\": 0.6"

/* Let all devices send in the next round, the first `clipped` of them longer updates than the clip.
 * Returns the clip that they were told. */
static float send_all(coordinator *c, federation *f, bool masked, size_t clipped) {
    for (size_t k = 0; k < DEVICES; k++) {
        f->work[k] = device_ask_work(c, &f->device[k]);
        assert_int_equal(f->work[k].action, FED_ACTION_TRAIN);
        assert_true(f->work[k].privacy.counted);
        assert_true(f->work[k].privacy.clip == f->work[0].privacy.clip);
    }
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, f->work[0].version,
                                     f->before, NULL),
                     200);
    for (size_t k = 0; k < DEVICES; k++) {
        f->along = k < clipped;
        send(c, f, k, masked);
    }
    return f->work[0].privacy.clip;
}

typedef struct outcome {
    float clip[ROUNDS], values[VALUES];
    double shown;    /* in the status, once the task is finished */
    char table[600]; /* the clips of /rounds.csv */
} outcome;

/* The last cell of each line but the first: the clip. */
static void read_table(coordinator *c, char *clips) {
    answer a = coordinator_ask(c, NULL, "GET", "/rounds.csv", "", NULL, 0);
    char *rest = NULL;
    const char *line = strtok_r((char *)a.body, "\r\n", &rest);
    assert_string_equal(strrchr(line, ','), ",clip");
    for (clips[0] = '\0'; (line = strtok_r(NULL, "\r\n", &rest)) != NULL;) {
        strcat(clips, strrchr(line, ','));
    }
    answer_free(&a);
}

static double status_clip(coordinator *c) {
    json_t *status = coordinator_json(c, "/v1/status", "");
    const double clip = json_real_value(
        json_object_get(json_object_get(json_object_get(status, "task"), "privacy"), "clip"));
    json_decref(status);
    return clip;
}

/* A task of two rounds. restarts: the coordinator dies before each opening and after each round.
 * who: the value of `noise`. */
static outcome play(bool masked, bool restarts, size_t clipped, const char *who) {
    outcome o;
    coordinator c;
    char more[200];
    snprintf(more, sizeof more, QUANTILE "%s%s%s", who[0] != '\0' ? ", \"noise\": \"" : "", who,
             who[0] != '\0' ? "\"" : "");
    draws = 0;
    coordinator_setup(&c);
    federation *f = begin_more(&c, masked, more);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        o.clip[round] = send_all(&c, f, masked, clipped);
        if (restarts) {
            coordinator_restart(&c);
        }
        if (masked) {
            open_round(&c, f, 100000);
        }
        if (restarts) {
            coordinator_restart(&c);
        }
    }
    memset(o.values, 0, sizeof o.values);
    assert_int_equal(
        device_download(&c, &f->device[0], &f->work[0].task, -1, ROUNDS, o.values, NULL), 200);
    read_table(&c, o.table);
    o.shown = status_clip(&c);
    end(f);
    coordinator_teardown(&c);
    return o;
}

static void assert_same(const outcome *a, const outcome *b) {
    assert_memory_equal(a->clip, b->clip, sizeof a->clip);
    assert_memory_equal(a->values, b->values, sizeof a->values);
    assert_string_equal(a->table, b->table);
    assert_true(a->shown == (double)a->clip[ROUNDS - 1] && b->shown == a->shown);
}

/* All updates are short, so all say 1: C exp(-0.2 (1 - 0.6)). Or all are clipped, and none does. */
FED_TEST(the_clip_moves_by_the_share_of_short_updates) {
    noises = NONE;
    const outcome shorter = play(false, false, 0, ""), longer = play(false, false, DEVICES, "");
    assert_true(shorter.clip[0] == 1 && longer.clip[0] == 1);
    assert_true(fabs((double)shorter.clip[1] - exp(-0.2 * (1 - 0.6))) < 1e-6);
    assert_true(fabs((double)longer.clip[1] - exp(0.2 * 0.6)) < 1e-6);
    assert_string_equal(shorter.table, ",1,0.923116326");
    assert_string_equal(longer.table, ",1,1.12749684");
}

FED_TEST(a_helper_and_a_coordinator_make_the_same_clip_and_the_same_bits) {
    noises = FIXED;
    const outcome plain = play(false, false, 2, ""), masked = play(true, false, 2, "");
    assert_true(plain.clip[1] != 1);
    assert_same(&plain, &masked);
}

FED_TEST(restarts_in_between_change_nothing) {
    noises = FIXED;
    for (int masked = 0; masked < 2; masked++) {
        const outcome once = play(masked != 0, false, 2, "");
        const outcome again = play(masked != 0, true, 2, "");
        assert_same(&once, &again);
    }
}

FED_TEST(both_add_noise_to_the_count_where_both_add_noise) {
    noises = MINUS_ONE;
    const outcome one = play(true, false, 0, "helper"), both = play(true, false, 0, "both");
    /* counts of 4 - 1 and 4 - 2 */
    assert_true(fabs((double)one.clip[1] - exp(-0.2 * ((3 + 4) / 8.0 - 0.6))) < 1e-6);
    assert_true(fabs((double)both.clip[1] - exp(-0.2 * ((2 + 4) / 8.0 - 0.6))) < 1e-6);
}

static fedserver_training *task_of(coordinator *c) {
    return fedserver_rounds_task(&c->server->rounds, 1);
}

/* The noise of the round that closes; its last number is that of the count. */
static size_t noise_of(coordinator *c, uint32_t sums[512]) {
    fed_error err = {0};
    const fedserver_training *t = task_of(c);
    const fedcodec_ring ring = fedserver_masked_ring(&t->task, &t->arch.layout, t->round.number);
    assert_true(ring.shape.all == ring.shape.fields + 1 && ring.shape.all <= 512);
    memset(sums, 0, 512 * sizeof *sums);
    assert_fed_ok_err(fedserver_ledger_open(&c->server->rounds, t, &ring, sums, &err));
    return ring.shape.all;
}

/* Of 100 sets with one key, how many have noise on the count? */
static unsigned count_noises(coordinator *c) {
    uint32_t sums[512];
    unsigned noisy = 0;
    uint8_t *digest = task_of(c)->settled.set_digest;
    const uint8_t first = digest[0];
    for (uint8_t k = 0; k < 100; k++) {
        digest[0] = k;
        noisy += sums[noise_of(c, sums) - 1] != 0;
    }
    digest[0] = first;
    return noisy;
}

/* Its key is fresh, and lies in the round's row: the same set has the same noise. */
FED_TEST(the_count_has_the_same_noise_after_a_death) {
    uint32_t before[512], after[512];
    coordinator c;
    noises = FRESH;
    coordinator_setup(&c);
    c.server->rounds.apart_values = 1; /* the set is settled in a transaction of its own */
    federation *f = begin_more(&c, false, QUANTILE);
    (void)send_all(&c, f, false, 0);
    assert_int_equal(task_of(&c)->round.phase, FEDSERVER_ROUND_CLOSING);
    const size_t all = noise_of(&c, before);
    /* A variance of 1/4: each is 0 but for 24 of 100; fewer than 2 come once in 10^10 times. */
    const unsigned noisy = count_noises(&c);
    assert_true(noisy >= 2 && noisy < 80);
    coordinator_commit(&c);
    coordinator_crash(&c);
    assert_int_equal(noise_of(&c, after), all);
    assert_memory_equal(before, after, sizeof before);
    end(f);
    coordinator_teardown(&c);
}

/* Devices of which number k has updates of the length 2^((2 k + 1) / PEOPLE - 1): from 0.5 to 2. */
enum { PEOPLE = 20, UNTIL = 50, LAST = 10, SMALL = 27 };

static double length_of(size_t k) {
    return exp2((2.0 * (double)k + 1) / PEOPLE - 1);
}

static float play_round(coordinator *c, const test_device *d) {
    fed_assignment work[PEOPLE];
    for (size_t k = 0; k < PEOPLE; k++) {
        work[k] = device_ask_work(c, &d[k]);
        assert_int_equal(work[k].action, FED_ACTION_TRAIN);
    }
    for (size_t k = 0; k < PEOPLE; k++) {
        float x[SMALL] = {0};
        x[work[k].round % SMALL] = (float)length_of(k);
        assert_int_equal(device_upload(c, &d[k], &work[k], x, 1, NULL), 200);
    }
    return work[0].privacy.clip;
}

/* From four times too long, to the quantile. The count's noise has the deviation of one device of
 * 20, which moves the clip by less than 2 % in the end: a tenth of a quantile is seven of these. */
FED_TEST(the_clip_finds_its_quantile) {
    static const double quantiles[] = {0.25, 0.7};
    for (size_t q = 0; q < 2; q++) {
        coordinator c;
        test_device d[PEOPLE];
        char task[400];
        double mean = 0;
        draws = 0;
        noises = FIXED;
        coordinator_setup(&c);
        snprintf(task, sizeof task,
                 "{\"model\": \"input 8 | dense 3\", \"codec_up\": \"ring:b=6\", \"clip\": 8,"
                 " \"codec_down\": \"float32\", \"cohort\": %d, \"goal\": %d, \"rounds\": %d,"
                 " \"epsilon\": 100, \"delta\": 1e-5, \"participations\": 60,"
                 " \"clip_quantile\": %g}",
                 PEOPLE, PEOPLE, UNTIL + 1, quantiles[q]);
        coordinator_task(&c, task);
        for (size_t k = 0; k < PEOPLE; k++) {
            d[k] = coordinator_enrol(&c);
        }
        for (int round = 0; round < UNTIL; round++) {
            const double clip = (double)play_round(&c, d);
            mean += round >= UNTIL - LAST ? log2(clip) / LAST : 0;
        }
        const double share = (mean + 1) / 2; /* of the lengths, which are at most this */
        print_message("quantile %g: the clip is %.3f, above %.3f of the lengths\n", quantiles[q],
                      exp2(mean), share);
        assert_true(fabs(share - quantiles[q]) < 0.1);
        assert_true(fabs(log2(status_clip(&c)) - mean) < 0.2);
        coordinator_teardown(&c);
    }
}

/* A device of before knows ring, and not the count. */
FED_TEST(a_device_that_does_not_count_gets_another_task) {
    coordinator c;
    noises = FRESH;
    coordinator_setup(&c);
    federation *f = begin_more(&c, false, QUANTILE);
    const test_device older = coordinator_enrol(&c);
    const fed_checkin asks = {.capabilities =
                                  FED_CAN_DECLINE | FED_CAN_PRIVATE | fed_task_capabilities()};
    const fed_assignment told = device_say(&c, &older, &asks);
    assert_int_equal(told.action, FED_ACTION_WAIT);
    assert_int_equal(told.reason, FED_WAIT_DECLINED);
    end(f);
    coordinator_teardown(&c);
}

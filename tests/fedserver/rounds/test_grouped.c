/* Rounds of groups: a robust strategy over sums that nobody can take apart. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/grouped.h"

#define PRIVATE_DEVICES 40
#define TASK                                                                                       \
    "{\"model\": \"input 100 | dense 2\", \"codec_up\": \"ring:b=6\", \"clip\": 1,"                \
    " \"codec_down\": \"float32\", \"cohort\": 40, \"goal\": 40, \"minimum\": 6, \"rounds\": "     \
    "20%s%s%s%s}"
#define GROUPED ", \"groups\": 5, \"strategy\": \"median\""

#include "coordinator_fixture.h"
#include "fed_cases.h"
#include "fedcodec/ring.h"
#include "fedserver/privacy/grouping.h"
#include "fedserver/rounds/masked.h"
#include "fedserver/server.h"
#include "private_federation.h"

enum { GROUPS = 5, HOSTILE = 17 };

/* All runs of a test have the same devices, and so the same groups. */
static fed_pem keys[DEVICES];

static void make_keys(void) {
    fed_error err = {0};
    for (size_t k = 0; k < DEVICES; k++) {
        assert_fed_ok(fed_key_new(&keys[k], &err));
    }
}

/* begin_more enrols each device with a key of its own: give it the known ones. */
static federation *begin_known(coordinator *c, bool masked, const char *more) {
    federation *f = helper_alone();
    f->keys = keys;
    return begin_in(c, f, masked, more);
}

static void send_all(coordinator *c, federation *f, bool masked, bool crash) {
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, crash ? DEVICES - 1 - k : k, masked);
        if (crash && k % 13 == 0) {
            coordinator_restart(c);
        }
    }
}

/* Play a round. Returns the federation, and the change of the model. */
static federation *play(coordinator *c, bool masked, bool crash, const char *more, uint32_t level,
                        float change[VALUES]) {
    coordinator_setup(c);
    federation *f = begin_known(c, masked, more);
    f->ignores[HOSTILE] = level > 0;
    f->level = level;
    send_all(c, f, masked, crash);
    if (crash) {
        coordinator_restart(c);
    }
    if (masked) {
        open_round(c, f, crash ? 500 : 100000);
    }
    model_of(c, f, change);
    for (size_t i = 0; i < VALUES; i++) {
        change[i] -= f->before[i];
    }
    return f;
}

static void finish(coordinator *c, federation *f) {
    end(f);
    coordinator_teardown(c);
}

/* The groups as anybody can find them, who knows the devices. */
static void groups_of(const federation *f, uint32_t group[DEVICES]) {
    const fed_private_terms terms = terms_of(f, 0);
    fedserver_grouping which = {.task = terms.task, .round = terms.round, .groups = GROUPS};
    uint8_t names[DEVICES][FED_SHA256_SIZE];
    memcpy(which.model, terms.model, sizeof which.model);
    for (size_t k = 0; k < DEVICES; k++) {
        memcpy(names[k], f->device[k].fingerprint, sizeof names[k]);
    }
    assert_fed_ok(fedserver_grouping_deal(&which, names, DEVICES, group));
}

/* means[GROUPS][VALUES], of what the devices have sent. */
static void means_of(const federation *f, const uint32_t group[DEVICES],
                     float means[GROUPS][VALUES]) {
    const fed_private_terms terms = terms_of(f, 0);
    fedcodec_ring ring = {.shape = fed_privacy_shape(&terms.privacy, BITS, 1, VALUES)};
    memcpy(ring.draw, terms.draw, sizeof ring.draw);
    for (uint32_t g = 0; g < GROUPS; g++) {
        uint32_t *sums = calloc(ring.shape.fields, sizeof *sums);
        assert_non_null(sums);
        for (size_t k = 0; k < DEVICES; k++) {
            if (group[k] == g) {
                fedcodec_ring_add(&ring, f->fields[k], sums);
            }
        }
        (void)fedcodec_ring_sums(&ring, sums);
        fedcodec_ring_change(&ring, sums, (double)DEVICES / GROUPS, means[g]);
        free(sums);
    }
}

FED_TEST(masked_and_plain_rounds_of_groups_make_the_same_bits) {
    static const char *const strategies[] = {
        GROUPED, ", \"groups\": 5, \"strategy\": \"trimmed:p=0.3+fedavgm:m=0.5\""};
    for (size_t k = 0; k < 2; k++) {
        float plain[VALUES], masked[VALUES], again[VALUES];
        coordinator c;
        finish(&c, play(&c, false, k == 1, strategies[k], 0, plain));
        finish(&c, play(&c, true, false, strategies[k], 0, masked));
        finish(&c, play(&c, true, true, strategies[k], 0, again));
        assert_memory_equal(plain, masked, sizeof plain);
        assert_memory_equal(plain, again, sizeof plain);
    }
}

static int ascending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

FED_TEST(the_model_moves_by_the_median_of_the_groups_means) {
    float change[VALUES], means[GROUPS][VALUES];
    uint32_t group[DEVICES];
    coordinator c;
    federation *f = play(&c, true, false, GROUPED, 0, change);
    groups_of(f, group);
    means_of(f, group, means);
    for (size_t i = 0; i < VALUES; i++) {
        float column[GROUPS];
        for (uint32_t g = 0; g < GROUPS; g++) {
            column[g] = means[g][i];
        }
        qsort(column, GROUPS, sizeof *column, ascending);
        /* The change is a difference of two values of the model. */
        assert_true(fabsf(column[GROUPS / 2] - change[i]) < 1e-6F);
    }
    finish(&c, f);
}

static double length_of(const float x[VALUES]) {
    double squares = 0;
    for (size_t i = 0; i < VALUES; i++) {
        squares += (double)x[i] * (double)x[i];
    }
    return sqrt(squares);
}

/* One device of forty sends 30 levels in each field, four times its clip and more. The mean moves
 * by a tenth of the clip, to where it wants. The median stays between the means of the honest
 * groups, in each value. */
FED_TEST(a_hostile_device_moves_the_mean_and_not_the_median_of_groups) {
    enum { LEVEL = 30 };
    float honest[VALUES], mean[VALUES], median[VALUES], means[GROUPS][VALUES];
    uint32_t group[DEVICES];
    coordinator c;
    finish(&c, play(&c, true, false, "", 0, honest));
    finish(&c, play(&c, true, false, "", LEVEL, mean));
    federation *f = play(&c, true, false, GROUPED, LEVEL, median);
    for (size_t i = 0; i < VALUES; i++) {
        mean[i] -= honest[i];
    }
    assert_true(length_of(mean) > 0.1);
    groups_of(f, group);
    means_of(f, group, means);
    for (size_t i = 0; i < VALUES; i++) {
        float low = INFINITY, high = -INFINITY;
        for (uint32_t g = 0; g < GROUPS; g++) {
            low = g != group[HOSTILE] && means[g][i] < low ? means[g][i] : low;
            high = g != group[HOSTILE] && means[g][i] > high ? means[g][i] : high;
        }
        assert_true(median[i] > low - 1e-6F && median[i] < high + 1e-6F);
        median[i] -= honest[i];
    }
    assert_true(length_of(median) < 0.5 * length_of(mean));
    finish(&c, f);
}

/* The other groups count: of them it is the median. */
FED_TEST(a_group_whose_sum_is_too_long_is_left_out) {
    enum { LEVEL = 200 };
    float change[VALUES], means[GROUPS][VALUES];
    uint32_t group[DEVICES];
    coordinator c;
    coordinator_setup(&c);
    federation *f = begin_known(&c, true, GROUPED);
    f->ignores[HOSTILE] = true;
    f->level = LEVEL;
    send_all(&c, f, true, false);
    said[0] = '\0';
    c.server->rounds.log = &heard;
    open_round(&c, f, 100000);
    assert_non_null(strstr(said, "8 of its 40 updates are lost: the sum of their group"));
    model_of(&c, f, change);
    groups_of(f, group);
    means_of(f, group, means);
    for (size_t i = 0; i < VALUES; i++) {
        float column[GROUPS];
        size_t n = 0;
        for (uint32_t g = 0; g < GROUPS; g++) {
            column[n] = means[g][i];
            n += g != group[HOSTILE];
        }
        qsort(column, n, sizeof *column, ascending);
        const float wanted = (column[1] + column[2]) / 2;
        assert_true(fabsf(wanted - (change[i] - f->before[i])) < 1e-6F);
    }
    finish(&c, f);
}

FED_TEST(where_all_groups_are_too_long_the_model_stays) {
    float change[VALUES];
    coordinator c;
    coordinator_setup(&c);
    federation *f = begin_known(&c, true, GROUPED);
    memset(f->ignores, true, sizeof f->ignores);
    f->level = 200;
    send_all(&c, f, true, false);
    said[0] = '\0';
    c.server->rounds.log = &heard;
    open_round(&c, f, 100000);
    assert_non_null(strstr(said, "its 40 updates are lost, and the model stays"));
    model_of(&c, f, change);
    assert_memory_equal(change, f->before, sizeof change);
    finish(&c, f);
}

/* `minimum` is that of a group. Updates that are too few for all groups stay counted. */
FED_TEST_WITH(a_round_waits_until_each_group_has_its_minimum, coordinator *c) {
    federation *f = begin_known(c, true, GROUPED);
    for (size_t k = 0; k < 29; k++) {
        send(c, f, k, true);
    }
    coordinator_wait(c, 601 * 1000);
    json_t *status = coordinator_json(c, "/v1/status", NULL);
    const json_t *round = json_object_get(status, "round");
    assert_int_equal(json_integer_value(json_object_get(round, "minimum")), 30);
    assert_int_equal(json_integer_value(json_object_get(round, "attempt")), 2);
    assert_int_equal(json_integer_value(json_object_get(round, "received")), 29);
    json_decref(status);
    answer a = ask(c, &f->helper_device);
    assert_int_equal(a.status, 204);
    answer_free(&a);
    f->work[30] = device_ask_work(c, &f->device[30]);
    assert_int_equal(f->work[30].action, FED_ACTION_TRAIN);
    send(c, f, 30, true);
    coordinator_wait(c, 601 * 1000);
    open_round(c, f, 100000);
    end(f);
}

/* A helper that deals the devices out in another way makes noise of the sums, and the round is
 * void. So a grouping that is not the hash's opens nothing. */
FED_TEST_WITH(masks_of_other_groups_open_nothing, coordinator *c) {
    float after[VALUES];
    federation *f = begin_known(c, true, GROUPED);
    send_all(c, f, true, false);
    fedserver_reply reply = reply_to(c, f);
    const size_t each = reply.fields_len / GROUPS;
    uint8_t *first = malloc(each);
    assert_non_null(first);
    memcpy(first, reply.fields, each);
    memmove(reply.fields, reply.fields + each, reply.fields_len - each);
    memcpy(reply.fields + reply.fields_len - each, first, each);
    free(first);
    said[0] = '\0';
    c->server->rounds.log = &heard;
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
    assert_non_null(strstr(said, "its 40 updates are lost, and the model stays"));
    model_of(c, f, after);
    assert_memory_equal(after, f->before, sizeof after);
    fedserver_reply_free(&reply);
    end(f);
}

/* One group's masks are too few for five. */
FED_TEST_WITH(masks_of_fewer_groups_are_refused, coordinator *c) {
    federation *f = begin_known(c, true, GROUPED);
    send_all(c, f, true, false);
    fedserver_reply reply = reply_to(c, f);
    reply.fields_len /= GROUPS;
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 409, "another_set");
    reply.fields_len *= GROUPS;
    a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
    fedserver_reply_free(&reply);
    end(f);
}

FED_TEST_WITH(a_restarted_coordinator_gets_the_same_sums, coordinator *c) {
    federation *f = begin_known(c, true,
                                GROUPED ", \"epsilon\": 8, \"delta\": 1e-5,"
                                        " \"participations\": 4");
    send_all(c, f, true, false);
    fedserver_reply first = reply_to(c, f);
    coordinator_restart(c);
    fedserver_reply second = reply_to(c, f);
    assert_int_equal(first.fields_len, second.fields_len);
    assert_memory_equal(first.fields, second.fields, first.fields_len);
    answer a = open_with(c, f, &second, 100000);
    answer_expect(&a, 200, "");
    fedserver_reply_free(&first);
    fedserver_reply_free(&second);
    end(f);
}

/* Without a helper the coordinator adds the noise of each group, once for a set: a death between
 * the settled set and the commit draws the same one. */
FED_TEST_WITH(the_coordinators_noise_of_groups_is_the_same_after_a_crash, coordinator *c) {
    uint32_t *sums[2] = {NULL, NULL};
    fed_error err = {0};
    federation *f = begin_known(c, false,
                                GROUPED ", \"epsilon\": 8, \"delta\": 1e-5,"
                                        " \"participations\": 4");
    for (size_t k = 0; k + 1 < DEVICES; k++) {
        send(c, f, k, false);
    }
    fedserver_training *t = fedserver_rounds_task(&c->server->rounds, f->work[0].task.id);
    const fedcodec_ring ring = fedserver_masked_ring(&t->task, &t->arch.layout, 1);
    const size_t n = ring.shape.fields;
    const double sigma2 = f->work[0].privacy.sigma2;
    t->settled.sigma2 = sigma2;
    t->settled.set_digest[0] = 1;
    for (size_t turn = 0; turn < 2; turn++) {
        double squares = 0;
        sums[turn] = calloc(GROUPS * n, sizeof **sums);
        assert_non_null(sums[turn]);
        assert_fed_ok_err(fedserver_masked_open(&c->server->rounds, t, &ring, sums[turn], &err));
        for (size_t i = 0; i < GROUPS * n; i++) {
            squares += (double)(int32_t)sums[turn][i] * (int32_t)sums[turn][i];
        }
        const double share = squares / (double)(GROUPS * n) / sigma2;
        assert_true(share > 0.75 && share < 1.25); /* its error is 0.04 */
    }
    assert_memory_equal(sums[0], sums[1], GROUPS * n * sizeof **sums);
    for (uint32_t g = 1; g < GROUPS; g++) {
        assert_memory_not_equal(sums[0], sums[0] + g * n, n * sizeof **sums);
    }
    free(sums[0]);
    free(sums[1]);
    end(f);
}

static void reopen_helper(federation *f) {
    fedserver_helper_options options = {.path = f->state, .least = 2};
    memcpy(options.secret, f->secret, sizeof options.secret);
    fedserver_helper_close(f->helper);
    assert_fed_ok(fedserver_helper_open(&options, &f->helper, &f->err));
}

static json_t *outliers_of(coordinator *c) {
    json_t *status = coordinator_json(c, "/v1/status", NULL);
    json_t *privacy = json_object_get(json_object_get(status, "task"), "privacy");
    assert_int_equal(json_integer_value(json_object_get(privacy, "groups")), GROUPS);
    json_t *outliers = json_incref(json_object_get(privacy, "outliers"));
    json_decref(status);
    return outliers;
}

/* In each round the devices fall into other groups. The hostile one spoils its own each time, once
 * so that the group is left out. It is named after nine rounds, in the log once, until it is
 * revoked. Coordinator and helper are restarted on the way. */
FED_TEST_WITH(who_is_in_the_worst_group_each_time_is_named, coordinator *c) {
    enum { LEVEL = 30, TOO_LONG = 200, NAMED = 9, ROUNDS = 10 };
    char name[FED_SHA256_HEX];
    fedserver_entry revoked;
    fed_error err = {0};
    federation *f = begin_known(c, true, GROUPED);
    f->ignores[HOSTILE] = true;
    f->level = LEVEL;
    fed_hex(f->device[HOSTILE].fingerprint, FED_SHA256_SIZE, name);
    name[16] = '\0';
    said[0] = '\0';
    for (unsigned round = 1; round <= ROUNDS; round++) {
        f->level = round == 5 ? TOO_LONG : LEVEL;
        send_all(c, f, true, false);
        if (round % 4 == 0) {
            coordinator_restart(c);
            reopen_helper(f);
        }
        c->server->rounds.log = &heard;
        open_round(c, f, 100000);
        json_t *outliers = outliers_of(c);
        assert_int_equal(json_array_size(outliers), round >= NAMED);
        json_t *one = json_array_get(outliers, 0);
        if (round >= NAMED) {
            assert_string_equal(json_string_value(json_object_get(one, "device")), name);
            assert_int_equal(json_integer_value(json_object_get(one, "worst")), round);
            assert_int_equal(json_integer_value(json_object_get(one, "rounds")), round);
            assert_true(fabs(json_number_value(json_object_get(one, "expected")) - 0.2 * round) <
                        1e-9);
        }
        json_decref(outliers);
        next_round(c, f);
    }
    const char *line = strstr(said, name);
    assert_non_null(line);
    assert_non_null(
        strstr(line, "was in the worst group in 9 of its 9 rounds, and by chance in 1.8"));
    assert_int_equal(times_said("was in the worst group"), 1);
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_device_revoke(c->server, c->now_ms, name, &revoked, &err));
    json_t *left = outliers_of(c);
    assert_int_equal(json_array_size(left), 0);
    json_decref(left);
    end(f);
}

/* Without a helper the counts are the same: twelve honest rounds name nobody. */
FED_TEST_WITH(honest_devices_are_not_named, coordinator *c) {
    federation *f = begin_known(c, false, GROUPED);
    for (unsigned round = 1; round <= 12; round++) {
        send_all(c, f, false, false);
        json_t *outliers = outliers_of(c);
        assert_int_equal(json_array_size(outliers), 0);
        json_decref(outliers);
        next_round(c, f);
    }
    end(f);
}

static fed_status count_row(void *user, const fedserver_outlier_row *row, fed_error *err) {
    (void)row;
    (void)err;
    ++*(size_t *)user;
    return FED_OK;
}

/* A round in which all groups are left out says nothing of a device. */
FED_TEST_WITH(a_void_round_does_not_count, coordinator *c) {
    federation *f = begin_known(c, true, GROUPED);
    memset(f->ignores, true, sizeof f->ignores);
    f->level = 200;
    for (unsigned round = 1; round <= 3; round++) {
        send_all(c, f, true, false);
        open_round(c, f, 100000);
        next_round(c, f);
    }
    fed_error err = {0};
    size_t rows = 0;
    assert_fed_ok_err(c->server->store->outliers_each(c->server->db, 1, 0, count_row, &rows, &err));
    assert_int_equal(rows, 0);
    end(f);
}

int main(void) {
    make_keys();
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}

/* Runs whole rounds of a task for tests of strategies, by fedserver_handle for each device. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "strategy_case.h"

#include <math.h>

#include "fed/rng.h"

void strategy_case_draw(uint64_t seed, strategy_round round[CASE_ROUNDS]) {
    fed_rng rng;
    fed_rng_init(&rng, seed, 0, 0);
    for (int r = 0; r < CASE_ROUNDS; r++) {
        float direction[CASE_VALUES];
        for (int i = 0; i < CASE_VALUES; i++) {
            direction[i] = fed_rng_float(&rng) - 0.5f;
        }
        for (int d = 0; d < CASE_DEVICES; d++) {
            round[r].samples[d] = 1 + fed_rng_below(&rng, 40);
            for (int i = 0; i < CASE_VALUES; i++) {
                round[r].x[d][i] = direction[i] + 0.4f * (fed_rng_float(&rng) - 0.5f);
            }
        }
    }
}

static void copy_model(const coordinator *c, float *values) {
    const fedserver_training *t = fedserver_rounds_front(&c->server->rounds);
    assert_int_equal(t->arch.layout.size, CASE_VALUES);
    assert_int_equal(t->arch.trained, CASE_TRAINED);
    memcpy(values, t->versions.values, CASE_VALUES * sizeof *values);
}

void strategy_house_open(strategy_house *house, bool rough) {
    coordinator_setup(&house->coordinator);
    for (int d = 0; d < CASE_DEVICES; d++) {
        house->device[d] = coordinator_enrol(&house->coordinator);
    }
    house->rough = rough;
}

void strategy_house_close(strategy_house *house) {
    coordinator_teardown(&house->coordinator);
}

static void play_round(strategy_house *house, const strategy_round *round) {
    coordinator *c = &house->coordinator;
    for (int k = 0; k < CASE_DEVICES; k++) {
        int d = house->rough ? CASE_DEVICES - 1 - k : k;
        const test_device *device = &house->device[d];
        fed_assignment work = device_ask_work(c, device);
        assert_int_equal(work.action, FED_ACTION_TRAIN);
        assert_int_equal(device_upload(c, device, &work, round->x[d], round->samples[d], NULL),
                         200);
        if (house->rough && k % (CASE_DEVICES / 2) == 0) {
            coordinator_commit(c);
            coordinator_crash(c);
        }
    }
}

void strategy_house_play(strategy_house *house, const char *strategy,
                         const strategy_round round[CASE_ROUNDS], strategy_models *models) {
    coordinator *c = &house->coordinator;
    char task[512];
    snprintf(task, sizeof task,
             "{\"model\": \"input 1x4x4 | conv 2 3 | bn | relu | dense 3\", \"strategy\": \"%s\","
             " \"codec_up\": \"float32\", \"codec_down\": \"float32\","
             " \"rounds\": %d, \"cohort\": %d, \"minimum\": %d}",
             strategy, CASE_ROUNDS, CASE_DEVICES, CASE_DEVICES);
    coordinator_task(c, task);
    copy_model(c, models->version[0]);
    for (int r = 0; r < CASE_ROUNDS; r++) {
        play_round(house, &round[r]);
        assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, r + 1);
        copy_model(c, models->version[r + 1]);
    }
}

static void play_once(const char *strategy, const strategy_round round[CASE_ROUNDS],
                      strategy_models *models) {
    strategy_house house;
    strategy_house_open(&house, false);
    strategy_house_play(&house, strategy, round, models);
    strategy_house_close(&house);
}

void strategy_case_follows(const char *strategy, strategy_reference reference) {
    strategy_round round[CASE_ROUNDS];
    strategy_models models;
    double memory[3 * CASE_VALUES] = {0}, change[CASE_VALUES], wanted[CASE_VALUES];
    strategy_case_draw(7, round);
    play_once(strategy, round, &models);
    for (int i = 0; i < CASE_VALUES; i++) {
        wanted[i] = (double)models.version[0][i];
    }
    for (int r = 0; r < CASE_ROUNDS; r++) {
        reference(&round[r], memory, change);
        for (int i = 0; i < CASE_VALUES; i++) {
            wanted[i] += change[i];
            double found = (double)models.version[r + 1][i];
            if (!(fabs(found - wanted[i]) <= 2e-6 * (1.0 + fabs(wanted[i])))) {
                fail_msg("%s, version %d, value %d is %.9g, but the reference gives %.9g", strategy,
                         r + 1, i, found, wanted[i]);
            }
        }
    }
}

void strategy_case_mean(const strategy_round *round, double *change) {
    double samples = 0;
    for (int d = 0; d < CASE_DEVICES; d++) {
        samples += round->samples[d];
    }
    for (int i = 0; i < CASE_VALUES; i++) {
        change[i] = 0;
        for (int d = 0; d < CASE_DEVICES; d++) {
            change[i] += round->samples[d] * (double)round->x[d][i] / samples;
        }
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void strategy_case_sorted(const strategy_round *round, int i, double value[CASE_DEVICES]) {
    for (int d = 0; d < CASE_DEVICES; d++) {
        value[d] = (double)round->x[d][i];
    }
    qsort(value, CASE_DEVICES, sizeof *value, by_value);
}

double strategy_case_score(const strategy_round *round, int d, int f) {
    double distance[CASE_DEVICES] = {0}, sum = 0;
    for (int e = 0; e < CASE_DEVICES; e++) {
        for (int i = 0; i < CASE_VALUES; i++) {
            double x = (double)round->x[d][i] - (double)round->x[e][i];
            distance[e] += x * x;
        }
    }
    /* Skip distance[0], the device's distance to itself. */
    qsort(distance, CASE_DEVICES, sizeof *distance, by_value);
    for (int e = 1; e <= CASE_DEVICES - f - 2; e++) {
        sum += distance[e];
    }
    return sum;
}

bool strategy_case_withstands(const char *strategy) {
    enum { HOSTILE = 2 };
    strategy_round round[CASE_ROUNDS];
    strategy_models models;
    strategy_case_draw(11, round);
    for (int r = 0; r < CASE_ROUNDS; r++) {
        round[r].samples[HOSTILE] = 1 << 20;
        for (int i = 0; i < CASE_VALUES; i++) {
            round[r].x[HOSTILE][i] = (i + r) % 2 ? -16.0f : 16.0f;
        }
    }
    play_once(strategy, round, &models);
    for (int r = 0; r < CASE_ROUNDS; r++) {
        for (int i = 0; i < CASE_VALUES; i++) {
            float low = INFINITY, high = -INFINITY;
            for (int d = 0; d < CASE_DEVICES; d++) {
                low = d == HOSTILE ? low : fminf(low, round[r].x[d][i]);
                high = d == HOSTILE ? high : fmaxf(high, round[r].x[d][i]);
            }
            float moved = models.version[r + 1][i] - models.version[r][i];
            if (moved < low - 1e-5f || moved > high + 1e-5f) {
                return false;
            }
        }
    }
    return true;
}

/* One hostile device among nine honest ones, whose updates travel in codecs that lengthen them.
 * With each strategy the device must gain no more than with float32. And updates whose control
 * variates are none. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <math.h>

#include "fed/rng.h"
#include "fed_cases.h"

#define MODEL "input 1023 | dense 8"

enum { HONEST = 9, DEVICES = HONEST + 1, ROUNDS = 3, VALUES = 1024 * 8 };

typedef enum attack { NONE, SCALED, FLIPPED, ZEROS, ATTACKS } attack;

static const char *const attack_names[ATTACKS] = {"none", "scaled", "flipped", "zeros"};
static const char *const codecs[] = {"float32", "eden", "eden:p=0.008",
                                     "eden:p=0.008,scale=tensor"};
enum { CODECS = sizeof codecs / sizeof codecs[0], FEW = 2 };

/* clip: an honest update has about the norm 0.56. loss: how much of a round an attack may take away
 * more than with float32. Where values are sorted, eden's noise hides a part of an attack. */
static const struct {
    const char *spec;
    double share, loss;
    bool compares;
} strategies[] = {{"fedavg", 0.5, 0.02, false},
                  {"fedavg", 0.25, 0.02, false},
                  {"fedavg+clip:norm=0.6", 0.5, 0.02, false},
                  {"median", 0.5, 0.2, false},
                  {"trimmed:p=0.2", 0.5, 0.2, false},
                  {"krum", 0.5, 0.02, true},
                  {"multikrum", 0.5, 0.02, true}};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

typedef struct world {
    coordinator c;
    test_device d[DEVICES];
    float direction[VALUES], x[VALUES];
    double squares; /* of the direction */
    uint64_t task;
} world;

static int setup(void **state) {
    static world w;
    fed_rng rng;
    coordinator_setup(&w.c);
    for (int k = 0; k < DEVICES; k++) {
        w.d[k] = coordinator_enrol(&w.c);
    }
    fed_rng_init(&rng, 21, 0, 0);
    w.squares = 0;
    for (int i = 0; i < VALUES; i++) {
        w.direction[i] = 0.02f * (fed_rng_float(&rng) - 0.5f);
        w.squares += (double)w.direction[i] * (double)w.direction[i];
    }
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    coordinator_teardown(&w->c);
    return 0;
}

/* Set x to the update of device k: the direction that all honest devices share, and its own. */
static void draw(world *w, int round, int k, attack kind) {
    static const float times[ATTACKS] = {1, -20, -1, 0};
    const float factor = k == HONEST ? times[kind] : 1;
    fed_rng rng;
    fed_rng_init(&rng, 22, (uint32_t)round, (uint32_t)k);
    for (int i = 0; i < VALUES; i++) {
        w->x[i] = factor * (w->direction[i] + 0.008f * (fed_rng_float(&rng) - 0.5f));
    }
}

static const float *model_of(const world *w) {
    return fedserver_rounds_front(&w->c.server->rounds)->versions.values;
}

static void write_task(size_t strategy, size_t codec, char text[512]) {
    snprintf(text, 512,
             "{\"model\": \"" MODEL "\", \"strategy\": \"%s\", \"device_share\": %g,"
             " \"codec_up\": \"%s\", \"codec_down\": \"float32\", \"rounds\": %d,"
             " \"cohort\": %d, \"minimum\": %d}",
             strategies[strategy].spec, strategies[strategy].share, codecs[codec], ROUNDS, DEVICES,
             DEVICES);
}

/* Run the task. Returns how far a round moves the model in the direction; 1: as far as one honest
 * update. */
static double play(world *w, size_t strategy, size_t codec, attack kind) {
    static float before[VALUES];
    char task[512];
    write_task(strategy, codec, task);
    w->task = coordinator_task(&w->c, task);
    memcpy(before, model_of(w), sizeof before);
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < DEVICES; k++) {
            const fed_assignment work = device_ask_work(&w->c, &w->d[k]);
            const uint32_t samples = k == HONEST && kind == SCALED ? 1 << 20 : 40;
            assert_int_equal(work.task.id, w->task);
            draw(w, round, k, kind);
            assert_int_equal(device_upload(&w->c, &w->d[k], &work, w->x, samples, NULL), 200);
        }
    }
    double moved = 0;
    for (int i = 0; i < VALUES; i++) {
        moved += (double)(model_of(w)[i] - before[i]) * (double)w->direction[i];
    }
    return moved / w->squares / ROUNDS;
}

static bool fits(size_t strategy, size_t codec) {
    return !strategies[strategy].compares || codec < FEW;
}

static void check_gain(world *w, size_t s, size_t c, attack kind, double plain) {
    const double moved = play(w, s, c, kind);
    if (!(moved > plain - strategies[s].loss)) {
        fail_msg("%s, share %g, attack %s: a round moves the model by %.3f with float32, and by "
                 "%.3f with %s",
                 strategies[s].spec, strategies[s].share, attack_names[kind], plain, moved,
                 codecs[c]);
    }
}

FED_TEST_WITH(a_hostile_device_gains_no_more_than_with_float32, world *w) {
    for (size_t s = 0; s < STRATEGIES; s++) {
        for (attack kind = NONE; kind < ATTACKS; kind++) {
            const double plain = play(w, s, 0, kind);
            for (size_t c = 1; c < CODECS && fits(s, c); c++) {
                check_gain(w, s, c, kind, plain);
            }
        }
    }
}

/* Of the updates of eden:p=0.008 one of zeros is the nearest to all others. */
FED_TEST_WITH(a_strategy_that_noise_would_deceive_is_refused_with_the_reason, world *w) {
    (void)w;
    unsigned refused = 0;
    for (size_t s = 0; s < STRATEGIES; s++) {
        for (size_t c = 0; c < CODECS; c++) {
            char task[512];
            fed_error err = {0};
            write_task(s, c, task);
            const fed_status status = fedserver_task_check("t.json", task, strlen(task), &err);
            assert_fed_status(status, fits(s, c) ? FED_OK : FED_EINVAL);
            if (status != FED_OK) {
                refused++;
                assert_fed_says(err, "takes the updates that are nearest to others");
                assert_fed_says(err, "let codec_up be int8, eden or");
            }
        }
    }
    assert_int_equal(refused, 4);
}

typedef struct furthest {
    char hostile[17];
    int times;
    double norm;
} furthest;

static fed_status note_furthest(void *user, const fedserver_round_row *row, fed_error *err) {
    furthest *f = user;
    (void)err;
    f->times += strcmp(row->furthest.name, f->hostile) == 0;
    f->norm = row->furthest.amount;
    return FED_OK;
}

/* The norm is that before encoding. */
FED_TEST_WITH(who_reaches_furthest_is_named_with_the_true_norm, world *w) {
    fed_error err = {0};
    for (size_t c = 0; c < CODECS; c++) {
        furthest f = {.times = 0};
        fed_hex(w->d[HONEST].fingerprint, 8, f.hostile);
        (void)play(w, 0, c, SCALED);
        assert_fed_ok_err(w->c.server->store->round_each(w->c.server->db, w->task, ROUNDS,
                                                         note_furthest, &f, &err));
        assert_int_equal(f.times, ROUNDS);
        assert_true(fabs(f.norm / (20 * 0.5625) - 1) < 0.05);
        f.times = 0;
        (void)play(w, 0, c, NONE);
        assert_fed_ok_err(w->c.server->store->round_each(w->c.server->db, w->task, ROUNDS,
                                                         note_furthest, &f, &err));
        assert_true(f.times < ROUNDS && fabs(f.norm / 0.5625 - 1) < 0.1);
    }
}

enum { SMALL = 6 };

/* Control variates with a codec of their own are checked as the weights are, and counted with
 * them. */
FED_TEST_WITH(control_variates_that_are_none_are_refused, world *w) {
    static const char task[] = "{\"model\": \"input 2 | dense 2 | scaffold\","
                               " \"optimizer\": \"sgd:lr=0.1+scaffold\", \"small_tensor\": 0,"
                               " \"codec_up\": \"float32\", \"codec_variates\": \"float32\","
                               " \"rounds\": 2, \"cohort\": 1, \"minimum\": 1}";
    static const char *const others[] = {"", "int8", "eden"};
    static const float both[2 * SMALL] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2};
    coordinator *c = &w->c;
    coordinator_task(c, task);
    const fed_assignment work = device_ask_work(c, &w->d[0]);
    fed_writer body;
    fed_writer_growing(&body);
    device_encode(&work, both, 1, &body);
    const size_t whole = body.len;
    fed_writer_free(&body);

    for (size_t len = 0; len < whole; len++) {
        device_encode(&work, both, 1, &body);
        body.len = len;
        device_expect(c, &w->d[0], &body, 400, "bad_update");
    }
    device_encode(&work, both, 1, &body);
    memset(body.data + body.len - 4, 0xff, 4);
    device_expect(c, &w->d[0], &body, 400, "bad_update");
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        fed_assignment other = work;
        snprintf(other.task.codec_variates, sizeof other.task.codec_variates, "%s", others[k]);
        device_encode(&other, both, 1, &body);
        device_expect(c, &w->d[0], &body, 400, "bad_update");
    }
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 0);
    assert_int_equal(device_upload(c, &w->d[0], &work, both, 1, NULL), 200);
    const float *values = fedserver_rounds_front(&c->server->rounds)->versions.values;
    assert_true(values[2 * SMALL - 1] == 2);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}

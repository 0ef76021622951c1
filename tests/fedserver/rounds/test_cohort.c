/* Which devices get slots over many rounds, whichever device asks first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "fed/rng.h"
#include "fedserver/rounds/cohort.h"

enum { DEVICES = 40, SLOTS = 8, WINDOW_MS = 1000 };

typedef struct crowd {
    fedserver_candidate devices[DEVICES];
    bool away[DEVICES];
    uint32_t taken[DEVICES];
    int64_t full_ms;
} crowd;

static crowd crowd_of(void) {
    crowd c = {0};
    for (uint32_t k = 0; k < DEVICES; k++) {
        c.devices[k] = (fedserver_candidate){.device = k + 1};
    }
    return c;
}

static fedserver_cohort drawn(const crowd *c, fedserver_selection selection, uint32_t round) {
    fedserver_cohort cohort = {.selection = selection,
                               .seed = 7,
                               .round = round,
                               .drawing = 1,
                               .opened_ms = 1000000,
                               .window_ms = WINDOW_MS};
    fedserver_candidate ordered[DEVICES];
    memcpy(ordered, c->devices, sizeof ordered);
    fedserver_cohort_draw(&cohort, ordered, DEVICES, 1, SLOTS);
    return cohort;
}

/* All devices ask repeatedly in the same order until the slots are taken. */
static void play(crowd *c, fedserver_selection selection, uint32_t round) {
    fedserver_cohort cohort = drawn(c, selection, round);
    bool has[DEVICES] = {false};
    uint32_t slots = SLOTS;
    for (int64_t now = cohort.opened_ms; slots > 0; now += 5) {
        assert_true(now <= cohort.opened_ms + WINDOW_MS);
        c->full_ms = now - cohort.opened_ms;
        for (uint32_t k = 0; k < DEVICES && slots > 0; k++) {
            if (!has[k] && !c->away[k] &&
                fedserver_cohort_admits_ms(&cohort, &c->devices[k]) <= now) {
                has[k] = true;
                slots--;
            }
        }
    }
    for (uint32_t k = 0; k < DEVICES; k++) {
        c->taken[k] += has[k];
        c->devices[k].last_round = has[k] ? round : c->devices[k].last_round;
    }
}

FED_TEST(uniform_gives_everybody_the_same) {
    enum { ROUNDS = 2000 };
    crowd c = crowd_of();
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        play(&c, FEDSERVER_SELECT_UNIFORM, round);
    }
    const double mean = (double)ROUNDS * SLOTS / DEVICES;
    const double sigma = sqrt(mean * (1 - (double)SLOTS / DEVICES));
    for (uint32_t k = 0; k < DEVICES; k++) {
        /* 5 sigma, and the small advantage of asking first */
        assert_true(fabs(c.taken[k] - mean) < 5 * sigma + 0.04 * mean);
    }
}

FED_TEST(another_seed_or_round_or_drawing_draws_others) {
    crowd c = crowd_of();
    fedserver_cohort one = drawn(&c, FEDSERVER_SELECT_UNIFORM, 1);
    for (int other = 0; other < 3; other++) {
        fedserver_cohort two = one;
        two.seed += other == 0;
        two.round += other == 1;
        two.drawing += other == 2;
        double correlation = 0;
        for (uint32_t k = 0; k < DEVICES; k++) {
            double a = fedserver_cohort_priority(&one, &c.devices[k]);
            double b = fedserver_cohort_priority(&two, &c.devices[k]);
            assert_true(a >= 0 && a < 1 && a != b);
            assert_true(a == fedserver_cohort_priority(&one, &c.devices[k]));
            correlation += 12 * (a - 0.5) * (b - 0.5) / DEVICES;
        }
        assert_true(fabs(correlation) < 5 / sqrt(DEVICES));
    }
}

/* Draw devices without replacement, each in proportion to its samples, as a simple reference. */
static void draw_plainly(const crowd *c, fed_rng *rng, uint32_t taken[DEVICES]) {
    bool has[DEVICES] = {false};
    for (int slot = 0; slot < SLOTS; slot++) {
        uint32_t sum = 0;
        for (int k = 0; k < DEVICES; k++) {
            sum += has[k] ? 0 : c->devices[k].samples;
        }
        uint32_t at = fed_rng_below(rng, sum);
        int k = 0;
        for (; has[k] || at >= c->devices[k].samples; k++) {
            at -= has[k] ? 0 : c->devices[k].samples;
        }
        has[k] = true;
        taken[k]++;
    }
}

FED_TEST(weighted_follows_the_samples) {
    enum { ROUNDS = 2000 };
    crowd c = crowd_of();
    uint32_t plain[DEVICES] = {0};
    fed_rng rng;
    fed_rng_init(&rng, 3, 0, 0);
    for (uint32_t k = 0; k < DEVICES; k++) {
        c.devices[k].samples = 10 + 10 * (k * 7 % DEVICES);
    }
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        play(&c, FEDSERVER_SELECT_WEIGHTED, round);
        draw_plainly(&c, &rng, plain);
    }
    for (uint32_t k = 0; k < DEVICES; k++) {
        assert_true(fabs((double)c.taken[k] - plain[k]) <
                    5 * sqrt(2.0 * plain[k]) + 0.04 * plain[k]);
    }
}

FED_TEST(who_has_not_said_its_samples_counts_as_the_mean) {
    crowd c = crowd_of();
    for (uint32_t k = 1; k < DEVICES; k++) {
        c.devices[k].samples = k % 2 == 0 ? 100 : 300;
    }
    fedserver_cohort cohort = drawn(&c, FEDSERVER_SELECT_WEIGHTED, 1);
    fedserver_candidate said = c.devices[0];
    said.samples = (uint32_t)lround(cohort.samples);
    assert_in_range(said.samples, 195, 205);
    cohort.samples = said.samples;
    assert_true(fedserver_cohort_priority(&cohort, &c.devices[0]) ==
                fedserver_cohort_priority(&cohort, &said));
}

FED_TEST(round_robin_takes_everybody_before_anybody_twice) {
    crowd c = crowd_of();
    for (uint32_t round = 1; round <= 200; round++) {
        play(&c, FEDSERVER_SELECT_ROUND_ROBIN, round);
        uint32_t least = UINT32_MAX, most = 0;
        for (uint32_t k = 0; k < DEVICES; k++) {
            least = c.taken[k] < least ? c.taken[k] : least;
            most = c.taken[k] > most ? c.taken[k] : most;
        }
        assert_true(most - least <= 1);
    }
}

FED_TEST(round_robin_prefers_who_has_waited_longest) {
    crowd c = crowd_of();
    for (uint32_t k = 0; k < DEVICES; k++) {
        c.devices[k].last_round = k;
    }
    fedserver_cohort cohort = drawn(&c, FEDSERVER_SELECT_ROUND_ROBIN, DEVICES);
    const uint32_t last = SLOTS - 1; /* this device and those before it get the slots */
    for (uint32_t k = 0; k < DEVICES; k++) {
        const fedserver_candidate *before = &c.devices[k <= last ? last : k - 1];
        bool later = fedserver_cohort_priority(&cohort, before) <
                     fedserver_cohort_priority(&cohort, &c.devices[k]);
        assert_true(later == (k > last));
    }
}

FED_TEST(who_took_part_after_the_drawing_comes_last) {
    crowd c = crowd_of();
    /* In the first pass SLOTS devices have never taken part, and the others took part in round 1.
     * In the second pass all devices have taken part in round 2. */
    for (uint32_t round = 1; round < 3; round++) {
        for (uint32_t k = 0; k < DEVICES; k++) {
            c.devices[k].last_round = round == 1 && k < SLOTS ? 0 : round;
        }
        fedserver_cohort cohort = drawn(&c, FEDSERVER_SELECT_ROUND_ROBIN, round);
        fedserver_candidate later = c.devices[0];
        later.last_round = round + 5;
        double priority = fedserver_cohort_priority(&cohort, &later);
        assert_true(priority >= 0 && priority < 1);
        assert_true(round > 1 || priority > fedserver_cohort_priority(&cohort, &c.devices[1]));
    }
}

/* Where all candidates are known, as many are admitted at once as there are slots. */
FED_TEST(just_those_drawn_are_admitted_at_once) {
    crowd c = crowd_of();
    for (uint32_t k = 0; k < DEVICES; k++) {
        c.devices[k].samples = 10 + k;
        c.devices[k].last_round = k % 3;
    }
    for (uint32_t round = 3; round <= 100; round++) {
        for (int selection = 0; selection < 3; selection++) {
            const fedserver_cohort cohort = drawn(&c, (fedserver_selection)selection, round);
            uint32_t at_once = 0;
            for (uint32_t k = 0; k < DEVICES; k++) {
                at_once += fedserver_cohort_admits_ms(&cohort, &c.devices[k]) == cohort.opened_ms;
            }
            assert_int_equal(at_once, SLOTS);
        }
    }
}

FED_TEST(those_drawn_come_first_in_the_list) {
    crowd c = crowd_of();
    fedserver_cohort cohort = drawn(&c, FEDSERVER_SELECT_UNIFORM, 1);
    for (uint32_t slots = 1; slots < DEVICES; slots++) {
        fedserver_cohort_draw(&cohort, c.devices, DEVICES, 1, slots);
        for (uint32_t k = 0; k < DEVICES; k++) {
            const bool first = fedserver_cohort_priority(&cohort, &c.devices[k]) <= cohort.start;
            assert_true(first == (k < slots));
        }
    }
}

FED_TEST(a_round_fills_within_its_window_though_most_stay_away) {
    crowd c = crowd_of();
    for (uint32_t k = SLOTS; k < DEVICES; k++) {
        c.away[k] = true;
    }
    for (uint32_t round = 1; round <= 20; round++) {
        for (int selection = 0; selection < 3; selection++) {
            play(&c, (fedserver_selection)selection, round);
        }
    }
    assert_true(c.full_ms > 0);
}

FED_TEST(with_slots_for_all_everybody_comes_at_once) {
    crowd c = crowd_of();
    for (int selection = 0; selection < 3; selection++) {
        fedserver_cohort cohort = drawn(&c, (fedserver_selection)selection, 1);
        fedserver_cohort_draw(&cohort, c.devices, SLOTS, 1, SLOTS);
        for (uint32_t k = 0; k < DEVICES; k++) {
            assert_true(fedserver_cohort_admits_ms(&cohort, &c.devices[k]) == cohort.opened_ms);
        }
        fedserver_cohort_draw(&cohort, c.devices, 0, 1, SLOTS);
        assert_true(fedserver_cohort_admits_ms(&cohort, &c.devices[0]) == cohort.opened_ms);
    }
}

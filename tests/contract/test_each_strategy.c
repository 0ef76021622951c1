/* Contract of every strategy of strategies.def, but those that wait for another program. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/hash.h"
#include "fedserver/strategies/strategy.h"
#include "strategy_case.h"

static strategy_round rounds[CASE_ROUNDS];
static strategy_house calm, rough;

static int setup(void **state) {
    (void)state;
    strategy_house_open(&calm, false);
    strategy_house_open(&rough, true);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    strategy_house_close(&calm);
    strategy_house_close(&rough);
    return 0;
}

static void each_spec(void (*check)(const char *spec)) {
    const fedserver_strategy_vtable *vtable;
    for (size_t k = 0; (vtable = fedserver_strategy_at(k)) != NULL; k++) {
        char spec[64];
        if (vtable->outside) {
            continue;
        }
        check(vtable->name);
        snprintf(spec, sizeof spec, "%s+clip:norm=1.5", vtable->name);
        check(spec);
    }
}

static void check_roughness(const char *spec) {
    strategy_models one, other;
    strategy_house_play(&calm, spec, rounds, &one);
    strategy_house_play(&rough, spec, rounds, &other);
    size_t n = sizeof one.version / sizeof(float);
    if (fed_digest(one.version[0], n) != fed_digest(other.version[0], n)) {
        fail_msg("%s: the order of arrival, or a crash, changed the model", spec);
    }
}

/* D3 of docs/durability.md. */
FED_TEST(neither_order_nor_crashes_change_a_bit) {
    strategy_case_draw(3, rounds);
    each_spec(check_roughness);
}

static void check_agreement(const char *spec) {
    strategy_models models;
    strategy_house_play(&calm, spec, rounds, &models);
    for (int r = 0; r < CASE_ROUNDS; r++) {
        for (int i = CASE_TRAINED; i < CASE_VALUES; i++) {
            float moved = models.version[r + 1][i] - models.version[r][i];
            float sent = rounds[r].x[0][i];
            if (!(moved >= sent - 1e-5f && moved <= sent + 1e-5f)) {
                fail_msg("%s, version %d: a statistic moved by %g, where all sent %g", spec, r + 1,
                         (double)moved, (double)sent);
            }
        }
    }
}

FED_TEST(a_statistic_that_all_agree_on_is_taken_as_it_is) {
    strategy_case_draw(5, rounds);
    for (int r = 0; r < CASE_ROUNDS; r++) {
        for (int d = 1; d < CASE_DEVICES; d++) {
            memcpy(rounds[r].x[d], rounds[r].x[0], sizeof rounds[r].x[0]);
        }
    }
    each_spec(check_agreement);
}

int main(void) {
    return fed_cases_run(setup, teardown);
}

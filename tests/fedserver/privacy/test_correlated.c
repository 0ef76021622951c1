/* Correlated noise: later rounds take off what earlier ones added, in whole numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/privacy/correlated.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"
#include "fed_cases.h"

enum { FIELDS = 4096, ROUNDS = 100, APART = 10 };

/* All rounds' noise so far, as it is stored. */
typedef struct history {
    uint8_t *rounds[ROUNDS];
    uint32_t round;   /* the one that is drawn */
    uint32_t missing; /* has no noise; 0: each has */
} history;

static fed_status earlier(void *user, uint32_t back, uint8_t *bytes, size_t len, bool *found,
                          fed_error *err) {
    const history *h = user;
    (void)err;
    *found = back <= h->round && h->round - back + 1 != h->missing;
    if (*found) {
        memcpy(bytes, h->rounds[h->round - back], len);
    }
    return FED_OK;
}

/* Draw the noise of the next round, with the key that its number gives. */
static void draw(history *h, double sigma2, uint32_t apart, uint8_t *bytes) {
    const uint8_t key[FEDSERVER_NOISE_KEY] = {(uint8_t)(h->round + 1), 7};
    const uint8_t set[FED_SHA256_SIZE] = {(uint8_t)apart};
    fedserver_correlated which = {.key = key, .set = set, .apart = apart, .count = FIELDS};
    fed_error err = {0};
    assert_fed_ok(fedserver_correlated_variance(sigma2, &which.variance));
    assert_fed_ok_err(fedserver_correlated_draw(&which, earlier, h, bytes, &err));
}

static uint8_t *new_bytes(void) {
    uint8_t *bytes = calloc(FIELDS, FEDSERVER_CORRELATED);
    assert_non_null(bytes);
    return bytes;
}

static void end(history *h) {
    for (size_t k = 0; k < ROUNDS; k++) {
        free(h->rounds[k]);
    }
}

static double length_of(const int64_t *sum) {
    double squares = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        squares += (double)sum[i] * (double)sum[i];
    }
    return sqrt(squares);
}

/* The goal of docs/results/privacy.md: 10 participations, 10 rounds apart, 100 rounds. */
FED_TEST(the_noise_of_a_hundred_rounds_is_less_than_half_of_independent_noise) {
    history h = {.round = 0};
    int64_t *sum = calloc(FIELDS, sizeof *sum), *level = calloc(FIELDS, sizeof *level);
    assert_true(sum != NULL && level != NULL);
    const double z = fedserver_privacy_z(8, 1e-5, ROUNDS / APART, APART);
    const double alone = fedserver_privacy_z(8, 1e-5, ROUNDS / APART, 1), reach = 1000;
    for (; h.round < ROUNDS; h.round++) {
        h.rounds[h.round] = new_bytes();
        draw(&h, z * z * reach * reach, APART, h.rounds[h.round]);
        fedserver_correlated_levels(h.rounds[h.round], level, FIELDS);
        for (size_t i = 0; i < FIELDS; i++) {
            sum[i] += level[i];
        }
    }
    const double ratio = length_of(sum) / (alone * reach * sqrt((double)FIELDS * ROUNDS));
    const double wanted = z / alone * fedserver_privacy_share(APART, ROUNDS);
    print_message("the noise of the model is %.4f of independent noise, by the formula %.4f\n",
                  ratio, wanted);
    assert_true(ratio < 0.45 && fabs(ratio / wanted - 1) < 0.05);
    free(level);
    free(sum);
    end(&h);
}

/* C Z, to the last bit: what an attacker has to undo is independent noise of the full variance. */
FED_TEST(the_independent_noise_comes_out_again_exactly) {
    enum { LAST = 7 };
    history h = {.round = 0};
    double c[FEDSERVER_APART_MOST], squares = 0;
    (void)fedserver_privacy_coefficients(4, c);
    for (; h.round < LAST; h.round++) {
        h.rounds[h.round] = new_bytes();
        draw(&h, 100, 4, h.rounds[h.round]);
    }
    for (size_t i = 0; i < FIELDS; i++) {
        double z = 0;
        for (uint32_t back = 0; back < 4; back++) {
            int64_t value;
            memcpy(&value, h.rounds[LAST - 1 - back] + i * sizeof value, sizeof value);
            z += c[back] * ldexp((double)value, -32);
        }
        squares += z * z;
    }
    assert_true(fabs(squares / FIELDS / 100 - 1) < 0.1);
    end(&h);
}

/* Whole numbers pass through: a release says as much as the sum that it is made of, less the noise
 * (see the proof in the header). Noise that is half way between two is rounded up, always. */
FED_TEST(levels_are_rounded_alike_wherever_the_sum_stands) {
    const int64_t parts[] = {0,
                             1,
                             INT64_C(1) << 31,
                             (INT64_C(1) << 31) - 1,
                             -1,
                             -(INT64_C(1) << 31),
                             -(INT64_C(1) << 31) - 1};
    const int64_t wanted[] = {0, 0, 1, 0, 0, 0, -1};
    for (int64_t whole = -3; whole <= 3; whole++) {
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
            uint8_t bytes[FEDSERVER_CORRELATED];
            int64_t level = 0;
            fed_writer w;
            fed_writer_fixed(&w, bytes, sizeof bytes);
            fed_write_u64(&w, (uint64_t)(whole * (INT64_C(1) << 32) + parts[k]));
            fedserver_correlated_levels(bytes, &level, 1);
            assert_int_equal(level, whole + wanted[k]);
        }
    }
}

/* The noise of a round that is missing counts as zeros. The same key gives the same bytes. */
FED_TEST(a_round_that_is_missing_takes_nothing_off) {
    history h = {.round = 0};
    h.rounds[0] = new_bytes();
    draw(&h, 100, 2, h.rounds[0]);
    uint8_t *with = new_bytes(), *again = new_bytes(), *without = new_bytes();
    h.round = 1;
    draw(&h, 100, 2, with);
    draw(&h, 100, 2, again);
    assert_memory_equal(with, again, FIELDS * FEDSERVER_CORRELATED);
    h.missing = 1;
    draw(&h, 100, 2, without);
    assert_memory_not_equal(with, without, FIELDS * FEDSERVER_CORRELATED);
    for (size_t i = 0; i < FIELDS; i++) { /* Z_2 = z_2 - Z_1 / 2 */
        int64_t a, b, z; /* stored as this machine has them: tests run on little-endian ones */
        memcpy(&a, with + i * sizeof a, sizeof a);
        memcpy(&z, without + i * sizeof z, sizeof z);
        memcpy(&b, h.rounds[0] + i * sizeof b, sizeof b);
        assert_true(llabs(2 * (z - a) - b) <= 1);
    }
    free(without);
    free(again);
    free(with);
    end(&h);
}

FED_TEST(noise_that_does_not_fit_is_refused) {
    fedserver_variance v;
    assert_fed_status(fedserver_correlated_variance(0x1p49, &v), FED_EINVAL);
    assert_fed_status(fedserver_correlated_variance(0, &v), FED_EINVAL);
    assert_fed_ok(fedserver_correlated_variance(0x1p47, &v));
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}

/* A helper opens one set of a round, whose devices all signed what they were told, and no other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fed/crypto.h"
#include "fed/file.h"
#include "fedcodec/ring.h"
#include "fedserver/privacy/accountant.h"
#include "fedserver/privacy/grouping.h"
#include "fedserver/private_helper.h"

enum { DEVICES = 6, FIELDS = 320, WIDTH = 14 };

typedef struct world {
    char path[256];
    uint8_t secret[FED_POINT_SECRET];
    fed_private_terms terms;
    fed_pem keys[DEVICES];
    uint8_t seeds[DEVICES][FED_HELPERS][FED_SEED];
    fedserver_sealed devices[DEVICES];
    fedserver_inquiry question;
    fedserver_helper_options options;
    fedserver_helper *helper;
    fedserver_reply reply;
    fed_error err;
} world;

static void seal(world *w, size_t k, const fed_private_terms *terms, uint64_t lease) {
    fedserver_sealed *d = &w->devices[k];
    d->lease = lease;
    assert_fed_ok(fed_private_seal(terms, lease, &w->keys[k], &d->private_, w->seeds[k], &w->err));
}

static void reopen(world *w) {
    fedserver_helper_close(w->helper);
    w->helper = NULL;
    assert_fed_ok(fedserver_helper_open(&w->options, &w->helper, &w->err));
}

static int begin(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(fed_test_dir_make(state), 0);
    snprintf(w->path, sizeof w->path, "%.200s/helper.db", fed_test_dir);
    w->terms = (fed_private_terms){.task = 3,
                                   .round = 9,
                                   .codec_up = "ring:b=5",
                                   .width = WIDTH,
                                   .fields = FIELDS,
                                   .sent = FIELDS};
    w->terms.privacy = (fed_privacy){.clip = 1,
                                     .minimum = 4,
                                     .goal = 5,
                                     .cohort = DEVICES,
                                     .apart = 1,
                                     .helpers = 1,
                                     .generation = 5};
    fed_privacy_draw(3, 9, w->terms.draw);
    assert_fed_ok(fed_point_new(w->secret, w->terms.privacy.helper_key[0], &w->err));
    for (size_t k = 0; k < DEVICES; k++) {
        assert_fed_ok(fed_key_new(&w->keys[k], &w->err));
        seal(w, k, &w->terms, 100 + k);
    }
    w->question = (fedserver_inquiry){w->terms, w->devices, 5, 1};
    w->options = (fedserver_helper_options){.path = w->path, .least = 2};
    memcpy(w->options.secret, w->secret, sizeof w->secret);
    reopen(w);
    *state = w;
    return 0;
}

static int end(void **state) {
    world *w = *state;
    fedserver_helper_close(w->helper);
    fedserver_reply_free(&w->reply);
    free(w);
    return fed_test_dir_remove(state);
}

static void ask(world *w) {
    fedserver_reply_free(&w->reply);
    assert_fed_ok(fedserver_helper_answer(w->helper, &w->question, &w->reply, &w->err));
}

/* The helper refuses with this word, and leaves no trace: the sound question is answered then. */
static void assert_refused(world *w, const char *word) {
    ask(w);
    assert_string_equal(w->reply.word, word);
    assert_true(w->reply.sentence[0] != '\0');
    assert_null(w->reply.fields);
}

static void assert_opens(world *w) {
    ask(w);
    assert_string_equal(w->reply.word, "");
    assert_int_equal(w->reply.fields_len, FIELDS / 8 * WIDTH);
}

FED_TEST_WITH(an_opening_is_the_sum_of_the_masks, world *w) {
    uint32_t y[FIELDS] = {0}, got[FIELDS];
    assert_opens(w);
    for (size_t k = 0; k < w->question.count; k++) {
        assert_fed_ok(fed_private_mask(w->seeds[k][0], WIDTH, 0, y, FIELDS));
    }
    fed_private_unpack(w->reply.fields, WIDTH, 0, got, FIELDS);
    for (size_t i = 0; i < FIELDS; i++) {
        assert_int_equal(got[i], y[i] & ((1u << WIDTH) - 1));
    }
}

FED_TEST_WITH(another_model_for_one_device_is_refused, world *w) {
    fed_private_terms other = w->terms;
    other.model[7] ^= 1;
    seal(w, 2, &other, 102);
    assert_refused(w, "terms");
    fed_private_terms_digest(&w->terms, w->devices[2].private_.terms); /* a lying coordinator */
    assert_refused(w, "signature");
    seal(w, 2, &w->terms, 102);
    assert_opens(w);
}

FED_TEST_WITH(another_cohort_or_clip_for_one_device_is_refused, world *w) {
    fed_private_terms other = w->terms;
    other.privacy.cohort = 400;
    seal(w, 2, &other, 102);
    assert_refused(w, "terms");
    other = w->terms;
    other.privacy.clip = 2;
    seal(w, 2, &other, 102);
    assert_refused(w, "terms");
    other = w->terms;
    other.privacy.counted = true;
    seal(w, 2, &other, 102);
    assert_refused(w, "terms");
    seal(w, 2, &w->terms, 102);
    assert_opens(w);
}

FED_TEST_WITH(a_replayed_seed_is_refused, world *w) {
    fed_private_terms before = w->terms;
    before.round = 8;
    fed_privacy_draw(3, 8, before.draw);
    seal(w, 1, &before, 101);
    assert_refused(w, "terms"); /* of another round */
    seal(w, 1, &w->terms, 101);
    w->devices[1].lease = 555;
    assert_refused(w, "signature"); /* of another lease */
    w->devices[1].lease = 101;
    const fedserver_sealed own = w->devices[1];
    w->devices[1].private_.seeds[0] = w->devices[0].private_.seeds[0];
    assert_refused(w, "signature"); /* of another device */
    w->devices[1] = own;
    assert_opens(w);
}

FED_TEST_WITH(a_device_that_claims_anothers_key_is_refused, world *w) {
    const fedserver_sealed own = w->devices[1];
    memcpy(w->devices[1].private_.point, w->devices[5].private_.point, FED_POINT);
    assert_refused(w, "signature");
    memset(w->devices[1].private_.point, 4, FED_POINT);
    assert_refused(w, "signature");
    w->devices[1] = own;
    assert_opens(w);
}

FED_TEST_WITH(a_device_twice_is_refused, world *w) {
    const fedserver_sealed own = w->devices[1];
    w->devices[1] = w->devices[0];
    assert_refused(w, "twice");
    w->keys[4] = w->keys[3]; /* the same device with two leases */
    const fedserver_sealed fourth = w->devices[4];
    w->devices[1] = own;
    seal(w, 4, &w->terms, 104);
    assert_refused(w, "twice");
    w->devices[4] = fourth;
    seal(w, 1, &w->terms, 100); /* two devices with one lease */
    assert_refused(w, "twice");
    w->devices[1] = own;
    assert_opens(w);
}

FED_TEST_WITH(a_set_below_the_minimum_is_refused, world *w) {
    w->question.count = 3;
    assert_refused(w, "minimum"); /* the task's */
    w->question.count = 5;
    w->options.least = 6;
    reopen(w);
    assert_refused(w, "minimum"); /* the helper's own */
    w->options.least = 5;
    reopen(w);
    assert_opens(w);
}

FED_TEST_WITH(a_set_above_the_cohort_is_refused, world *w) {
    w->terms.privacy.cohort = 5;
    w->question.terms = w->terms;
    for (size_t k = 0; k < DEVICES; k++) {
        seal(w, k, &w->terms, 100 + k);
    }
    w->question.count = 6;
    assert_refused(w, "cohort");
    w->question.count = 5;
    assert_opens(w);
}

FED_TEST_WITH(a_second_set_is_refused, world *w) {
    assert_opens(w);
    w->question.count = 4;
    assert_refused(w, "second_set");
    w->question.count = 6;
    assert_refused(w, "second_set");
    reopen(w);
    assert_refused(w, "second_set");
    w->question.count = 5;
    assert_opens(w);
}

/* In any order of the devices, and after a restart. */
FED_TEST_WITH(the_same_set_gives_the_same_bytes, world *w) {
    uint8_t first[FIELDS / 8 * WIDTH];
    assert_opens(w);
    memcpy(first, w->reply.fields, sizeof first);
    const fedserver_sealed moved = w->devices[0];
    w->devices[0] = w->devices[4];
    w->devices[4] = moved;
    assert_opens(w);
    assert_memory_equal(first, w->reply.fields, sizeof first);
    reopen(w);
    assert_opens(w);
    assert_memory_equal(first, w->reply.fields, sizeof first);
}

static void limit_participations(world *w, uint32_t round, uint32_t most, uint32_t apart) {
    w->terms.round = round;
    w->terms.privacy.participations = most;
    w->terms.privacy.apart = apart;
    fed_privacy_draw(w->terms.task, round, w->terms.draw);
    w->question.terms = w->terms;
    for (size_t k = 0; k < DEVICES; k++) {
        seal(w, k, &w->terms, 100 + k);
    }
}

/* Ask for the sums of groups. */
static void ask_for_groups(world *w, uint32_t groups, uint32_t minimum) {
    w->terms.privacy.minimum = minimum;
    limit_participations(w, 9, 0, 1);
    w->question.count = DEVICES;
    w->question.groups = groups;
}

/* Write y[fields], the sum of the masks of a group, as the round's hash deals the devices out. */
static void masks_of_group(const world *w, uint32_t group, uint32_t *y) {
    const fed_private_terms *t = &w->question.terms;
    fedserver_grouping which = {.task = t->task, .round = t->round, .groups = w->question.groups};
    uint8_t names[DEVICES][FED_SHA256_SIZE];
    uint32_t dealt[DEVICES];
    memcpy(which.model, t->model, sizeof which.model);
    for (size_t k = 0; k < DEVICES; k++) {
        fed_point_fingerprint(w->devices[k].private_.point, names[k]);
    }
    assert_fed_ok(fedserver_grouping_deal(&which, names, DEVICES, dealt));
    memset(y, 0, (size_t)t->fields * sizeof *y);
    for (size_t k = 0; k < DEVICES; k++) {
        if (dealt[k] == group) {
            assert_fed_ok(fed_private_mask(w->seeds[k][0], t->width, 0, y, (size_t)t->fields));
        }
    }
}

FED_TEST_WITH(groups_are_opened_each_by_itself, world *w) {
    enum { EACH = FIELDS / 8 * WIDTH };
    uint8_t first[3 * EACH];
    uint32_t y[FIELDS], got[FIELDS];
    ask_for_groups(w, 3, 2);
    ask(w);
    assert_string_equal(w->reply.word, "");
    assert_int_equal(w->reply.fields_len, 3 * EACH);
    for (uint32_t g = 0; g < 3; g++) {
        masks_of_group(w, g, y);
        fed_private_unpack(w->reply.fields + g * EACH, WIDTH, 0, got, FIELDS);
        for (size_t i = 0; i < FIELDS; i++) {
            assert_int_equal(got[i], y[i] & ((1u << WIDTH) - 1));
        }
    }
    memcpy(first, w->reply.fields, sizeof first);
    const fedserver_sealed moved = w->devices[0]; /* in any order, and after a restart */
    w->devices[0] = w->devices[4];
    w->devices[4] = moved;
    reopen(w);
    ask(w);
    assert_int_equal(w->reply.fields_len, sizeof first);
    assert_memory_equal(first, w->reply.fields, sizeof first);
}

/* Sums over two groupings of one set would show what stands between them. */
FED_TEST_WITH(the_same_set_in_other_groups_is_a_second_set, world *w) {
    ask_for_groups(w, 3, 2);
    ask(w);
    assert_string_equal(w->reply.word, "");
    for (uint32_t groups = 1; groups < 3; groups++) {
        w->question.groups = groups;
        assert_refused(w, "second_set");
    }
    reopen(w);
    assert_refused(w, "second_set");
    w->question.groups = 3;
    ask(w);
    assert_string_equal(w->reply.word, "");
}

FED_TEST_WITH(groups_below_the_minimum_are_refused, world *w) {
    ask_for_groups(w, 4, 2);
    assert_refused(w, "minimum"); /* 6 devices in 4 groups */
    w->question.groups = 3;
    w->question.count = 5;
    assert_refused(w, "minimum");
    w->question.count = 6;
    w->options.least = 3;
    reopen(w);
    assert_refused(w, "minimum"); /* the helper's own */
    w->question.groups = 2;
    ask(w);
    assert_string_equal(w->reply.word, "");
}

FED_TEST_WITH(groups_of_correlated_noise_are_refused, world *w) {
    ask_for_groups(w, 3, 2);
    limit_participations(w, 9, 5, 3);
    assert_refused(w, "groups");
}

FED_TEST_WITH(a_new_generation_needs_new_seals, world *w) {
    assert_opens(w);
    w->question.terms.privacy.generation = 6; /* the seals are of generation 5 */
    assert_refused(w, "terms");
    w->terms = w->question.terms;
    for (size_t k = 0; k < DEVICES; k++) {
        seal(w, k, &w->terms, 200 + k);
    }
    assert_opens(w);
    assert_true(w->reply.renewed);
    reopen(w);
    assert_opens(w); /* the same question: the same answer */
    assert_false(w->reply.renewed);
}

/* A coordinator and its restored copy: after the copy's first round the other gets nothing new. */
FED_TEST_WITH(an_earlier_generation_is_over, world *w) {
    const fed_private_terms earlier = w->terms;
    assert_opens(w);
    w->terms.privacy.generation = 6;
    limit_participations(w, 9, 0, 1);
    assert_opens(w);
    w->terms = earlier;
    limit_participations(w, 10, 0, 1);
    assert_refused(w, "generation");
    reopen(w);
    assert_refused(w, "generation");
    w->terms.task = 4; /* another task of that generation has no newer one */
    limit_participations(w, 10, 0, 1);
    assert_opens(w);
}

/* What a device has taken is counted over all generations. Rounds are compared within one: after a
 * restore their numbers begin anew. */
FED_TEST_WITH(a_new_generation_gives_no_device_more_rounds, world *w) {
    limit_participations(w, 9, 2, 3);
    assert_opens(w);
    w->terms.privacy.generation = 6;
    limit_participations(w, 9, 2, 3);
    assert_opens(w);
    w->terms.privacy.generation = 7;
    limit_participations(w, 20, 2, 3);
    assert_refused(w, "spent");
}

FED_TEST_WITH(a_spent_device_is_refused, world *w) {
    limit_participations(w, 9, 2, 1);
    assert_opens(w);
    assert_opens(w); /* the same question takes nothing */
    limit_participations(w, 10, 2, 1);
    assert_opens(w);
    reopen(w);
    limit_participations(w, 11, 2, 1);
    assert_refused(w, "spent");
}

FED_TEST_WITH(a_device_that_comes_back_too_soon_is_refused, world *w) {
    limit_participations(w, 9, 5, 3);
    assert_opens(w);
    limit_participations(w, 11, 5, 3);
    assert_refused(w, "spent");
    limit_participations(w, 12, 5, 3);
    assert_opens(w);
}

/* A seal that can't be opened is named, and the rest is opened later: nothing was released. */
FED_TEST_WITH(seals_that_cannot_be_opened_are_named, world *w) {
    fed_private_terms other = w->terms;
    uint8_t secret[FED_POINT_SECRET];
    w->question.count = 6;
    for (size_t k = 1; k < 6; k += 3) { /* sealed to another key, but signed under these terms */
        assert_fed_ok(fed_point_new(secret, other.privacy.helper_key[0], &w->err));
        fed_private made;
        uint8_t seeds[FED_HELPERS][FED_SEED];
        assert_fed_ok(fed_private_seal(&other, 100 + k, &w->keys[k], &made, seeds, &w->err));
        w->devices[k].private_.seeds[0] = made.seeds[0];
        assert_fed_ok(fed_private_sign(&w->devices[k].private_, 100 + k, &w->keys[k], &w->err));
    }
    assert_refused(w, "seals");
    assert_int_equal(w->reply.unopened_count, 2);
    assert_int_equal(w->reply.unopened[0], 1);
    assert_int_equal(w->reply.unopened[1], 4);
    w->devices[1] = w->devices[5];
    w->question.count = 4;
    assert_opens(w);
}

FED_TEST_WITH(a_device_that_is_not_on_the_roster_is_refused, world *w) {
    uint8_t roster[4][FED_SHA256_SIZE];
    for (size_t k = 0; k < 4; k++) {
        fed_point_fingerprint(w->devices[k].private_.point, roster[k]);
    }
    w->options.roster = (const uint8_t(*)[FED_SHA256_SIZE])roster;
    w->options.roster_count = 4;
    reopen(w);
    assert_refused(w, "roster");
    w->question.count = 4;
    assert_opens(w);
}

FED_TEST_WITH(terms_that_are_not_this_helpers_are_refused, world *w) {
    w->question.terms.draw[0] ^= 1;
    assert_refused(w, "terms");
    w->question.terms = w->terms;
    w->question.terms.privacy.helper_key[0][9] ^= 1;
    assert_refused(w, "key");
}

/* Let the terms of this round promise epsilon 8 in four rounds, with as much noise as that takes,
 * and have all devices seal under them. */
static void promise(world *w, uint32_t round, uint64_t sent) {
    fed_private_terms *t = &w->terms;
    fed_privacy *p = &t->privacy;
    p->epsilon = 8;
    p->delta = 1e-5F;
    p->participations = 4;
    p->sigma2 = 0;
    const double sigma = fedserver_privacy_z(8, (double)p->delta, 4, 1) *
                         fed_privacy_shape(p, 5, 1, (size_t)sent).reach;
    p->sigma2 = sigma * sigma;
    const fed_privacy_fields shape = fed_privacy_shape(p, 5, 1, (size_t)sent);
    t->round = round;
    t->sent = sent;
    t->fields = shape.fields;
    t->width = shape.width;
    fed_privacy_draw(3, round, t->draw);
    w->question.terms = *t;
    for (size_t k = 0; k < DEVICES; k++) {
        seal(w, k, t, 100 + k);
    }
}

static void assert_opens_noisily(world *w) {
    ask(w);
    assert_string_equal(w->reply.word, "");
    assert_int_equal(w->reply.fields_len, w->terms.fields / 8 * w->terms.width);
}

/* Write noise[fields]: the sum of the masks, less what the helper sent, as signed. */
static int32_t *noise_of(const world *w) {
    const size_t n = (size_t)w->terms.fields;
    const unsigned width = w->terms.width;
    int32_t *noise = calloc(n, sizeof *noise);
    uint32_t *y = calloc(n, sizeof *y), *got = malloc(n * sizeof *got);
    assert_true(noise != NULL && y != NULL && got != NULL);
    for (size_t k = 0; k < w->question.count; k++) {
        assert_fed_ok(fed_private_mask(w->seeds[k][0], width, 0, y, n));
    }
    fed_private_unpack(w->reply.fields, width, 0, got, n);
    for (size_t i = 0; i < n; i++) {
        noise[i] = (int32_t)((y[i] - got[i]) << (32 - width)) >> (32 - width);
    }
    free(y);
    free(got);
    return noise;
}

/* In any order of the devices, and after a restart: one noise for one sum. */
FED_TEST_WITH(the_same_set_gives_the_same_noise, world *w) {
    promise(w, 9, FIELDS);
    assert_opens_noisily(w);
    const size_t len = w->reply.fields_len;
    uint8_t *first = malloc(len);
    assert_non_null(first);
    memcpy(first, w->reply.fields, len);
    const fedserver_sealed moved = w->devices[0];
    w->devices[0] = w->devices[4];
    w->devices[4] = moved;
    assert_opens_noisily(w);
    assert_memory_equal(first, w->reply.fields, len);
    reopen(w);
    assert_opens_noisily(w);
    assert_memory_equal(first, w->reply.fields, len);
    free(first);
}

/* Each group has all of the noise, and none of it is another's. */
FED_TEST_WITH(each_group_has_noise_of_its_own, world *w) {
    enum { SENT = 4096 };
    double squares[3] = {0}, product = 0;
    w->terms.privacy.minimum = 2;
    promise(w, 9, SENT);
    w->question.count = DEVICES;
    w->question.groups = 3;
    ask(w);
    assert_string_equal(w->reply.word, "");
    const size_t n = (size_t)w->terms.fields, each = n / 8 * w->terms.width;
    const unsigned width = w->terms.width;
    uint32_t *y = malloc(n * sizeof *y), *got = malloc(n * sizeof *got);
    int32_t *before = calloc(n, sizeof *before);
    assert_true(y != NULL && got != NULL && before != NULL);
    for (uint32_t g = 0; g < 3; g++) {
        masks_of_group(w, g, y);
        fed_private_unpack(w->reply.fields + g * each, width, 0, got, n);
        for (size_t i = 0; i < n; i++) {
            const int32_t noise = (int32_t)((y[i] - got[i]) << (32 - width)) >> (32 - width);
            squares[g] += (double)noise * noise;
            product += (double)noise * before[i];
            before[i] = noise;
        }
        const double share = squares[g] / (double)n / w->terms.privacy.sigma2;
        assert_true(share > 0.8 && share < 1.2); /* its error is 0.022 */
    }
    assert_true(fabs(product) < 0.2 * (double)n * w->terms.privacy.sigma2);
    free(y);
    free(got);
    free(before);
}

/* The key of a round's noise is gone with the next round, so nobody gets its sum again, and never
 * without the noise. */
FED_TEST_WITH(a_round_that_is_over_has_no_noise_any_more, world *w) {
    fedserver_sealed before[DEVICES];
    promise(w, 9, FIELDS);
    const fed_private_terms ninth = w->terms;
    memcpy(before, w->devices, sizeof before);
    assert_opens_noisily(w);
    promise(w, 10, FIELDS);
    assert_opens_noisily(w);
    memcpy(w->devices, before, sizeof before);
    w->question.terms = ninth;
    assert_refused(w, "over");
}

FED_TEST_WITH(an_openings_noise_has_the_variance_that_the_promise_asks_for, world *w) {
    enum { MANY = 262144, ROUNDS = 2 };
    double squares = 0, sum = 0;
    for (uint32_t round = 9; round < 9 + ROUNDS; round++) {
        promise(w, round, MANY);
        assert_opens_noisily(w);
        int32_t *noise = noise_of(w);
        for (size_t i = 0; i < MANY; i++) {
            sum += noise[i];
            squares += (double)noise[i] * noise[i];
        }
        free(noise);
    }
    const double n = (double)MANY * ROUNDS, variance = squares / n;
    print_message("the variance is %.4f of sigma^2\n", variance / w->terms.privacy.sigma2);
    assert_true(fabs(variance / w->terms.privacy.sigma2 - 1) < 0.01);
    assert_true(fabs(sum / n) < 5 * sqrt(variance / n));
}

/* Let the terms promise the same with participations `apart` rounds apart. */
static void promise_apart(world *w, uint32_t round, uint32_t apart) {
    fed_private_terms *t = &w->terms;
    promise(w, round, FIELDS);
    t->privacy.apart = apart;
    const double sigma = fedserver_privacy_z(8, (double)t->privacy.delta, 4, apart) *
                         fed_privacy_shape(&t->privacy, 5, 1, FIELDS).reach;
    t->privacy.sigma2 = sigma * sigma;
    t->width = fed_privacy_width(5, DEVICES, t->privacy.sigma2);
    fed_privacy_draw(3, fed_privacy_drawn(&t->privacy, round), t->draw);
    w->question.terms = *t;
    for (size_t k = 0; k < DEVICES; k++) {
        seal(w, k, t, 100 + k);
    }
}

/* Two rounds, of three devices each, with a new helper each time. */
FED_TEST_WITH(correlated_noise_is_the_same_after_a_death_and_goes_against_the_round_before,
              world *w) {
    enum { TIMES = 40 };
    double along = 0, squares = 0;
    for (uint32_t k = 0; k < TIMES; k++) {
        fed_privacy *p = &w->terms.privacy;
        p->minimum = 2;
        w->question.devices = w->devices;
        w->question.count = 3;
        promise_apart(w, 9, 2);
        assert_opens_noisily(w);
        int32_t *first = noise_of(w);
        reopen(w);
        promise_apart(w, 10, 2);
        w->question.devices = w->devices + 3; /* the others rest */
        assert_opens_noisily(w);
        uint8_t *bytes = malloc(w->reply.fields_len);
        assert_non_null(bytes);
        memcpy(bytes, w->reply.fields, w->reply.fields_len);
        reopen(w);
        assert_opens_noisily(w);
        assert_memory_equal(bytes, w->reply.fields, w->reply.fields_len);
        memmove(w->seeds, w->seeds + 3, 3 * sizeof w->seeds[0]);
        int32_t *second = noise_of(w);
        for (size_t i = 0; i < FIELDS; i++) {
            along += (double)first[i] * second[i];
            squares += (double)first[i] * first[i];
        }
        free(bytes);
        free(first);
        free(second);
        fedserver_helper_close(w->helper);
        w->helper = NULL;
        unlink(w->path);
        reopen(w);
    }
    assert_true(fabs(squares / (TIMES * FIELDS) / w->terms.privacy.sigma2 - 1) < 0.1);
    assert_true(fabs(along / squares + 0.5) < 0.05); /* Z_2 = z_2 - Z_1 / 2 */
}

static fed_status random_bytes(void *user, void *dst, size_t len) {
    (void)user;
    return fed_random(dst, len);
}

/* Have a device train: a vector of the clip's length, with values of both signs. */
static void train(const world *w, size_t k, size_t n, float *x, double *mean) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        x[i] = sinf((float)((k * 7919 + i * i) % 10007)) + 0.2F;
        squares += (double)x[i] * (double)x[i];
    }
    for (size_t i = 0; i < n; i++) {
        x[i] *= (float)(0.999 * (double)w->terms.privacy.clip / sqrt(squares));
        mean[i] += (double)x[i] / (double)w->question.count;
    }
}

/* Add the masked fields of a device up. */
static void upload(const world *w, size_t k, const fedcodec_ring *ring, const float *x,
                   uint32_t *sums) {
    uint8_t *fields = malloc(ring->shape.bytes);
    assert_non_null(fields);
    assert_fed_ok(
        fedcodec_ring_encode(ring, w->terms.privacy.clip, x, random_bytes, NULL, fields, NULL));
    assert_fed_ok(
        fed_private_mask_packed(w->seeds[k][0], w->terms.width, fields, ring->shape.fields));
    fedcodec_ring_add(ring, fields, sums);
    free(fields);
}

/* Of a whole round: what devices clip, rotate, round and mask, and what the helper opens. */
FED_TEST_WITH(an_opened_sum_is_hardly_further_off_than_with_continuous_noise, world *w) {
    enum { MANY = 262144 };
    float *x = malloc(MANY * sizeof *x), *change = calloc(MANY, sizeof *change);
    double *mean = calloc(MANY, sizeof *mean), squares = 0;
    promise(w, 9, MANY);
    fedcodec_ring ring = {.shape = fed_privacy_shape(&w->terms.privacy, 5, 1, MANY)};
    memcpy(ring.draw, w->terms.draw, sizeof ring.draw);
    uint32_t *sums = calloc(ring.shape.fields, sizeof *sums);
    assert_true(x != NULL && change != NULL && mean != NULL && sums != NULL);
    for (size_t k = 0; k < w->question.count; k++) {
        train(w, k, MANY, x, mean);
        upload(w, k, &ring, x, sums);
    }
    assert_opens_noisily(w);
    fedcodec_ring_subtract(&ring, w->reply.fields, sums);
    (void)fedcodec_ring_sums(&ring, sums);
    fedcodec_ring_change(&ring, sums, (double)w->question.count, change);
    for (size_t i = 0; i < MANY; i++) {
        const double off = (double)change[i] - mean[i];
        squares += off * off;
    }
    const double z = fedserver_privacy_z(8, (double)w->terms.privacy.delta, 4, 1);
    const double central = z * (double)w->terms.privacy.clip / (double)w->question.count;
    const double error = sqrt(squares / MANY) / central;
    print_message("the error is %.4f of continuous noise of the same promise\n", error);
    assert_true(error < 1.02 && error > 0.99);
    free(sums);
    free(mean);
    free(change);
    free(x);
}

/* Seal the question's devices under terms that ask for other noise. */
static void seal_all(world *w, const fed_private_terms *terms) {
    w->question.terms = *terms;
    for (size_t k = 0; k < DEVICES; k++) {
        seal(w, k, terms, 100 + k);
    }
}

FED_TEST_WITH(less_noise_than_promised_is_refused, world *w) {
    promise(w, 9, FIELDS);
    for (unsigned k = 0; k < 8; k++) {
        fed_private_terms t = w->terms;
        fed_privacy *p = &t.privacy;
        p->sigma2 *= k == 0 ? 0.999 : k == 1 ? 0 : k == 2 ? 1e40 : 1;
        p->epsilon *= k == 3 ? 0 : 1;
        p->participations = k == 4 ? 0 : p->participations;
        p->apart = k == 5 ? 65 : 1;
        t.sent = k == 6 ? 1 : t.sent; /* so few values need less noise, but have fewer fields */
        t.codec_up[7] = k == 7 ? '6' : '5'; /* finer levels are longer vectors */
        seal_all(w, &t);
        assert_refused(w, "noise");
    }
    seal_all(w, &w->terms);
    assert_opens_noisily(w);
}

/* Else costs would not add up to what the devices were told at first. */
FED_TEST_WITH(a_task_that_promises_something_else_later_is_refused, world *w) {
    promise(w, 9, FIELDS);
    assert_opens_noisily(w);
    promise(w, 10, FIELDS);
    for (unsigned k = 0; k < 4; k++) {
        fed_private_terms t = w->terms;
        fed_privacy *p = &t.privacy;
        p->epsilon = k == 0 ? 9 : k == 1 ? 0 : p->epsilon;
        p->sigma2 *= k == 1 ? 0 : 4;
        p->delta *= k == 2 ? 2 : 1;
        p->participations -= k == 3;
        t.width = fed_privacy_width(5, p->cohort, p->sigma2);
        seal_all(w, &t);
        assert_refused(w, "noise");
    }
    seal_all(w, &w->terms);
    assert_opens_noisily(w);
}

FED_TEST_WITH(a_device_is_refused_after_the_rounds_of_the_promise, world *w) {
    for (uint32_t round = 9; round < 13; round++) {
        promise(w, round, FIELDS);
        assert_opens_noisily(w);
        assert_opens_noisily(w); /* the same question takes nothing */
    }
    reopen(w);
    promise(w, 13, FIELDS);
    assert_refused(w, "spent");
}

FED_TEST_WITH(one_process_has_the_state, world *w) {
    fedserver_helper *second = NULL;
    fed_error err = {0};
    assert_fed_status(fedserver_helper_open(&w->options, &second, &err), FED_EBUSY);
    assert_null(second);
}

FED_TEST_WITH(another_file_is_no_state, world *w) {
    static const char text[] = "this is a letter and no database; it is longer than a header....."
                               "...............................................";
    fedserver_helper_close(w->helper);
    w->helper = NULL;
    assert_fed_ok(fed_file_replace(w->path, text, sizeof text, 0600, &w->err));
    assert_fed_status(fedserver_helper_open(&w->options, &w->helper, &w->err), FED_EFORMAT);
    unlink(w->path);
    w->options.least = 1;
    assert_fed_status(fedserver_helper_open(&w->options, &w->helper, &w->err), FED_EINVAL);
}

int main(void) {
    return fed_cases_run_each(begin, end);
}

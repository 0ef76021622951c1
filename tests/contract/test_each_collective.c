/* Contract of every collective of collectives.def, on every link and with every codec that it
 * accepts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>
#include <unistd.h>

#include "codec_spec.h"
#include "exchange_group.h"
#include "faulty_link.h"
#include "fed/rng.h"
#include "fedcodec/codec.h"
#include "nic_link.h"

enum { MOST = 5 };

static unsigned each(void) {
    return FED_TEST_TRIES(1, 3);
}

static exchange_entry entry[LINK_GROUP_RANKS], other[LINK_GROUP_RANKS];

static const char *const more_specs[] = {"owners:aggregators=1", "owners:aggregators=2",
                                         "tree:group=1", "tree:group=2"};
enum { MORE_SPECS = sizeof more_specs / sizeof more_specs[0] };

/* Return the k-th spec to test, NULL after the last. *ranks: the least number of ranks for it. */
static const char *spec_at(size_t k, uint32_t *ranks) {
    size_t known = 0;
    *ranks = 1;
    /* nccl, the last one, needs a GPU */
    while (strcmp(feddc_collective_name(known), "nccl") != 0) {
        known++;
    }
    if (k < known) {
        return feddc_collective_name(k);
    }
    *ranks = k - known < 2 ? (uint32_t)(k - known) + 2 : 1;
    return k - known < MORE_SPECS ? more_specs[k - known] : NULL;
}

static bool expands(const char *codec) {
    static const char *const specs[] = {"3lc", "stoch3", "eden", "eden:p=0.008",
                                        "eden:p=0.008,scale=tensor"};
    bool found = false;
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        found = found || strcmp(codec, specs[k]) == 0;
    }
    return found;
}

static bool recodes(const char *spec) {
    return strncmp(spec, "ring", 4) == 0 || strncmp(spec, "tree", 4) == 0;
}

static const char *told(const exchange_run *run) {
    static char text[200];
    snprintf(text, sizeof text, "%u ranks, link %s, %s, codec %s, pull %s, nic %s", run->size,
             run->link->name, run->collective, run->codec != NULL ? run->codec : "-",
             run->pull != NULL ? run->pull : "-", run->nic != NULL ? run->nic : "-");
    return text;
}

static void play(const exchange_run *run, exchange_entry *entries) {
    exchange_group_play(run, entries);
    for (uint32_t r = 0; r < run->size; r++) {
        if (entries[r].status != FED_OK) {
            fail_msg("%s: rank %u: %s", told(run), r, entries[r].err.text);
        }
    }
}

static void assert_same_bits(const exchange_run *run, const exchange_entry *a,
                             const exchange_entry *b) {
    if (memcmp(a->sums, b->sums, run->steps * exchange_size() * sizeof *a->sums) != 0) {
        fail_msg("%s: rank %u has other bits than rank %u", told(run), a->place.rank,
                 b->place.rank);
    }
}

static void assert_sums(const exchange_run *run, const exchange_entry *entries) {
    for (uint32_t r = 1; r < entries[0].workers; r++) {
        assert_same_bits(run, &entries[r], &entries[0]);
    }
    for (uint32_t step = 0; step < run->steps; step++) {
        bool plain = run->plain_every > 0 && step % run->plain_every == run->plain_every - 1;
        double error = exchange_error(&entries[0], step);
        if ((plain || (run->codec == NULL && run->nic == NULL)) && error > 3e-7) {
            fail_msg("%s, step %u: the sum of float32 is off by %g", told(run), step, error);
        }
    }
}

static void check_sums(const feddc_link_vtable *link, const char *spec, const char *codec,
                       uint32_t size) {
    bool pulls = strcmp(spec, "gather") != 0;
    exchange_run run = {.link = feddc_link_named("threads"),
                        .collective = spec,
                        .codec = codec,
                        .pull = pulls ? codec : NULL,
                        .size = size,
                        .steps = 3,
                        .plain_every = 2};
    play(&run, entry);
    assert_sums(&run, entry);
    run.link = link;
    run.rough = true;
    play(&run, other);
    assert_sums(&run, other);
    assert_same_bits(&run, &other[0], &entry[0]);
    exchange_group_clear(&run, entry);
    exchange_group_clear(&run, other);
}

FED_TEST(all_ranks_and_links_have_the_same_bits) {
    const feddc_link_vtable *link;
    const char *spec;
    uint32_t least;
    for (size_t l = 0; (link = feddc_link_at(l)) != NULL; l++) {
        for (size_t k = 0; link_group_fits(link) && (spec = spec_at(k, &least)) != NULL; k++) {
            for (uint32_t size = least; size <= MOST; size++) {
                check_sums(link, spec, NULL, size);
            }
            for (size_t c = k % each(); codec_spec_at(c) != NULL; c += each()) {
                const char *codec = codec_spec_at(c);
                if (!recodes(spec) || !expands(codec)) {
                    check_sums(link, spec, codec, 3 + (uint32_t)(c % 3));
                }
            }
        }
    }
}

FED_TEST(the_order_of_events_does_not_matter) {
    const char *spec;
    uint32_t least;
    for (size_t k = 0; (spec = spec_at(k, &least)) != NULL; k++) {
        faulty_plan plan = {
            .inner = feddc_link_named("threads"), .delay_us = 100, .mix = 9, .seed = k};
        check_sums(faulty_link(&plan), spec, NULL, 5);
        check_sums(faulty_link(&plan), spec, "int8", 4);
        check_sums(faulty_link(&plan), spec, "onebit", 5);
    }
}

enum { BOUND = 8 };

/* If NICs round gradients on the way, sums must equal those with the option nic "inline". */
static void check_nics(const feddc_link_vtable *link, const char *spec, uint32_t size) {
    nic_plan nics = {.inner = link, .e = BOUND};
    exchange_run run = {.link = feddc_link_named("threads"),
                        .collective = spec,
                        .nic = "inline:e=8",
                        .size = size,
                        .steps = 3,
                        .plain_every = 2};
    play(&run, entry);
    assert_sums(&run, entry);
    assert_true(size == 1 || exchange_error(&entry[0], 0) > 1e-5);
    run.link = link;
    run.rough = true;
    play(&run, other);
    assert_sums(&run, other);
    assert_same_bits(&run, &other[0], &entry[0]);
    exchange_group_clear(&run, other);
    run.link = nic_link(&nics);
    run.nic = "packet:e=8";
    play(&run, other);
    assert_sums(&run, other);
    assert_same_bits(&run, &other[0], &entry[0]);
    assert_true(size == 1 || nics.rounded > 0);
    assert_int_equal(nics.missed, 0);
    exchange_group_clear(&run, other);
    if (strcmp(link->name, "tcp") == 0) {
        run.link = link;
        play(&run, other);
        assert_sums(&run, other);
        exchange_group_clear(&run, other);
    }
    exchange_group_clear(&run, entry);
}

FED_TEST(nics_give_the_bits_of_a_worker_group_that_rounds_itself) {
    const feddc_link_vtable *link;
    const char *spec;
    uint32_t least;
    for (size_t l = 0; (link = feddc_link_at(l)) != NULL; l++) {
        for (size_t k = 0; link_group_fits(link) && (spec = spec_at(k, &least)) != NULL; k++) {
            for (uint32_t size = least; size <= MOST; size++) {
                check_nics(link, spec, size);
            }
        }
    }
}

static void assert_nothing_is_lost(const exchange_run *run) {
    size_t n = exchange_size();
    double *rest = calloc(n, sizeof *rest), worst = 0;
    float *grad = malloc(n * sizeof *grad);
    for (uint32_t r = 0; r < run->size; r++) {
        for (uint32_t step = 0; step < run->steps && r < entry[0].workers; step++) {
            exchange_gradient(r, step, grad);
            for (size_t i = 0; i < n; i++) {
                rest[i] += (double)grad[i];
            }
        }
        for (size_t i = 0; i < entry[r].state_size; i++) {
            rest[i % n] -= (double)entry[r].state[i];
        }
    }
    for (size_t i = 0; i < run->steps * n; i++) {
        rest[i % n] -= (double)entry[0].sums[i];
    }
    for (size_t i = 0; i < n; i++) {
        worst = fabs(rest[i]) > worst ? fabs(rest[i]) : worst;
    }
    free(rest);
    free(grad);
    if (!(worst < 2e-4)) {
        fail_msg("%s: %g of a value is neither in the sums nor in a residual", told(run), worst);
    }
}

FED_TEST(what_codecs_leave_out_stays_in_residuals) {
    const char *spec;
    uint32_t least;
    for (size_t k = 0; (spec = spec_at(k, &least)) != NULL; k++) {
        for (size_t c = k % each(); fedcodec_at(c) != NULL; c += each()) {
            const char *codec = codec_spec_of(fedcodec_at(c));
            bool takes =
                fedcodec_has_feedback(fedcodec_at(c)) && !(recodes(spec) && expands(codec));
            for (uint32_t size = 3; takes && size <= MOST; size += 2) {
                exchange_run run = {.link = feddc_link_named("threads"),
                                    .collective = spec,
                                    .codec = codec,
                                    .pull = strcmp(spec, "gather") != 0 ? codec : NULL,
                                    .size = size,
                                    .steps = 12,
                                    .plain_every = 5};
                play(&run, entry);
                assert_sums(&run, entry);
                assert_nothing_is_lost(&run);
                exchange_group_clear(&run, entry);
            }
        }
    }
}

static void assert_refused(const char *spec, const char *codec, const char *pull, const char *nic,
                           const char *words) {
    exchange_run run = {.link = feddc_link_named("threads"),
                        .collective = spec,
                        .codec = codec,
                        .pull = pull,
                        .nic = nic,
                        .size = 1,
                        .steps = 1};
    exchange_group_play(&run, entry);
    assert_fed_status(entry[0].status, FED_EINVAL);
    assert_fed_says(entry[0].err, words);
    exchange_group_clear(&run, entry);
}

FED_TEST(what_does_not_fit_is_refused_with_the_reason) {
    assert_refused("ring", "3lc:s=1", NULL, NULL, "3.5 times the sum");
    assert_refused("ring", "stoch3", NULL, NULL, "cannot be used with the collective ring");
    assert_refused("ring", "eden:p=0.008", NULL, NULL, "cannot be used with the collective ring");
    assert_refused("tree", "eden", NULL, NULL, "cannot be used with the collective tree");
    assert_refused("tree:group=2", "3lc", NULL, NULL, "cannot be used with the collective tree");
    assert_refused("gather", "int8", "int8", NULL, "sends no sums");
    assert_refused("owners", "int8", NULL, "inline", "the codec int8 has compressed");
    assert_refused("owners", NULL, "3lc", "inline", "the codec 3lc has compressed");
    assert_refused("ring", NULL, NULL, "packet", "take link tcp, or the nic inline");
    assert_refused("ring", NULL, NULL, "inline:e=16", "nic inline");
}

FED_TEST(a_nan_ends_the_exchange_of_all) {
    const char *spec;
    uint32_t least;
    for (size_t k = 0; (spec = spec_at(k, &least)) != NULL; k++) {
        exchange_run run = {.link = feddc_link_named("threads"),
                            .collective = spec,
                            .codec = "sbc",
                            .size = 4,
                            .steps = 4,
                            .poisoned = true};
        exchange_group_play(&run, entry);
        assert_fed_status(entry[1].status, FED_ENONFINITE);
        assert_fed_says(entry[1].err, "rank 1's gradient of step 1");
        for (uint32_t r = 0; r < run.size; r++) {
            assert_int_not_equal(entry[r].status, FED_OK);
            if (r != 1) {
                assert_fed_says(entry[r].err, "rank ");
            }
        }
        exchange_group_clear(&run, entry);
    }
}

/* Gradients are finite, their sum is not: the rank that should encode it says so. */
FED_TEST(a_sum_that_is_not_finite_ends_the_exchange_of_all) {
    const char *spec;
    uint32_t least;
    for (size_t k = 0; (spec = spec_at(k, &least)) != NULL; k++) {
        exchange_run run = {.link = feddc_link_named("threads"),
                            .collective = spec,
                            .pull = "int8",
                            .size = 4,
                            .steps = 3,
                            .huge = true};
        bool told_why = false;
        if (strcmp(spec, "gather") == 0) {
            continue; /* it sends no sums */
        }
        exchange_group_play(&run, entry);
        for (uint32_t r = 0; r < run.size; r++) {
            if (entry[r].status == FED_OK) {
                fail_msg("%s: rank %u has no error", told(&run), r);
            }
            told_why = told_why || entry[r].status == FED_ENONFINITE;
        }
        assert_true(told_why);
        exchange_group_clear(&run, entry);
    }
}

/* Run a worker group in which a rank fails as planned. Returns whether it failed. */
static bool lose_one(const char *spec, const char *codec, faulty_plan *plan) {
    exchange_run run = {.link = faulty_link(plan),
                        .collective = spec,
                        .codec = codec,
                        .size = 4,
                        .steps = 3,
                        .rough = true};
    exchange_group_play(&run, entry);
    bool lost = entry[plan->victim].status != FED_OK;
    for (uint32_t r = 0; r < run.size; r++) {
        bool whole = r >= entry[r].workers || entry[r].complete == run.steps;
        if (entry[r].status == FED_OK && !whole) {
            fail_msg("%s, lost at %d: rank %u has %u steps and no error", told(&run), (int)plan->at,
                     r, entry[r].complete);
        }
        for (uint32_t step = 0; codec == NULL && r < entry[r].workers && step < entry[r].complete;
             step++) {
            double error = exchange_error(&entry[r], step);
            if (error > 3e-7) {
                fail_msg("%s, lost at %d: rank %u, step %u is off by %g", told(&run), (int)plan->at,
                         r, step, error);
            }
        }
    }
    exchange_group_clear(&run, entry);
    return lost;
}

static void lose_at_each(const feddc_link_vtable *link, const char *spec, uint64_t stride) {
    uint64_t at = 1;
    faulty_plan plan = {.inner = link, .victim = 1, .at = at};
    while (at < 400 && lose_one(spec, at % 2 == 0 ? "int8" : NULL, &plan)) {
        plan.at = at += stride;
    }
    if (at <= 10) {
        fail_msg("%s: rank 1 was not lost at its event %d", spec, (int)at);
    }
    plan = (faulty_plan){.inner = link, .victim = 2, .at = 9, .orderly = true};
    assert_true(lose_one(spec, NULL, &plan));
}

FED_TEST(a_lost_rank_ends_in_errors_and_never_in_a_hang) {
    const feddc_link_vtable *link;
    const char *spec;
    uint32_t least;
    for (size_t l = 0; (link = feddc_link_at(l)) != NULL; l++) {
        uint64_t stride = strcmp(link->name, "threads") == 0 ? 3 * each() : 31 * each();
        for (size_t k = 0; link_group_fits(link) && (spec = spec_at(k, &least)) != NULL; k++) {
            lose_at_each(link, spec, stride);
        }
    }
}

enum { WORDS = 24, WORD_BYTES = 5000 };

static void babble(exchange_entry *peer, uint64_t seed) {
    static const uint8_t bytes[WORD_BYTES] = {1, 0, 0, 0, 7, 3};
    const feddc_link_vtable *link = peer->run->link;
    void *self = NULL;
    fed_rng rng;
    fed_rng_init(&rng, seed, 1, 1);
    peer->status = link->open(&peer->place, &self, &peer->err);
    for (int k = 0; k < WORDS && peer->status == FED_OK; k++) {
        feddc_head head = {.kind = (uint8_t)(fed_rng_below(&rng, 20) % 3),
                           .flags = (uint8_t)(fed_rng_below(&rng, 9) / 8),
                           .part = (uint16_t)(fed_rng_below(&rng, 5) / 3),
                           .bucket = fed_rng_below(&rng, 7),
                           .step = fed_rng_below(&rng, 2)};
        size_t len = fed_rng_below(&rng, 2) == 0 ? fed_rng_below(&rng, 20)
                                                 : 4 * fed_rng_below(&rng, WORD_BYTES / 4);
        peer->status = link->send(self, 0, &head, bytes, len, 0, &peer->err);
    }
    feddc_event event = {.kind = FEDDC_SENT};
    while (peer->status == FED_OK && event.kind != FEDDC_NOTHING && event.kind != FEDDC_GONE) {
        peer->status = link->wait(self, 20, &event, &peer->err);
        if (event.kind == FEDDC_ARRIVED) {
            link->release(self, &event);
        }
    }
    if (self != NULL) {
        link->close(self, false);
    }
}

static uint64_t babble_seed;

static void play_or_babble(void *arg) {
    exchange_entry *one = arg;
    if (one->place.rank == 0) {
        exchange_play(one);
    } else {
        babble(one, babble_seed);
    }
}

FED_TEST(a_peer_that_sends_anything_ends_in_an_error) {
    static const char *const codecs[] = {NULL, "sbc", "onebit", "int8"};
    const char *spec;
    uint32_t least;
    for (size_t k = 0; (spec = spec_at(k, &least)) != NULL; k++) {
        for (babble_seed = 0; least <= 2 && babble_seed < 60 / each(); babble_seed++) {
            exchange_run run = {.link = feddc_link_named("threads"),
                                .collective = spec,
                                .codec = codecs[babble_seed % 4],
                                .size = 2,
                                .steps = 3};
            link_group group;
            link_group_open(&group, run.link, 2);
            for (uint32_t r = 0; r < 2; r++) {
                entry[r] = (exchange_entry){.run = &run, .place = group.place[r]};
            }
            link_group_run(2, play_or_babble, entry, sizeof entry[0]);
            link_group_close(&group);
            if (entry[0].status != FED_EFORMAT && entry[0].status != FED_EIO) {
                fail_msg("%s, seed %d: %s", told(&run), (int)babble_seed, entry[0].err.text);
            }
            assert_fed_says(entry[0].err, "rank 1");
            exchange_group_clear(&run, entry);
        }
    }
}

int main(void) {
    alarm(500);
    return fed_cases_run(NULL, NULL);
}

/* A helper's checks, and the sum of the masks of one set of devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/private_helper.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/crypto.h"
#include "fedserver/privacy/correlated.h"
#include "fedserver/privacy/grouping.h"
#include "fedserver/privacy/helper_state.h"

struct fedserver_helper {
    fedserver_helper_state *state;
    uint8_t secret[FED_POINT_SECRET], point[FED_POINT];
    uint32_t least;
    uint8_t (*roster)[FED_SHA256_SIZE]; /* ascending; NULL: any device */
    size_t roster_count;
};

/* A question on its way through the checks. */
typedef struct inquiry {
    fedserver_helper *helper;
    const fedserver_inquiry *question;
    fedserver_reply *reply;
    unsigned key; /* the number of this helper among the terms' helpers */
    uint8_t terms[FED_SHA256_SIZE];
    uint8_t (*fingerprints)[FED_SHA256_SIZE]; /* in the question's order */
    uint8_t (*seeds)[FED_SEED];
    uint32_t *group;             /* of each device */
    fedserver_variance variance; /* of the noise; all 0: none */
    uint8_t noise_key[FEDSERVER_NOISE_KEY];
    uint8_t *correlated; /* the noise itself, where apart is above 1 */
    fed_error *err;
} inquiry;

static int by_bytes(const void *a, const void *b) {
    return memcmp(a, b, FED_SHA256_SIZE);
}

static int by_number(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Refuse with a word and a sentence. Returns false. */
static bool FED_PRINTF(3, 4) refuse(const inquiry *q, const char *word, const char *sentence, ...) {
    va_list values;
    va_start(values, sentence);
    snprintf(q->reply->word, sizeof q->reply->word, "%s", word);
    vsnprintf(q->reply->sentence, sizeof q->reply->sentence, sentence, values);
    va_end(values);
    return false;
}

static bool check_terms(inquiry *q) {
    const fed_private_terms *t = &q->question->terms;
    for (q->key = 0; q->key < t->privacy.helpers; q->key++) {
        if (memcmp(t->privacy.helper_key[q->key], q->helper->point, FED_POINT) == 0) {
            break;
        }
    }
    if (q->key == t->privacy.helpers) {
        return refuse(q, "key",
                      "the terms of task %llu name another helper's key; give the coordinator "
                      "this helper's helper.pem",
                      (unsigned long long)t->task);
    }
    if (q->question->groups > 1 && t->privacy.apart > 1) {
        return refuse(
            q, "groups",
            "task %llu wants %u groups, and noise that is correlated over rounds, which a "
            "median does not take off; one of them has to go",
            (unsigned long long)t->task, q->question->groups);
    }
    fed_error why;
    return fedserver_promised_noise(t, &q->variance, &why) == FED_OK ||
           refuse(q, "noise", "task %llu: %.200s", (unsigned long long)t->task, why.text);
}

static bool check_count(const inquiry *q) {
    const fed_privacy *p = &q->question->terms.privacy;
    const uint32_t least = p->minimum > q->helper->least ? p->minimum : q->helper->least;
    const uint32_t groups = q->question->groups;
    if (groups > 1 && q->question->count / groups < least) {
        return refuse(q, "minimum",
                      "%u sums of %zu devices are asked for; %s wants %u at least in each, so let "
                      "the task have fewer groups, or a larger minimum and goal",
                      groups, q->question->count, least == p->minimum ? "the task" : "this helper",
                      least);
    }
    if (q->question->count < least) {
        return refuse(q, "minimum",
                      "a sum of %zu devices is asked for; %s wants %u at least, so raise the "
                      "task's minimum",
                      q->question->count, least == p->minimum ? "the task" : "this helper", least);
    }
    if (q->question->count > p->cohort) {
        return refuse(q, "cohort", "a sum of %zu devices is asked for; the round lets in %u",
                      q->question->count, p->cohort);
    }
    return true;
}

static bool is_known(const fedserver_helper *helper, const uint8_t device[FED_SHA256_SIZE]) {
    return helper->roster == NULL ||
           bsearch(device, helper->roster, helper->roster_count, FED_SHA256_SIZE, by_bytes) != NULL;
}

/* Check that a device sealed this, under these terms, with the key that it has. */
static bool check_device(inquiry *q, size_t k) {
    const fedserver_sealed *d = &q->question->devices[k];
    char name[FED_SHA256_HEX];
    fed_error why;
    fed_point_fingerprint(d->private_.point, q->fingerprints[k]);
    fed_hex(q->fingerprints[k], FED_SHA256_SIZE, name);
    if (memcmp(d->private_.terms, q->terms, sizeof q->terms) != 0 ||
        d->private_.helpers != q->question->terms.privacy.helpers) {
        return refuse(q, "terms",
                      "device %.16s sealed its update under other terms: it was told another "
                      "model, clip or cohort than the coordinator says",
                      name);
    }
    if (!is_known(q->helper, q->fingerprints[k])) {
        return refuse(q, "roster",
                      "device %.16s is not on this helper's roster; add its fingerprint there if "
                      "you know it",
                      name);
    }
    if (fed_private_check(&d->private_, d->lease, &why) != FED_OK) {
        return refuse(q, "signature", "device %.16s did not sign this: %.128s", name, why.text);
    }
    return true;
}

/* Does something stand twice in a sorted list? */
static bool has_twice(const void *list, size_t count, size_t size) {
    const uint8_t *at = list;
    for (size_t k = 1; k < count; k++) {
        if (memcmp(at + (k - 1) * size, at + k * size, size) == 0) {
            return true;
        }
    }
    return false;
}

static fed_status check_twice(const inquiry *q, bool *passed) {
    const size_t n = q->question->count;
    uint8_t(*names)[FED_SHA256_SIZE] = calloc(n + 1, sizeof *names);
    uint64_t *leases = calloc(n + 1, sizeof *leases);
    if (names != NULL && leases != NULL) {
        memcpy(names, q->fingerprints, n * sizeof *names);
        for (size_t k = 0; k < n; k++) {
            leases[k] = q->question->devices[k].lease;
        }
        qsort(names, n, sizeof *names, by_bytes);
        qsort(leases, n, sizeof *leases, by_number);
        *passed = true;
        if (has_twice(names, n, sizeof *names) || has_twice(leases, n, sizeof *leases)) {
            *passed = refuse(q, "twice", "a device or a lease stands twice in the set of %zu", n);
        }
    }
    const fed_status status = names != NULL && leases != NULL ? FED_OK : FED_ENOMEM;
    free(names);
    free(leases);
    return status;
}

/* Is the question of the task's present generation, or of a new one? A coordinator that was
 * restored has a new one. Its earlier self, and a copy of it, get no more openings. */
static fed_status check_age(const inquiry *q, const fedserver_opened *which, bool *passed) {
    fedserver_helper_age age;
    FED_TRY(fedserver_helper_state_age(q->helper->state, which, &age, q->err));
    q->reply->renewed = age == FEDSERVER_HELPER_NEWER;
    *passed = age != FEDSERVER_HELPER_OVER ||
              refuse(q, "generation",
                     "task %llu has another generation since, as after a restore: this coordinator "
                     "is an earlier one, or a copy of it; end it",
                     (unsigned long long)which->task);
    return FED_OK;
}

/* Has each device rounds left? Only of a set that was not opened before. */
static fed_status check_spent(const inquiry *q, const fedserver_opened *which, bool *passed) {
    const fed_private_terms *t = &q->question->terms;
    for (size_t k = 0; k < q->question->count && t->privacy.participations > 0; k++) {
        uint32_t taken = 0, last = 0;
        char name[FED_SHA256_HEX];
        FED_TRY(fedserver_helper_state_taken(q->helper->state, which, q->fingerprints[k], &taken,
                                             &last, q->err));
        fed_hex(q->fingerprints[k], FED_SHA256_SIZE, name);
        if (taken >= t->privacy.participations) {
            *passed = refuse(q, "spent",
                             "device %.16s has taken part in %u rounds, as many as the "
                             "task allows",
                             name, taken);
            return FED_OK;
        }
        if (last > 0 && t->round < last + t->privacy.apart) {
            *passed =
                refuse(q, "spent", "device %.16s took part in round %u; round %u comes too soon",
                       name, last, t->round);
            return FED_OK;
        }
    }
    *passed = true;
    return FED_OK;
}

/* Open all seals. Names those that can't be opened. */
static fed_status open_seals(const inquiry *q, bool *passed) {
    fedserver_reply *o = q->reply;
    o->unopened = calloc(q->question->count + 1, sizeof *o->unopened);
    FED_REQUIRE(o->unopened != NULL, FED_ENOMEM);
    for (size_t k = 0; k < q->question->count; k++) {
        const fedserver_sealed *d = &q->question->devices[k];
        fed_error why;
        const fed_status status =
            fed_private_open(&d->private_, q->key, d->lease, q->helper->secret, q->seeds[k], &why);
        if (status == FED_ENOMEM) {
            return fed_fail(q->err, status, "%s", why.text);
        }
        if (status != FED_OK) {
            o->unopened[o->unopened_count++] = (uint32_t)k;
        }
    }
    *passed = o->unopened_count == 0 ||
              refuse(q, FEDSERVER_REPLY_SEALS, "%zu of %zu seals can't be opened",
                     o->unopened_count, q->question->count);
    return FED_OK;
}

static bool is_noisy(const inquiry *q) {
    return q->variance.t > 0;
}

/* Take noise off the masks of a group. So it stays in the sum of its updates when the coordinator
 * takes these masks off. */
static fed_status add_noise(const inquiry *q, uint32_t group, uint32_t *y, size_t n) {
    uint8_t set[FED_SHA256_SIZE];
    if (!is_noisy(q)) {
        return FED_OK;
    }
    fedserver_grouping_set(q->reply->set, q->question->groups, group, set);
    int64_t *noise = malloc(n * sizeof *noise);
    FED_REQUIRE(noise != NULL, FED_ENOMEM);
    fed_status status = FED_OK;
    if (q->correlated != NULL) {
        fedserver_correlated_levels(q->correlated, noise, n);
    } else {
        const fed_private_terms *t = &q->question->terms;
        status = fedserver_noise_draw(q->noise_key, set, q->variance, noise, (size_t)t->fields);
        if (status == FED_OK) {
            status = fedserver_count_noise(&t->privacy, q->noise_key, set, noise + t->fields);
        }
    }
    for (size_t i = 0; i < n && status == FED_OK; i++) {
        y[i] -= (uint32_t)noise[i];
    }
    fed_wipe(noise, n * sizeof *noise);
    free(noise);
    return status;
}

/* Sum the masks of a group into packed fields, with noise. y: scratch of all fields. */
static fed_status sum_group(const inquiry *q, uint32_t group, uint32_t *y, uint8_t *packed) {
    const fed_private_terms *t = &q->question->terms;
    const size_t n = (size_t)fed_private_fields(t);
    memset(y, 0, n * sizeof *y);
    for (size_t k = 0; k < q->question->count; k++) {
        if (q->group[k] == group) {
            FED_TRY(fed_private_mask(q->seeds[k], t->width, 0, y, n));
        }
    }
    FED_TRY(add_noise(q, group, y, n));
    fed_private_pack(y, t->width, 0, packed, n);
    return FED_OK;
}

static fed_status sum_masks(const inquiry *q) {
    const fed_private_terms *t = &q->question->terms;
    const size_t n = (size_t)fed_private_fields(t);
    const size_t each = (size_t)fed_private_packed(t->width, n);
    uint32_t *y = malloc(n * sizeof *y);
    q->reply->fields_len = q->question->groups * each;
    q->reply->fields = calloc(q->question->groups, each);
    fed_status status = y != NULL && q->reply->fields != NULL ? FED_OK : FED_ENOMEM;
    for (uint32_t g = 0; g < q->question->groups && status == FED_OK; g++) {
        status = sum_group(q, g, y, q->reply->fields + g * each);
    }
    free(y);
    return status == FED_OK ? FED_OK : fed_fail(q->err, status, "out of memory to sum masks");
}

/* The groups follow from the set, so the coordinator can't ask for others. */
static fed_status deal(const inquiry *q) {
    fedserver_grouping which = {.task = q->question->terms.task,
                                .round = q->question->terms.round,
                                .groups = q->question->groups};
    memcpy(which.model, q->question->terms.model, sizeof which.model);
    return fedserver_grouping_deal(&which, q->fingerprints, q->question->count, q->group);
}

static size_t correlated_bytes(const inquiry *q) {
    return (size_t)q->question->terms.fields * FEDSERVER_CORRELATED;
}

/* Read the key of a round's noise, or the noise. *found: it was not deleted yet. */
static fed_status read_noise(inquiry *q, const fedserver_opened *which, bool *found) {
    fedserver_helper_state *state = q->helper->state;
    return q->correlated != NULL
               ? fedserver_helper_state_correlated(state, which, q->correlated, correlated_bytes(q),
                                                   found, q->err)
               : fedserver_helper_state_noise(state, which, q->noise_key, found, q->err);
}

typedef struct earlier_rounds {
    fedserver_helper_state *state;
    const fedserver_opened *which;
} earlier_rounds;

static fed_status read_earlier(void *user, uint32_t back, uint8_t *bytes, size_t len, bool *found,
                               fed_error *err) {
    const earlier_rounds *e = user;
    fedserver_opened earlier = *e->which;
    *found = false;
    earlier.round -= back;
    return e->which->round <= back
               ? FED_OK
               : fedserver_helper_state_correlated(e->state, &earlier, bytes, len, found, err);
}

/* Draw a fresh key. Store it, or the correlated noise that it gives. */
static fed_status new_noise(inquiry *q, const fedserver_opened *which) {
    fedserver_helper_state *state = q->helper->state;
    const uint32_t apart = q->question->terms.privacy.apart;
    if (fed_random(q->noise_key, sizeof q->noise_key) != FED_OK) {
        return fed_fail(q->err, FED_EIO, "the system has no random bytes for a round's noise");
    }
    if (q->correlated == NULL) {
        return fedserver_helper_state_keep_noise(state, which, q->noise_key, q->err);
    }
    earlier_rounds user = {state, which};
    const fedserver_correlated noise = {.key = q->noise_key,
                                        .set = q->reply->set,
                                        .variance = q->variance,
                                        .apart = apart,
                                        .count = (size_t)q->question->terms.fields};
    FED_TRY(fedserver_correlated_draw(&noise, read_earlier, &user, q->correlated, q->err));
    return fedserver_helper_state_keep_correlated(state, which, q->correlated, correlated_bytes(q),
                                                  apart - 1, q->err);
}

/* The round was opened before, for this set: read its noise. */
static fed_status open_again(inquiry *q, const fedserver_opened *which, const uint8_t *set,
                             bool *passed) {
    bool found = true;
    *passed = memcmp(set, q->reply->set, FED_SHA256_SIZE) == 0 ||
              refuse(q, "second_set",
                     "another set of task %llu, round %u was opened; two sums would show what "
                     "stands between them",
                     (unsigned long long)which->task, which->round);
    if (*passed && is_noisy(q)) {
        FED_TRY(read_noise(q, which, &found));
        *passed = found || refuse(q, "over",
                                  "round %u of task %llu is over: a later one was opened, and its "
                                  "noise is deleted",
                                  which->round, (unsigned long long)which->task);
    }
    return FED_OK;
}

/* Does the task promise what it did in its first round? Costs would not add up otherwise. */
static fed_status check_promise(const inquiry *q, bool *passed) {
    const fed_private_terms *t = &q->question->terms;
    uint8_t promise[FEDSERVER_PROMISE];
    fedserver_promise_bytes(&t->privacy, promise);
    FED_TRY(fedserver_helper_state_promise(q->helper->state, t->task, promise, passed, q->err));
    *passed = *passed || refuse(q, "noise",
                                "task %llu promised another epsilon, delta, participations or "
                                "apart when its first round was opened",
                                (unsigned long long)t->task);
    return FED_OK;
}

/* Charge each device of a set that was not opened before, and draw the key of its noise. */
static fed_status charge(inquiry *q, const fedserver_opened *which) {
    fedserver_helper_state *state = q->helper->state;
    FED_TRY(fedserver_helper_state_renew(state, which, q->err));
    for (size_t k = 0; k < q->question->count; k++) {
        FED_TRY(fedserver_helper_state_take(state, which, q->fingerprints[k], q->err));
    }
    if (is_noisy(q)) {
        FED_TRY(new_noise(q, which));
    }
    return fedserver_helper_state_add(state, which, q->reply->set, q->err);
}

/* Write the rows of a set, or find that it was opened before. */
static fed_status write_rows(inquiry *q, bool *passed) {
    const fed_private_terms *t = &q->question->terms;
    const fedserver_opened which = {t->privacy.generation, t->task, t->round};
    uint8_t set[FED_SHA256_SIZE];
    bool found = false;
    FED_TRY(fedserver_helper_state_find(q->helper->state, &which, &found, set, q->err));
    if (found) {
        return open_again(q, &which, set, passed);
    }
    FED_TRY(check_age(q, &which, passed));
    if (*passed) {
        FED_TRY(check_promise(q, passed));
    }
    if (*passed) {
        FED_TRY(check_spent(q, &which, passed));
    }
    return *passed ? charge(q, &which) : FED_OK;
}

static fed_status settle(inquiry *q, bool *passed) {
    fedserver_helper_state *state = q->helper->state;
    FED_TRY(fedserver_helper_state_begin(state, q->err));
    fed_status status = write_rows(q, passed);
    if (status == FED_OK && *passed) {
        status = fedserver_helper_state_commit(state, q->err);
    }
    if (status != FED_OK || !*passed) {
        fedserver_helper_state_rollback(state);
    }
    return status;
}

static fed_status answer(inquiry *q) {
    bool passed = check_terms(q) && check_count(q);
    for (size_t k = 0; k < q->question->count && passed; k++) {
        passed = check_device(q, k);
    }
    if (passed) {
        FED_TRY(check_twice(q, &passed));
    }
    if (passed) {
        FED_TRY(fedserver_inquiry_digest(q->question, q->reply->set));
        FED_TRY(deal(q));
        FED_TRY(open_seals(q, &passed));
    }
    if (passed && is_noisy(q) && q->question->terms.privacy.apart > 1) {
        q->correlated = malloc(correlated_bytes(q));
        FED_REQUIRE(q->correlated != NULL, FED_ENOMEM);
    }
    if (passed) {
        FED_TRY(settle(q, &passed));
    }
    return passed ? sum_masks(q) : FED_OK; /* the row is on disk before the sum leaves */
}

fed_status fedserver_helper_answer(fedserver_helper *helper, const fedserver_inquiry *question,
                                   fedserver_reply *reply, fed_error *err) {
    const size_t n = question->count;
    inquiry q = {.helper = helper, .question = question, .reply = reply, .err = err};
    memset(reply, 0, sizeof *reply);
    reply->generation = question->terms.privacy.generation;
    reply->task = question->terms.task;
    reply->round = question->terms.round;
    fed_private_terms_digest(&question->terms, q.terms);
    q.fingerprints = calloc(n + 1, sizeof *q.fingerprints);
    q.seeds = calloc(n + 1, sizeof *q.seeds);
    q.group = calloc(n + 1, sizeof *q.group);
    fed_status status =
        q.fingerprints != NULL && q.seeds != NULL && q.group != NULL ? answer(&q) : FED_ENOMEM;
    if (status == FED_ENOMEM) {
        status = fed_fail(err, status, "out of memory to open a round of %zu devices", n);
    }
    for (size_t k = 0; q.seeds != NULL && k < n; k++) {
        fed_wipe(q.seeds[k], FED_SEED);
    }
    fed_wipe(q.noise_key, sizeof q.noise_key);
    if (q.correlated != NULL) {
        fed_wipe(q.correlated, correlated_bytes(&q));
        free(q.correlated);
    }
    free(q.group);
    free(q.seeds);
    free(q.fingerprints);
    if (status != FED_OK) {
        fedserver_reply_free(reply);
    }
    return status;
}

static fed_status copy_roster(fedserver_helper *h, const fedserver_helper_options *options) {
    if (options->roster == NULL) {
        return FED_OK;
    }
    h->roster = calloc(options->roster_count + 1, sizeof *h->roster);
    FED_REQUIRE(h->roster != NULL, FED_ENOMEM);
    memcpy(h->roster, options->roster, options->roster_count * sizeof *h->roster);
    h->roster_count = options->roster_count;
    qsort(h->roster, h->roster_count, sizeof *h->roster, by_bytes);
    return FED_OK;
}

fed_status fedserver_helper_open(const fedserver_helper_options *options, fedserver_helper **helper,
                                 fed_error *err) {
    fedserver_helper *h = calloc(1, sizeof *h);
    FED_REQUIRE(h != NULL, FED_ENOMEM);
    memcpy(h->secret, options->secret, sizeof h->secret);
    h->least = options->least;
    fed_status status = fed_point_of(h->secret, h->point, err);
    if (status == FED_OK && options->least < 2) {
        status = fed_fail(err, FED_EINVAL, "a helper opens sums of 2 devices at least");
    }
    if (status == FED_OK) {
        status = copy_roster(h, options);
    }
    if (status == FED_OK) {
        status = fedserver_helper_state_open(options->path, &h->state, err);
    }
    if (status != FED_OK) {
        fedserver_helper_close(h);
        return status;
    }
    *helper = h;
    return FED_OK;
}

void fedserver_helper_close(fedserver_helper *h) {
    if (h != NULL) {
        fedserver_helper_state_close(h->state);
        fed_wipe(h->secret, sizeof h->secret);
        free(h->roster);
        free(h);
    }
}

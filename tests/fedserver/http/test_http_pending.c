/* The set of held requests: who is due first, and who waits with a key. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <stdbool.h>

#include "fed/rng.h"
#include "fedserver/http/http_pending.h"

enum { MANY = 10000, KEYS = 700 };

/* A plain list, as the reference. */
typedef struct plain {
    http_held held[MANY];
    bool in[MANY];
} plain;

static int64_t first_until(const plain *p) {
    int64_t first = INT64_MAX;
    for (size_t k = 0; k < MANY; k++) {
        first = p->in[k] && p->held[k].until_ms < first ? p->held[k].until_ms : first;
    }
    return first;
}

static bool has_key(const plain *p, uint64_t key) {
    bool has = false;
    for (size_t k = 0; k < MANY; k++) {
        has = has || (p->in[k] && p->held[k].key == key);
    }
    return has;
}

static void check(const http_pending *pending, const plain *p, uint64_t key) {
    const http_held *first = http_pending_first(pending), *with = http_pending_with(pending, key);
    assert_true((first == NULL ? INT64_MAX : first->until_ms) == first_until(p));
    assert_true((with != NULL) == has_key(p, key));
    assert_true(with == NULL || (with->key == key && p->in[with - p->held]));
}

FED_TEST(it_finds_what_a_plain_list_finds) {
    plain *p = calloc(1, sizeof *p);
    http_pending pending = {0};
    fed_rng rng;
    assert_non_null(p);
    fed_rng_init(&rng, 1, 2, 3);
    for (int step = 0; step < 20000; step++) {
        const uint32_t k = fed_rng_below(&rng, MANY);
        if (p->in[k]) {
            http_pending_remove(&pending, &p->held[k]);
            assert_int_equal(p->held[k].place, 0);
        } else {
            p->held[k] = (http_held){.until_ms = fed_rng_below(&rng, 5000),
                                     .key = fed_rng_below(&rng, KEYS)};
            assert_fed_ok(http_pending_add(&pending, &p->held[k]));
        }
        p->in[k] = !p->in[k];
        if (step % 37 == 0) {
            check(&pending, p, fed_rng_below(&rng, KEYS));
        }
    }
    http_pending_free(&pending);
    free(p);
}

FED_TEST(they_leave_in_the_order_of_their_times) {
    plain *p = calloc(1, sizeof *p);
    http_pending pending = {0};
    int64_t last = INT64_MIN;
    assert_non_null(p);
    for (uint32_t k = 0; k < MANY; k++) {
        p->held[k] = (http_held){.until_ms = k * 7919 % MANY, .key = k};
        assert_fed_ok(http_pending_add(&pending, &p->held[k]));
    }
    for (uint32_t k = 0; k < MANY; k++) {
        http_held *first = http_pending_first(&pending);
        assert_true(first->until_ms > last);
        last = first->until_ms;
        http_pending_remove(&pending, first);
    }
    assert_null(http_pending_first(&pending));
    assert_null(http_pending_with(&pending, 1));
    http_pending_free(&pending);
    free(p);
}

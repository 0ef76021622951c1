/* The cases that every link must pass (link_case.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "link_case.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/rng.h"

enum { PATIENCE_MS = 60000, MIB = 1 << 20, RANKS = 64, MEETING = 7 };

static bool fault(link_entry *entry, const char *format, ...) {
    if (entry->fault[0] == 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(entry->fault, sizeof entry->fault, format, args);
        va_end(args);
    }
    return false;
}

static uint8_t pattern(uint32_t from, uint32_t number, size_t i) {
    return (uint8_t)(from * 101 + number * 7 + i + (i >> 8) * 3);
}

static feddc_head head_of(uint32_t from, uint32_t number) {
    return (feddc_head){.kind = (uint8_t)(number + 1),
                        .flags = (uint8_t)(255 - number),
                        .part = (uint16_t)(65535 - from),
                        .bucket = 0xfffffff0u + from,
                        .step = number};
}

static bool same_head(const feddc_head *a, const feddc_head *b) {
    return a->kind == b->kind && a->flags == b->flags && a->part == b->part &&
           a->bucket == b->bucket && a->step == b->step;
}

static uint8_t *message(link_entry *entry, uint32_t number, size_t len) {
    uint8_t *data = aligned_alloc(64, (len + 64) / 64 * 64);
    if (data == NULL) {
        fault(entry, "out of memory for a message of %zu bytes", len);
        return NULL;
    }
    for (size_t i = 0; i < len; i++) {
        data[i] = pattern(entry->place.rank, number, i);
    }
    return data;
}

static bool post(link_entry *entry, uint32_t to, uint32_t number, const void *data, size_t len) {
    feddc_head head = head_of(entry->place.rank, number);
    fed_error err = {0};
    uint64_t token = (uint64_t)to << 40 | number;
    if (entry->link->send(entry->self, to, &head, data, len, token, &err) != FED_OK) {
        return fault(entry, "send to rank %u: %s", to, err.text);
    }
    memset(&head, 0xee, sizeof head);
    return true;
}

/* Wait once. A message of a rank that has finished the case is counted in entry->met, and becomes
 * FEDDC_NOTHING. */
static bool look(link_entry *entry, int ms, feddc_event *event) {
    fed_error err = {0};
    if (entry->link->wait(entry->self, ms, event, &err) != FED_OK) {
        return fault(entry, "the link's wait failed: %s", err.text);
    }
    if (event->kind == FEDDC_ARRIVED && event->head.bucket == MEETING) {
        entry->link->release(entry->self, event);
        entry->met++;
        event->kind = FEDDC_NOTHING;
    }
    return true;
}

/* Wait for the next event. With enough > 0, also return, with FEDDC_NOTHING, when `enough` ranks
 * have finished the case. */
static bool next_or_met(link_entry *entry, uint32_t enough, feddc_event *event) {
    int64_t end = fed_clock_monotonic_ms() + PATIENCE_MS;
    do {
        if (!look(entry, 100, event)) {
            return false;
        }
        if (event->kind != FEDDC_NOTHING || (enough > 0 && entry->met == enough)) {
            return true;
        }
    } while (fed_clock_monotonic_ms() < end);
    return fault(entry, "no event came within %d s", PATIENCE_MS / 1000);
}

static bool next(link_entry *entry, feddc_event *event) {
    return next_or_met(entry, 0, event);
}

static bool expect(link_entry *entry, feddc_event_kind kind, feddc_event *event) {
    if (!next(entry, event)) {
        return false;
    }
    return event->kind == kind || fault(entry, "event %d of rank %u came instead of event %d",
                                        event->kind, event->peer, kind);
}

static bool check(link_entry *entry, const feddc_event *event, uint32_t number, size_t len) {
    feddc_head head = head_of(event->peer, number);
    if (event->peer >= entry->place.size || event->peer == entry->place.rank) {
        return fault(entry, "a message came from rank %u, which can't send one", event->peer);
    }
    if (!same_head(&event->head, &head)) {
        return fault(entry, "rank %u's message %u has the head of %u", event->peer, number,
                     event->head.step);
    }
    if (event->len != len || (len == 0) != (event->data == NULL)) {
        return fault(entry, "rank %u's message %u has %zu bytes instead of %zu", event->peer,
                     number, event->len, len);
    }
    if ((uintptr_t)event->data % 64 != 0) {
        return fault(entry, "rank %u's message %u is not aligned", event->peer, number);
    }
    /* To save time, check only samples of the middle of a large message. */
    for (size_t i = 0; i < len; i += i < 4096 || len - i < 4096 ? 1 : 61) {
        if (event->data[i] != pattern(event->peer, number, i)) {
            return fault(entry, "rank %u's message %u: byte %zu of %zu is wrong", event->peer,
                         number, i, len);
        }
    }
    return true;
}

static bool is_last(const link_entry *entry) {
    return entry->place.rank + 1 == entry->place.size;
}

/* Wait until the first `ranks` ranks have finished the case. No other message may be under way. */
static void meet(link_entry *entry, uint32_t ranks) {
    uint32_t others = ranks - 1, back = 0;
    feddc_head head = {.bucket = MEETING};
    fed_error err = {0};
    for (uint32_t r = 0; r < ranks; r++) {
        if (r != entry->place.rank &&
            entry->link->send(entry->self, r, &head, NULL, 0, r, &err) != FED_OK) {
            fault(entry, "send to rank %u: %s", r, err.text);
            return;
        }
    }
    while (entry->met < others || back < others) {
        feddc_event event = {0};
        if (!next_or_met(entry, others, &event)) {
            return;
        }
        back += event.kind == FEDDC_SENT;
        if (event.kind == FEDDC_ARRIVED || event.kind == FEDDC_WOKEN) {
            fault(entry, "event %d of rank %u came while the ranks wait for each other", event.kind,
                  event.peer);
            return;
        }
    }
}

static const size_t sizes[] = {0,    1,     3,        64,        0,           65,          4096,
                               4099, 65537, MIB + 13, 5 * 65536, 3 * MIB + 1, 9 * MIB + 5, 2};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

typedef struct all_pairs {
    uint8_t *data[SIZES];
    uint32_t got[RANKS], sent[RANKS];
    uint32_t left;
} all_pairs;

static bool all_pairs_event(link_entry *entry, all_pairs *all) {
    feddc_event event;
    if (!next(entry, &event)) {
        return false;
    }
    all->left--;
    if (event.kind == FEDDC_ARRIVED) {
        uint32_t number = all->got[event.peer]++;
        bool right = number < SIZES ? check(entry, &event, number, sizes[number])
                                    : fault(entry, "too many messages of rank %u", event.peer);
        entry->link->release(entry->self, &event);
        return right;
    }
    uint32_t bit = 1u << (event.token & 31);
    if (event.kind != FEDDC_SENT || event.token >> 40 >= entry->place.size ||
        (all->sent[event.token >> 40] & bit) != 0) {
        return fault(entry, "event %d came with an unexpected token, %llx", event.kind,
                     (unsigned long long)event.token);
    }
    all->sent[event.token >> 40] |= bit;
    return true;
}

/* Each rank sends all its messages before its first wait, so a send that blocks would end in a
 * deadlock. */
static void messages_come_whole_and_in_order(link_entry *entry) {
    all_pairs all = {.left = 2 * SIZES * (entry->place.size - 1)};
    bool good = true;
    for (uint32_t k = 0; good && k < SIZES; k++) {
        all.data[k] = message(entry, k, sizes[k]);
        for (uint32_t r = 0; good && r < entry->place.size; r++) {
            good = all.data[k] != NULL &&
                   (r == entry->place.rank || post(entry, r, k, all.data[k], sizes[k]));
        }
    }
    while (good && all.left > 0) {
        good = all_pairs_event(entry, &all);
    }
    if (good) {
        meet(entry, entry->place.size);
    } else {
        entry->link->close(entry->self, false);
        entry->self = NULL;
    }
    for (uint32_t k = 0; k < SIZES; k++) {
        free(all.data[k]);
    }
}

enum { LENT = 24, LENT_BYTES = 70001 };

static bool lend(link_entry *entry, uint8_t *data[LENT], uint32_t to) {
    for (uint32_t k = 0; k < LENT; k++) {
        if ((data[k] = message(entry, k, LENT_BYTES)) == NULL ||
            !post(entry, to, k, data[k], LENT_BYTES)) {
            return false;
        }
    }
    for (uint32_t k = 0; k < LENT; k++) {
        feddc_event event;
        if (!expect(entry, FEDDC_SENT, &event)) {
            return false;
        }
        memset(data[event.token & 31], 0xee, LENT_BYTES);
    }
    return true;
}

static bool hold(link_entry *entry) {
    feddc_event held[LENT];
    for (uint32_t k = 0; k < LENT; k++) {
        if (!expect(entry, FEDDC_ARRIVED, &held[k])) {
            return false;
        }
    }
    fed_sleep_ms(20);
    for (uint32_t k = 0; k < LENT; k++) { /* 7 and 24 are coprime */
        uint32_t one = (k * 7 + 5) % LENT;
        if (!check(entry, &held[one], one, LENT_BYTES)) {
            return false;
        }
        entry->link->release(entry->self, &held[one]);
    }
    return true;
}

static void data_is_the_receivers_until_released_in_any_order(link_entry *entry) {
    uint8_t *data[LENT] = {0};
    bool good = true;
    if (entry->place.rank + 2 == entry->place.size) {
        good = lend(entry, data, entry->place.rank + 1);
    } else if (is_last(entry) && entry->place.size > 1) {
        good = hold(entry);
    }
    if (good) {
        meet(entry, entry->place.size);
    } else {
        entry->link->close(entry->self, false);
        entry->self = NULL;
    }
    for (uint32_t k = 0; k < LENT; k++) {
        free(data[k]);
    }
}

static void *wake_later(void *arg) {
    link_entry *entry = arg;
    fed_sleep_ms(20);
    entry->link->wake(entry->self);
    return NULL;
}

static void wake_is_told_now_or_next(link_entry *entry) {
    feddc_event event;
    entry->link->wake(entry->self);
    entry->link->wake(entry->self);
    bool good = expect(entry, FEDDC_WOKEN, &event);
    for (int k = 0; good && k < 3; k++) { /* the second wake may give another event */
        good = look(entry, k == 2 ? 15 : 0, &event);
    }
    if (good && event.kind != FEDDC_NOTHING) {
        fault(entry, "event %d came after all calls of wake were reported", event.kind);
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, wake_later, entry) != 0) {
        fault(entry, "can't start a thread");
        return;
    }
    good = expect(entry, FEDDC_WOKEN, &event);
    pthread_join(thread, NULL);
    if (good) {
        meet(entry, entry->place.size);
    }
}

static const size_t last_words[] = {5, 300001, 0, 17};
enum { LAST_WORDS = sizeof last_words / sizeof last_words[0] };

static void leave(link_entry *entry, bool orderly) {
    uint8_t *data[LAST_WORDS] = {0};
    for (uint32_t k = 0; k < LAST_WORDS; k++) {
        data[k] = message(entry, k, last_words[k]);
        for (uint32_t r = 0; data[k] != NULL && r + 1 < entry->place.size; r++) {
            post(entry, r, k, data[k], last_words[k]);
        }
    }
    entry->link->close(entry->self, orderly);
    entry->self = NULL;
    for (uint32_t k = 0; k < LAST_WORDS; k++) {
        free(data[k]);
    }
}

/* Messages to a rank that has left must be reported as FEDDC_SENT, although they are lost. */
static bool send_into_the_void(link_entry *entry, uint32_t to) {
    static const uint8_t nothing[1000] = {0};
    feddc_event event;
    for (uint32_t k = 0; k < 3; k++) {
        if (!post(entry, to, k, nothing, sizeof nothing) || !expect(entry, FEDDC_SENT, &event)) {
            return false;
        }
        if (event.token != ((uint64_t)to << 40 | k)) {
            return fault(entry, "the wrong token %llx was reported as sent",
                         (unsigned long long)event.token);
        }
    }
    return true;
}

/* Expect the last rank's messages in order (all of them if `orderly`), then FEDDC_GONE. */
static bool see_off(link_entry *entry, bool orderly) {
    uint32_t last = entry->place.size - 1, got = 0;
    feddc_event event;
    for (;;) {
        if (!next(entry, &event)) {
            return false;
        }
        if (event.peer != last) {
            return fault(entry, "an event of rank %u came while rank %u leaves", event.peer, last);
        }
        if (event.kind != FEDDC_ARRIVED) {
            break;
        }
        bool right = got < LAST_WORDS && check(entry, &event, got, last_words[got]);
        entry->link->release(entry->self, &event);
        got++;
        if (!right) {
            return fault(entry, "message %u of the leaving rank is wrong", got);
        }
    }
    if (event.kind != FEDDC_GONE || event.orderly != orderly || (orderly && got != LAST_WORDS)) {
        return fault(entry, "the rank's end came as event %d, orderly %d, after %u of %d messages",
                     event.kind, event.orderly, got, LAST_WORDS);
    }
    return true;
}

static void one_leaves(link_entry *entry, bool orderly) {
    feddc_event event;
    if (is_last(entry)) {
        leave(entry, orderly);
    } else if (see_off(entry, orderly) && send_into_the_void(entry, entry->place.size - 1)) {
        if (entry->place.size == 2 && look(entry, 20, &event) && event.kind != FEDDC_NOTHING) {
            fault(entry, "event %d came after the other rank had left", event.kind);
        }
        meet(entry, entry->place.size - 1);
    }
}

static void an_orderly_close_delivers_all_and_says_so(link_entry *entry) {
    one_leaves(entry, true);
}

static void an_abrupt_close_is_told_to_each(link_entry *entry) {
    one_leaves(entry, false);
}

enum { TRAFFIC = 400, IN_FLIGHT = 32, TRAFFIC_BYTES = 20000 };

static size_t traffic_size(uint32_t from, uint32_t to, uint32_t number) {
    fed_rng rng;
    fed_rng_init(&rng, 21, from * 64 + to, number);
    return fed_rng_below(&rng, 8) == 0 ? fed_rng_below(&rng, TRAFFIC_BYTES)
                                       : fed_rng_below(&rng, 200);
}

typedef struct traffic {
    uint8_t *slot[IN_FLIGHT];
    uint64_t busy[IN_FLIGHT]; /* token of the slot's message, with bit 63 set; 0: no message */
    uint32_t to, number[RANKS], sent; /* number: next message to each receiver */
    uint32_t got[RANKS], left, in_flight;
} traffic;

static bool traffic_send(link_entry *entry, traffic *t) {
    uint32_t k = 0;
    while (t->busy[k] != 0) {
        k++;
    }
    t->to = (t->to + 1) % entry->place.size;
    t->to = t->to == entry->place.rank ? (t->to + 1) % entry->place.size : t->to;
    uint32_t number = t->number[t->to]++;
    size_t len = traffic_size(entry->place.rank, t->to, number);
    for (size_t i = 0; i < len; i++) {
        t->slot[k][i] = pattern(entry->place.rank, number, i);
    }
    t->busy[k] = (uint64_t)t->to << 40 | number;
    t->busy[k] |= UINT64_C(1) << 63;
    t->sent++;
    t->in_flight++;
    t->left++;
    return post(entry, t->to, number, t->slot[k], len);
}

static bool traffic_event(link_entry *entry, traffic *t) {
    feddc_event event;
    if (!next(entry, &event)) {
        return false;
    }
    t->left--;
    if (event.kind == FEDDC_ARRIVED) {
        uint32_t number = t->got[event.peer]++;
        bool right =
            check(entry, &event, number, traffic_size(event.peer, entry->place.rank, number));
        entry->link->release(entry->self, &event);
        return right;
    }
    if (event.kind != FEDDC_SENT) {
        return fault(entry, "unexpected event %d of rank %u", event.kind, event.peer);
    }
    uint32_t k = 0;
    while (k < IN_FLIGHT && t->busy[k] != (event.token | UINT64_C(1) << 63)) {
        k++;
    }
    if (k == IN_FLIGHT) {
        return fault(entry, "token %llx was reported as sent, but no such message is under way",
                     (unsigned long long)event.token);
    }
    memset(t->slot[k], 0xee, TRAFFIC_BYTES);
    t->busy[k] = 0;
    t->in_flight--;
    return true;
}

static void many_messages_among_all(link_entry *entry) {
    uint32_t each = TRAFFIC * (entry->place.size - 1);
    traffic t = {.to = entry->place.rank, .left = each};
    bool good = true;
    for (uint32_t k = 0; k < IN_FLIGHT; k++) {
        t.slot[k] = aligned_alloc(64, TRAFFIC_BYTES / 64 * 64 + 64);
        good = good && t.slot[k] != NULL;
    }
    while (good && (t.left > 0 || t.sent < each)) {
        good = t.sent < each && t.in_flight < IN_FLIGHT ? traffic_send(entry, &t)
                                                        : traffic_event(entry, &t);
    }
    if (good) {
        meet(entry, entry->place.size);
    } else {
        entry->link->close(entry->self, false);
        entry->self = NULL;
    }
    for (uint32_t k = 0; k < IN_FLIGHT; k++) {
        free(t.slot[k]);
    }
}

static const link_case cases[] = {
    {"messages come whole and in order", false, messages_come_whole_and_in_order},
    {"data is the receiver's until it is released, in any order", false,
     data_is_the_receivers_until_released_in_any_order},
    {"wake is told now or next", false, wake_is_told_now_or_next},
    {"many messages among all", false, many_messages_among_all},
    {"an orderly close delivers all, and says so", false,
     an_orderly_close_delivers_all_and_says_so},
    {"an abrupt close is told to each", true, an_abrupt_close_is_told_to_each},
};

const link_case *link_case_at(size_t k) {
    return k < sizeof cases / sizeof cases[0] ? &cases[k] : NULL;
}

void link_case_run(const link_case *one, link_entry *entry) {
    fed_error err = {0};
    entry->fault[0] = 0;
    if (entry->link->open(&entry->place, &entry->self, &err) != FED_OK) {
        fault(entry, "can't open the link: %s", err.text);
        return;
    }
    one->play(entry);
    if (entry->self != NULL) {
        entry->link->close(entry->self, entry->fault[0] == 0);
        entry->self = NULL;
    }
}

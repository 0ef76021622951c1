/* A link with faults (faulty_link.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty_link.h"

#include <stdlib.h>
#include <time.h>

#include "fed/clock.h"
#include "fed/rng.h"

enum { MIX = 16 };

static faulty_plan *current;

typedef struct faulty {
    faulty_plan *plan;
    void *inner;
    bool lost;
    uint32_t rank;
    fed_rng rng;
    feddc_event kept[MIX];
    uint32_t count;
} faulty;

static fed_status faulty_find(feddc_place *place, fed_error *err) {
    return current->inner->find(place, err);
}

static fed_status faulty_open(const feddc_place *place, void **self, fed_error *err) {
    faulty *f = calloc(1, sizeof *f);
    if (f == NULL || place->rank >= FAULTY_RANKS) {
        free(f);
        return fed_fail(err, FED_ENOMEM, "out of memory for a link with faults");
    }
    f->plan = current;
    f->rank = place->rank;
    f->plan->events[f->rank] = 0;
    fed_rng_init(&f->rng, f->plan->seed, place->rank, 0);
    fed_status status = f->plan->inner->open(place, &f->inner, err);
    if (status != FED_OK) {
        free(f);
        return status;
    }
    *self = f;
    return FED_OK;
}

static fed_status lost(const faulty *f, fed_error *err) {
    return fed_fail(err, FED_EIO, "the faulty link lost rank %u after %llu events", f->rank,
                    (unsigned long long)f->plan->at);
}

static fed_status faulty_send(void *self, uint32_t to, const feddc_head *head, const void *data,
                              size_t len, uint64_t token, fed_error *err) {
    faulty *f = self;
    if (f->lost) {
        return lost(f, err);
    }
    return f->plan->inner->send(f->inner, to, head, data, len, token, err);
}

/* Take events from the inner link until the buffer is full. Wait only while it is empty. */
static fed_status collect(faulty *f, int ms, fed_error *err) {
    uint32_t room = f->plan->mix < 1 ? 1 : f->plan->mix > MIX ? MIX : f->plan->mix;
    while (f->count < room) {
        feddc_event *event = &f->kept[f->count];
        fed_status status = f->plan->inner->wait(f->inner, f->count == 0 ? ms : 0, event, err);
        if (status != FED_OK || event->kind == FEDDC_NOTHING) {
            return status;
        }
        f->count++;
    }
    return FED_OK;
}

/* Remove a random event from the buffer, but keep the order of each peer's events. */
static feddc_event draw(faulty *f) {
    uint32_t one = fed_rng_below(&f->rng, f->count);
    for (uint32_t k = 0; k < one; k++) {
        if (f->kept[k].peer == f->kept[one].peer) {
            one = k;
        }
    }
    feddc_event event = f->kept[one];
    f->count--;
    for (uint32_t k = one; k < f->count; k++) {
        f->kept[k] = f->kept[k + 1];
    }
    return event;
}

static void delay(faulty *f) {
    struct timespec nap = {.tv_nsec = (long)fed_rng_below(&f->rng, f->plan->delay_us) * 1000};
    nanosleep(&nap, NULL);
}

static fed_status faulty_wait(void *self, int ms, feddc_event *event, fed_error *err) {
    faulty *f = self;
    f->lost = f->lost || (f->plan->victim == f->rank && f->plan->at > 0 &&
                          f->plan->events[f->rank] >= f->plan->at);
    if (f->lost) {
        return lost(f, err);
    }
    fed_status status = collect(f, ms, err);
    if (status != FED_OK) {
        return status;
    }
    *event = (feddc_event){.kind = FEDDC_NOTHING};
    if (f->count > 0) {
        *event = draw(f);
        f->plan->events[f->rank] += event->kind != FEDDC_WOKEN;
        if (f->plan->delay_us > 0) {
            delay(f);
        }
    }
    return FED_OK;
}

static void faulty_release(void *self, const feddc_event *event) {
    faulty *f = self;
    f->plan->inner->release(f->inner, event);
}

static void faulty_wake(void *self) {
    faulty *f = self;
    f->plan->inner->wake(f->inner);
}

static void faulty_close(void *self, bool orderly) {
    faulty *f = self;
    f->plan->inner->close(f->inner, f->lost ? f->plan->orderly : orderly);
    free(f);
}

const feddc_link_vtable *faulty_link(faulty_plan *plan) {
    static feddc_link_vtable vtable;
    current = plan;
    vtable = (feddc_link_vtable){.id = plan->inner->id,
                                 .name = plan->inner->name,
                                 .find = plan->inner->find != NULL ? faulty_find : NULL,
                                 .open = faulty_open,
                                 .send = faulty_send,
                                 .wait = faulty_wait,
                                 .release = faulty_release,
                                 .wake = faulty_wake,
                                 .close = faulty_close};
    return &vtable;
}

/* Link "threads": ranks are threads of one process. A receiver reads the sender's memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>

#include "fed/clock.h"
#include "fed/threads.h"
#include "feddc/link.h"

/* A note describes a message. The sender puts it into the receiver's inbox, and wait takes it out.
 * The receiver keeps it until release, which puts it into the sender's inbox. There it becomes a
 * SENT event, and can be used again. So a rank can close when all its notes have come back. */
typedef struct note {
    struct note *next, *before; /* before: valid only in the receiver's list `held` */
    uint32_t from, to;
    feddc_head head;
    const void *data;
    size_t len;
    uint64_t token;
} note;

typedef enum presence { ABSENT = 0, HERE, LEFT } presence;

/* The part of a rank's state that other ranks change. The lock protects all members. */
typedef struct inbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    note *first, *last; /* messages, and this rank's notes that came back, in order of arrival */
    bool sleeping, woken, closed;
    uint64_t put, taken;
    uint32_t farewells; /* ranks that have left and whose GONE event is still to come */
    uint64_t due; /* GONE events wait until `taken` has reached this number: messages come first */
    /* [size], for each rank: 0 has not left, or its GONE came; 1 left at once; 2 left orderly */
    uint8_t *farewell;
} inbox;

struct feddc_hub {
    uint32_t size;
    pthread_mutex_t lock; /* protects presence and here */
    pthread_cond_t arrival;
    uint32_t here;
    uint8_t *presence;
    inbox inbox[];
};

typedef struct threads_link {
    struct feddc_hub *hub;
    inbox *own;
    uint32_t rank;
    note *idle;
    note *held;
    uint64_t abroad; /* number of this rank's notes that have not come back */
} threads_link;

struct feddc_hub *feddc_hub_new(uint32_t size) {
    if (size < 1 || size > FEDDC_RANKS) {
        return NULL;
    }
    /* One allocation: the bytes of presence and of all farewells follow the inboxes. */
    size_t inboxes = sizeof(struct feddc_hub) + size * sizeof(inbox);
    struct feddc_hub *hub = calloc(1, inboxes + size + (size_t)size * size);
    if (hub == NULL) {
        return NULL;
    }
    hub->size = size;
    hub->presence = (uint8_t *)hub + inboxes;
    pthread_mutex_init(&hub->lock, NULL);
    fed_cond_init(&hub->arrival);
    for (uint32_t r = 0; r < size; r++) {
        pthread_mutex_init(&hub->inbox[r].lock, NULL);
        fed_cond_init(&hub->inbox[r].changed);
        hub->inbox[r].farewell = hub->presence + size + (size_t)r * size;
    }
    return hub;
}

void feddc_hub_free(struct feddc_hub *hub) {
    if (hub == NULL) {
        return;
    }
    for (uint32_t r = 0; r < hub->size; r++) {
        pthread_mutex_destroy(&hub->inbox[r].lock);
        pthread_cond_destroy(&hub->inbox[r].changed);
    }
    pthread_mutex_destroy(&hub->lock);
    pthread_cond_destroy(&hub->arrival);
    free(hub);
}

/* With the hub's lock held: wait until each rank has opened. */
static fed_status meet(struct feddc_hub *hub, uint32_t patience_ms, fed_error *err) {
    const int64_t until_us = fed_clock_monotonic_us() + (int64_t)patience_ms * 1000;
    while (hub->here < hub->size && fed_cond_wait_until(&hub->arrival, &hub->lock, until_us)) {
    }
    if (hub->here == hub->size) {
        return FED_OK;
    }
    uint32_t r = 0;
    while (hub->presence[r] != ABSENT) {
        r++;
    }
    return fed_fail(err, FED_EBUSY,
                    "rank %u did not open its link within %u ms: start a thread for each rank, "
                    "with the same hub",
                    r, patience_ms);
}

static fed_status enter(const feddc_place *place, fed_error *err) {
    struct feddc_hub *hub = place->hub;
    pthread_mutex_lock(&hub->lock);
    fed_status status;
    if (hub->presence[place->rank] != ABSENT) {
        status = fed_fail(
            err, FED_EINVAL,
            "rank %u of this hub has been opened already: give each thread a rank of its own",
            place->rank);
    } else {
        hub->presence[place->rank] = HERE;
        hub->here++;
        pthread_cond_broadcast(&hub->arrival);
        status = meet(hub, place->patience_ms > 0 ? place->patience_ms : 30000, err);
        if (status != FED_OK) {
            hub->presence[place->rank] = ABSENT;
            hub->here--;
        }
    }
    pthread_mutex_unlock(&hub->lock);
    return status;
}

static fed_status threads_open(const feddc_place *place, void **self, fed_error *err) {
    if (place->hub == NULL || place->hub->size != place->size || place->rank >= place->size) {
        return fed_fail(err, FED_EINVAL,
                        "link threads, rank %u of %u: needs a hub for %u ranks (feddc_hub_new)",
                        place->rank, place->size, place->size);
    }
    threads_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for rank %u's link", place->rank);
    }
    link->hub = place->hub;
    link->rank = place->rank;
    link->own = &place->hub->inbox[place->rank];
    fed_status status = enter(place, err);
    if (status != FED_OK) {
        free(link);
        return status;
    }
    *self = link;
    return FED_OK;
}

static void rouse(inbox *box) {
    if (box->sleeping) {
        pthread_cond_signal(&box->changed);
    }
}

/* Put a note into an inbox. back: the note returns to its sender. false: the inbox's rank has
 * closed, and takes only notes that come back. */
static bool post(inbox *box, note *n, bool back) {
    pthread_mutex_lock(&box->lock);
    bool open = back || !box->closed, sleeps = open && box->sleeping;
    if (open) {
        n->next = NULL;
        *(box->first != NULL ? &box->last->next : &box->first) = n;
        box->last = n;
        box->put++;
    }
    pthread_mutex_unlock(&box->lock);
    if (sleeps) { /* after unlocking, so that the woken thread can lock at once */
        pthread_cond_signal(&box->changed);
    }
    return open;
}

static fed_status threads_send(void *self, uint32_t to, const feddc_head *head, const void *data,
                               size_t len, uint64_t token, fed_error *err) {
    threads_link *link = self;
    note *n = link->idle;
    if (n != NULL) {
        link->idle = n->next;
    } else if ((n = malloc(sizeof *n)) == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a message to rank %u", to);
    }
    *n = (note){.from = link->rank,
                .to = to,
                .head = *head,
                .data = len > 0 ? data : NULL,
                .len = len,
                .token = token};
    link->abroad++;
    if (!post(&link->hub->inbox[to], n, false)) {
        post(link->own, n, true);
    }
    return FED_OK;
}

static note *take_first(inbox *box) {
    note *n = box->first;
    if (n != NULL) {
        box->first = n->next;
        box->taken++;
    }
    return n;
}

static void keep_idle(threads_link *link, note *n) {
    n->next = link->idle;
    link->idle = n;
    link->abroad--;
}

/* The caller holds the inbox's lock. */
static void take_farewell(inbox *box, feddc_event *event) {
    uint32_t r = 0;
    while (box->farewell[r] == 0) {
        r++;
    }
    *event = (feddc_event){.kind = FEDDC_GONE, .peer = r, .orderly = box->farewell[r] == 2};
    box->farewell[r] = 0;
    box->farewells--;
}

static void hold(threads_link *link, note *n) {
    n->before = NULL;
    n->next = link->held;
    if (n->next != NULL) {
        n->next->before = n;
    }
    link->held = n;
}

static void give_back(threads_link *link, note *n) {
    *(n->before != NULL ? &n->before->next : &link->held) = n->next;
    if (n->next != NULL) {
        n->next->before = n->before;
    }
    post(&link->hub->inbox[n->from], n, true);
}

static void tell(threads_link *link, note *n, feddc_event *event) {
    if (n->from == link->rank) {
        *event = (feddc_event){.kind = FEDDC_SENT, .peer = n->to, .token = n->token};
        keep_idle(link, n);
        return;
    }
    *event = (feddc_event){.kind = FEDDC_ARRIVED,
                           .peer = n->from,
                           .head = n->head,
                           .data = n->data,
                           .len = n->len,
                           .lease = n};
    hold(link, n);
}

/* With the inbox's lock held: sleep until there is an event, or the time is over. */
static void sleep_until(inbox *box, int ms) {
    const int64_t until_us = fed_clock_monotonic_us() + (int64_t)ms * 1000;
    box->sleeping = true;
    while (!box->woken && box->first == NULL && box->farewells == 0 &&
           fed_cond_wait_until(&box->changed, &box->lock, until_us)) {
    }
    box->sleeping = false;
}

static fed_status threads_wait(void *self, int ms, feddc_event *event, fed_error *err) {
    (void)err;
    threads_link *link = self;
    inbox *box = link->own;
    *event = (feddc_event){.kind = FEDDC_NOTHING};
    note *n = NULL;
    pthread_mutex_lock(&box->lock);
    if (!box->woken && box->first == NULL && box->farewells == 0 && ms > 0) {
        sleep_until(box, ms);
    }
    if (box->woken) {
        box->woken = false;
        event->kind = FEDDC_WOKEN;
    } else if (box->farewells > 0 && box->taken >= box->due) {
        take_farewell(box, event);
    } else {
        n = take_first(box);
    }
    pthread_mutex_unlock(&box->lock);
    if (n != NULL) {
        tell(link, n, event);
    }
    return FED_OK;
}

static void threads_release(void *self, const feddc_event *event) {
    give_back(self, event->lease);
}

static void threads_wake(void *self) {
    threads_link *link = self;
    pthread_mutex_lock(&link->own->lock);
    link->own->woken = true;
    rouse(link->own);
    pthread_mutex_unlock(&link->own->lock);
}

/* With the inbox's lock held: remove this rank's messages that the receiver has not taken. */
static void take_out(threads_link *link, inbox *box) {
    note **place = &box->first, *last = NULL;
    while (*place != NULL) {
        note *n = *place;
        if (n->from == link->rank) {
            *place = n->next;
            box->taken++;
            keep_idle(link, n);
        } else {
            last = n;
            place = &n->next;
        }
    }
    box->last = last;
}

static void say_farewell(threads_link *link, bool orderly) {
    for (uint32_t r = 0; r < link->hub->size; r++) {
        inbox *box = &link->hub->inbox[r];
        if (box == link->own) {
            continue;
        }
        pthread_mutex_lock(&box->lock);
        if (!orderly) {
            take_out(link, box);
        }
        box->farewell[link->rank] = orderly ? 2 : 1;
        box->farewells++;
        box->due = box->put;
        rouse(box);
        pthread_mutex_unlock(&box->lock);
    }
}

/* Close this rank's inbox for all but notes that come back. Return other ranks' messages. */
static void refuse(threads_link *link) {
    inbox *box = link->own;
    pthread_mutex_lock(&box->lock);
    box->closed = true;
    note *n = box->first;
    box->first = NULL;
    pthread_mutex_unlock(&box->lock);
    while (n != NULL) {
        note *next = n->next;
        if (n->from == link->rank) {
            keep_idle(link, n);
        } else {
            post(&link->hub->inbox[n->from], n, true);
        }
        n = next;
    }
    while (link->held != NULL) {
        give_back(link, link->held);
    }
}

/* Wait, without a limit, until all notes have come back: others still read the messages' memory. */
static void await_own(threads_link *link) {
    inbox *box = link->own;
    pthread_mutex_lock(&box->lock);
    box->sleeping = true;
    while (link->abroad > 0) {
        note *n = take_first(box);
        if (n != NULL) {
            keep_idle(link, n);
        } else {
            pthread_cond_wait(&box->changed, &box->lock);
        }
    }
    pthread_mutex_unlock(&box->lock);
}

static void threads_close(void *self, bool orderly) {
    threads_link *link = self;
    refuse(link);
    say_farewell(link, orderly);
    await_own(link);
    pthread_mutex_lock(&link->hub->lock);
    link->hub->presence[link->rank] = LEFT;
    pthread_mutex_unlock(&link->hub->lock);
    while (link->idle != NULL) {
        note *next = link->idle->next;
        free(link->idle);
        link->idle = next;
    }
    free(link);
}

const feddc_link_vtable feddc_link_threads = {
    .id = 1,
    .name = "threads",
    .open = threads_open,
    .send = threads_send,
    .wait = threads_wait,
    .release = threads_release,
    .wake = threads_wake,
    .close = threads_close,
};

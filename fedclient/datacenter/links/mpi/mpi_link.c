/* Link "mpi": messages between the processes that mpirun has started. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/threads.h"
#include "fedclient/datacenter/links/mpi/mpi_room.h"
#include "fedclient/datacenter/links/mpi/mpi_world.h"
#include "feddc/link.h"

/*
 * A message is one MPI message: a frame, and the payload behind it. The sender describes both by a
 * derived type, so that a large payload is not copied. A small payload is copied, so that its SENT
 * event comes at once. The receiver matches a message with MPI_Improbe, which gives the message's
 * length. Then the receiver takes a block of memory, and receives into it so that the payload is
 * aligned. Messages between two ranks are matched in order, but may complete in a different order:
 * each peer's blocks wait in a queue until earlier ones are complete.
 *
 * MPI makes progress only inside its calls, so mpi_wait polls. While nothing happens mpi_wait
 * sleeps between polls. The longer nothing has happened, the longer each sleep is. mpi_wake ends
 * such a sleep.
 *
 * A rank that closes sends BYE to the others, and each of them answers with ACK that it will send
 * no more. Until then the closing rank receives messages and drops them.
 *
 * If a process dies, mpirun ends all others. So a GONE event always comes from a
 * BYE or HASTY_BYE.
 */
enum {
    TAG = 1,
    COPIED = 4096,  /* payloads of up to this many bytes are copied */
    PROBES = 64,    /* most messages to match before arrived ones are given to the caller */
    BUSY_US = 2000, /* while messages are under way, wait yields for this time before it sleeps */
    /* shortest sleep; longer sleeps are the time without activity divided by NAP_PART */
    NAP_US = 50,
    NAP_PART = 64,
    LONG_NAP_US = 1000,
    ORDERLY_MS = 10000,
    HASTY_MS = 1000
};

typedef enum frame_kind { DATA = 1, BYE, HASTY_BYE, ACK } frame_kind;

typedef struct frame {
    feddc_head head;
    uint32_t kind;
} frame;

typedef struct flight {
    feddc_mpi_block *block; /* frame and payload; of a large send only the frame */
    bool receives, tells;   /* tells: a SENT event with this token follows */
    uint64_t token;
} flight;

typedef struct peer {
    feddc_mpi_block *first, *last; /* messages that were matched and not yet given to the caller */
    bool gone;                     /* the peer's BYE or HASTY_BYE has come */
    bool quiet;                    /* the peer sends no more: `gone`, or its ACK has come */
} peer;

typedef struct mpi_link {
    MPI_Comm comm;
    uint32_t rank, size;
    bool closing;
    pthread_mutex_t lock; /* protects woken, which any thread may set */
    pthread_cond_t rouse;
    bool woken;
    int64_t moved_us;
    feddc_mpi_room room;
    peer peer[FEDDC_RANKS];

    int flights, room_for; /* room_for: capacity of the next three arrays */
    MPI_Request *request;
    flight *flight;
    int *index;

    feddc_event *event;
    size_t first_event, events, event_room;
} mpi_link;

static fed_status no_memory(fed_error *err) {
    return fed_fail(err, FED_ENOMEM, "out of memory for the messages of the MPI link");
}

static fed_status push_event(mpi_link *l, const feddc_event *event, fed_error *err) {
    if (l->events == l->event_room) {
        size_t more = l->event_room != 0 ? 2 * l->event_room : 64;
        feddc_event *ring = malloc(more * sizeof *ring);
        if (ring == NULL) {
            return no_memory(err);
        }
        for (size_t k = 0; k < l->events; k++) {
            ring[k] = l->event[(l->first_event + k) % l->event_room];
        }
        free(l->event);
        l->event = ring;
        l->event_room = more;
        l->first_event = 0;
    }
    l->event[(l->first_event + l->events) % l->event_room] = *event;
    l->events++;
    return FED_OK;
}

static bool pop_event(mpi_link *l, feddc_event *event) {
    if (l->events == 0) {
        return false;
    }
    *event = l->event[l->first_event];
    l->first_event = (l->first_event + 1) % l->event_room;
    l->events--;
    return true;
}

static fed_status make_room_for_flight(mpi_link *l, fed_error *err) {
    if (l->flights < l->room_for) {
        return FED_OK;
    }
    size_t more = l->room_for != 0 ? 2 * (size_t)l->room_for : 64;
    MPI_Request *request = realloc(l->request, more * sizeof(MPI_Request));
    l->request = request != NULL ? request : l->request;
    flight *flights = realloc(l->flight, more * sizeof *flights);
    l->flight = flights != NULL ? flights : l->flight;
    int *index = realloc(l->index, more * sizeof *index);
    l->index = index != NULL ? index : l->index;
    if (request == NULL || flights == NULL || index == NULL) {
        return no_memory(err);
    }
    l->room_for = (int)more;
    return FED_OK;
}

static void add_flight(mpi_link *l, MPI_Request request, flight what) {
    l->request[l->flights] = request;
    l->flight[l->flights] = what;
    l->flights++;
    l->moved_us = fed_clock_monotonic_us();
}

static uint8_t *frame_of(feddc_mpi_block *block) {
    return block->payload - sizeof(frame);
}

static fed_status make_type(feddc_mpi_block *block, const void *data, size_t len,
                            MPI_Datatype *type, fed_error *err) {
    MPI_Aint at[2];
    int lens[2] = {(int)sizeof(frame), (int)len};
    MPI_Datatype bytes[2] = {MPI_BYTE, MPI_BYTE};
    MPI_Get_address(frame_of(block), &at[0]);
    MPI_Get_address(data, &at[1]);
    FED_TRY(feddc_mpi_check(MPI_Type_create_struct(2, lens, at, bytes, type),
                            "MPI_Type_create_struct", err));
    return feddc_mpi_check(MPI_Type_commit(type), "MPI_Type_commit", err);
}

static fed_status send_frame(mpi_link *l, uint32_t to, frame f, const void *data, size_t len,
                             flight what, fed_error *err) {
    MPI_Request request = MPI_REQUEST_NULL;
    bool copies = len <= COPIED;
    FED_TRY(make_room_for_flight(l, err));
    what.block = feddc_mpi_room_take(&l->room, copies ? len : 0);
    if (what.block == NULL) {
        return no_memory(err);
    }
    memcpy(frame_of(what.block), &f, sizeof f);
    if (copies) {
        if (len > 0) {
            memcpy(what.block->payload, data, len);
        }
        FED_TRY(feddc_mpi_check(MPI_Isend(frame_of(what.block), (int)(sizeof f + len), MPI_BYTE,
                                          (int)to, TAG, l->comm, &request),
                                "MPI_Isend", err));
    } else {
        MPI_Datatype type = MPI_DATATYPE_NULL;
        FED_TRY(make_type(what.block, data, len, &type, err));
        FED_TRY(feddc_mpi_check(MPI_Isend(MPI_BOTTOM, 1, type, (int)to, TAG, l->comm, &request),
                                "MPI_Isend", err));
        MPI_Type_free(&type);
    }
    add_flight(l, request, what);
    return FED_OK;
}

static fed_status give_out(mpi_link *l, uint32_t from, feddc_mpi_block *block, fed_error *err) {
    feddc_event event = {.peer = from};
    frame f;
    memcpy(&f, frame_of(block), sizeof f);
    if (f.kind == DATA) {
        event.kind = FEDDC_ARRIVED;
        event.head = f.head;
        event.len = block->len;
        event.data = block->len > 0 ? block->payload : NULL;
        event.lease = block;
        return push_event(l, &event, err);
    }
    feddc_mpi_room_give(&l->room, block);
    l->peer[from].quiet = true;
    if (f.kind == ACK) {
        return FED_OK;
    }
    l->peer[from].gone = true;
    if (!l->closing) {
        FED_TRY(send_frame(l, from, (frame){.kind = ACK}, NULL, 0, (flight){0}, err));
    }
    event.kind = FEDDC_GONE;
    event.orderly = f.kind == BYE;
    return push_event(l, &event, err);
}

static fed_status give_out_complete(mpi_link *l, uint32_t from, fed_error *err) {
    peer *p = &l->peer[from];
    while (p->first != NULL && p->first->complete) {
        feddc_mpi_block *block = p->first;
        p->first = block->next;
        FED_TRY(give_out(l, from, block, err));
    }
    return FED_OK;
}

static void append(peer *p, feddc_mpi_block *block) {
    if (p->first == NULL) {
        p->first = block;
    } else {
        p->last->next = block;
    }
    p->last = block;
}

static fed_status match_next(mpi_link *l, int *found, fed_error *err) {
    MPI_Message message;
    MPI_Status about;
    MPI_Request request;
    int len = 0;
    FED_TRY(feddc_mpi_check(MPI_Improbe(MPI_ANY_SOURCE, TAG, l->comm, found, &message, &about),
                            "MPI_Improbe", err));
    if (!*found) {
        return FED_OK;
    }
    FED_TRY(feddc_mpi_check(MPI_Get_count(&about, MPI_BYTE, &len), "MPI_Get_count", err));
    if (len < (int)sizeof(frame)) {
        return fed_fail(err, FED_EIO,
                        "a message of rank %d has %d bytes, fewer than a frame: all ranks must run "
                        "the same release",
                        about.MPI_SOURCE, len);
    }
    FED_TRY(make_room_for_flight(l, err));
    feddc_mpi_block *block = feddc_mpi_room_take(&l->room, (size_t)len - sizeof(frame));
    if (block == NULL) {
        return no_memory(err);
    }
    block->peer = (uint32_t)about.MPI_SOURCE;
    FED_TRY(feddc_mpi_check(MPI_Imrecv(frame_of(block), len, MPI_BYTE, &message, &request),
                            "MPI_Imrecv", err));
    append(&l->peer[block->peer], block);
    add_flight(l, request, (flight){.block = block, .receives = true});
    return FED_OK;
}

static fed_status land(mpi_link *l, const flight *what, fed_error *err) {
    if (what->receives) {
        what->block->complete = true;
        return give_out_complete(l, what->block->peer, err);
    }
    feddc_mpi_room_give(&l->room, what->block);
    const feddc_event event = {.kind = FEDDC_SENT, .token = what->token};
    return what->tells ? push_event(l, &event, err) : FED_OK;
}

static fed_status poll_all(mpi_link *l, fed_error *err) {
    int found = 1, done = 0;
    for (int k = 0; k < PROBES && found; k++) {
        FED_TRY(match_next(l, &found, err));
    }
    int polled = l->flights;
    if (polled > 0) {
        FED_TRY(
            feddc_mpi_check(MPI_Testsome(polled, l->request, &done, l->index, MPI_STATUSES_IGNORE),
                            "MPI_Testsome", err));
    }
    if (done <= 0) {
        return FED_OK;
    }
    l->moved_us = fed_clock_monotonic_us();
    for (int k = 0; k < done; k++) {
        const flight what = l->flight[l->index[k]];
        FED_TRY(land(l, &what, err)); /* land may add flights */
    }
    int left = 0;
    for (int k = 0; k < l->flights; k++) {
        if (l->request[k] != MPI_REQUEST_NULL) {
            l->request[left] = l->request[k];
            l->flight[left++] = l->flight[k];
        }
    }
    l->flights = left;
    return FED_OK;
}

static void nap(mpi_link *l, int64_t until_us) {
    pthread_mutex_lock(&l->lock);
    if (!l->woken) {
        (void)fed_cond_wait_until(&l->rouse, &l->lock, until_us);
    }
    pthread_mutex_unlock(&l->lock);
}

static void rest(mpi_link *l) {
    int64_t now = fed_clock_monotonic_us(), idle = now - l->moved_us, us = idle / NAP_PART;
    if (l->flights > 0 && idle < BUSY_US) {
        sched_yield();
        return;
    }
    us = us < NAP_US ? NAP_US : us;
    nap(l, now + (us < LONG_NAP_US ? us : LONG_NAP_US));
}

static bool take_wake(mpi_link *l) {
    pthread_mutex_lock(&l->lock);
    bool woken = l->woken;
    l->woken = false;
    pthread_mutex_unlock(&l->lock);
    return woken;
}

static fed_status mpi_find(feddc_place *place, fed_error *err) {
    int rank = 0, size = 0;
    FED_TRY(feddc_mpi_begin(err));
    FED_TRY(feddc_mpi_check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank", err));
    FED_TRY(feddc_mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size", err));
    if (size > FEDDC_RANKS) {
        return fed_fail(
            err, FED_EINVAL,
            "mpirun has started %d ranks, but a worker group has at most %d: start fewer", size,
            FEDDC_RANKS);
    }
    place->rank = (uint32_t)rank;
    place->size = (uint32_t)size;
    return FED_OK;
}

static void free_link(mpi_link *l) {
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->rouse);
    feddc_mpi_room_close(&l->room);
    free(l->request);
    free(l->flight);
    free(l->index);
    free(l->event);
    free(l);
}

static fed_status mpi_open(const feddc_place *place, void **self, fed_error *err) {
    feddc_place world = {0};
    FED_TRY(mpi_find(&world, err));
    if (place->rank != world.rank || place->size != world.size) {
        return fed_fail(err, FED_EINVAL,
                        "this process is rank %u of %u for MPI, and was told to be rank %u of %u: "
                        "start the ranks with mpirun -n %u",
                        world.rank, world.size, place->rank, place->size, place->size);
    }
    mpi_link *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return no_memory(err);
    }
    l->rank = place->rank;
    l->size = place->size;
    fed_cond_init(&l->rouse);
    pthread_mutex_init(&l->lock, NULL);
    fed_status status = feddc_mpi_join(place->patience_ms, &l->comm, err);
    if (status != FED_OK) {
        free_link(l);
        return status;
    }
    *self = l;
    return FED_OK;
}

static fed_status mpi_send(void *self, uint32_t to, const feddc_head *head, const void *data,
                           size_t len, uint64_t token, fed_error *err) {
    mpi_link *l = self;
    const feddc_event sent = {.kind = FEDDC_SENT, .token = token};
    if (to >= l->size || to == l->rank) {
        return fed_fail(err, FED_EINVAL, "rank %u of %u cannot send to rank %u", l->rank, l->size,
                        to);
    }
    if (len > INT_MAX - sizeof(frame)) {
        return fed_fail(err, FED_EINVAL,
                        "a message of %zu bytes is too long for MPI, whose lengths end at 2 GiB: "
                        "send it in parts",
                        len);
    }
    if (l->peer[to].gone) {
        return push_event(l, &sent, err);
    }
    const flight what = {.tells = len > COPIED, .token = token};
    FED_TRY(send_frame(l, to, (frame){.head = *head, .kind = DATA}, data, len, what, err));
    return what.tells ? FED_OK : push_event(l, &sent, err);
}

static fed_status mpi_wait(void *self, int ms, feddc_event *event, fed_error *err) {
    mpi_link *l = self;
    int64_t until = 0;
    for (;;) {
        if (take_wake(l)) {
            *event = (feddc_event){.kind = FEDDC_WOKEN};
            return FED_OK;
        }
        if (pop_event(l, event)) {
            return FED_OK;
        }
        FED_TRY(poll_all(l, err));
        if (l->events > 0) {
            continue;
        }
        int64_t now = fed_clock_monotonic_ms();
        until = until == 0 ? now + ms : until;
        if (ms <= 0 || now >= until) {
            *event = (feddc_event){.kind = FEDDC_NOTHING};
            return FED_OK;
        }
        rest(l);
    }
}

static void mpi_release(void *self, const feddc_event *event) {
    mpi_link *l = self;
    feddc_mpi_room_give(&l->room, event->lease);
}

static void mpi_wake(void *self) {
    mpi_link *l = self;
    pthread_mutex_lock(&l->lock);
    l->woken = true;
    pthread_cond_signal(&l->rouse);
    pthread_mutex_unlock(&l->lock);
}

static bool all_quiet(const mpi_link *l) {
    for (uint32_t r = 0; r < l->size; r++) {
        if (r != l->rank && !l->peer[r].quiet) {
            return false;
        }
    }
    return l->flights == 0;
}

static bool part(mpi_link *l, bool orderly) {
    fed_status status = FED_OK;
    int64_t until = fed_clock_monotonic_ms() + (orderly ? ORDERLY_MS : HASTY_MS);
    l->closing = true;
    for (uint32_t r = 0; r < l->size && status == FED_OK; r++) {
        if (r != l->rank && !l->peer[r].gone) {
            const frame bye = {.kind = orderly ? BYE : HASTY_BYE};
            status = send_frame(l, r, bye, NULL, 0, (flight){0}, NULL);
        }
    }
    while (status == FED_OK && !all_quiet(l) && fed_clock_monotonic_ms() < until) {
        feddc_event event;
        while (pop_event(l, &event)) {
            if (event.kind == FEDDC_ARRIVED) {
                mpi_release(l, &event);
            }
        }
        status = poll_all(l, NULL);
        if (status == FED_OK && !all_quiet(l)) {
            rest(l);
        }
    }
    return status == FED_OK && all_quiet(l);
}

static void mpi_close(void *self, bool orderly) {
    mpi_link *l = self;
    bool clean = part(l, orderly);
    feddc_mpi_leave(&l->comm, clean);
    if (clean) { /* otherwise MPI may still use the blocks, so they stay until the process ends */
        free_link(l);
    }
}

const feddc_link_vtable feddc_link_mpi = {
    .id = 3,
    .name = "mpi",
    .find = mpi_find,
    .open = mpi_open,
    .send = mpi_send,
    .wait = mpi_wait,
    .release = mpi_release,
    .wake = mpi_wake,
    .close = mpi_close,
};

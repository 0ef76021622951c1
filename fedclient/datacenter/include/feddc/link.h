/* A link: messages between the ranks of a worker group. For who writes a link; feddc/exchange.h
 * uses it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_LINK_H
#define FEDDC_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/*
 * A link is a folder, links/NAME/, which defines one struct, and a line of links.def. The contract
 * test tests/contract/test_each_link.c checks each link of the table for what is promised here.
 */

enum { FEDDC_RANKS = 1024, FEDDC_SECRET = 32 };

/** Where a rank is, and how it reaches the others. Members that a link does not name are not read.
 */
typedef struct feddc_place {
    uint32_t rank, size; /* rank < size <= FEDDC_RANKS. mpi: find fills them in */

    struct feddc_hub *hub; /* threads: what the ranks of this process share, feddc_hub_new's */

    /* tcp: "host:port" of each rank; char *[size]. A rank listens on its own. */
    const char *const *address;
    int listener; /* tcp: a socket that listens on address[rank] already; the link closes it. -1:
                   * the link opens one */
    /* tcp: the worker group's secret, FEDDC_SECRET bytes. Two ranks talk only after each has proved
     * to the other that it knows the secret, for this generation. */
    const uint8_t *secret;
    uint32_t generation;    /* tcp: goes up when a worker group goes on without a dead rank */
    const char *congestion; /* tcp: the sockets' congestion control ("reno"); NULL: the system's */
    bool mark; /* tcp: NICs may round FEDDC_FLOATS messages. All of these go over their own
                * connection, whose packets have the type of service 0x28 (INCEPTIONN, section
                * VI). feddc_exchange_open fills it in */
    uint32_t patience_ms; /* tcp, mpi: how long open waits for the other ranks; 0: 30 s */
} feddc_place;

/** What threads of one process share to be ranks 0 to size - 1 of link "threads". NULL: no memory.
 * Free it when the last rank has closed its link. */
struct feddc_hub *feddc_hub_new(uint32_t size);
void feddc_hub_free(struct feddc_hub *hub);

/** A message's head. What the members mean is the sender's business, but for one flag: a link
 * carries them. */
typedef struct feddc_head {
    uint8_t kind;
    uint8_t flags;
    uint16_t part;
    uint32_t bucket;
    uint32_t step;
} feddc_head;

/** A flag: the message's data are float32, and nothing else. Link tcp sends large ones over a
 * connection of their own, which a NIC may compress if it is marked. */
enum { FEDDC_FLOATS = 0x80 };

typedef enum feddc_event_kind {
    FEDDC_NOTHING = 0, /* the time is over */
    FEDDC_ARRIVED, /* a message of `peer`: head, data, len. It is the receiver's until release */
    FEDDC_SENT,    /* the data of the send with this token is the sender's again */
    FEDDC_WOKEN,   /* somebody called wake */
    FEDDC_GONE     /* `peer` has left: nothing more comes from it, and nothing reaches it. Told
                        * once, after all that arrived from it. `orderly`: it had called close so */
} feddc_event_kind;

typedef struct feddc_event {
    feddc_event_kind kind;
    uint32_t peer;
    feddc_head head;
    const uint8_t *data; /* len bytes; NULL if len is 0. Aligned to 64, for any vector unit; from
                          * links that share memory, as the sender's data */
    size_t len;
    void *lease;    /* ARRIVED: the link's own, for release */
    uint64_t token; /* SENT */
    bool orderly;   /* GONE */
} feddc_event;

/**
 * Threads  All calls of one rank come from one thread, but for wake, which any thread may call.
 *          Only open and wait block.
 * Order    Messages from one rank to another arrive in the order in which they were sent. There is
 *          no order among different ranks.
 * Memory   A sender must not change data until SENT. Links that share memory hand the sender's own
 *          bytes to the receiver, and say SENT when the receiver has released them. Others copy,
 *          and
 *          say SENT as soon as the bytes are the system's.
 * Loss     Nothing is lost, repeated or changed without a GONE.
 */
typedef struct feddc_link_vtable {
    uint8_t id;       /* permanent; links.def */
    const char *name; /* "tcp" */

    /** The system that started this process knows its rank: fill in rank and size. NULL: it does
     * not. Errors: FED_EIO, and a sentence. */
    fed_status (*find)(feddc_place *place, fed_error *err);

    /** Meet the other ranks: returns when each of them can be sent to. place is read now, and not
     * later. Errors: FED_EBUSY a rank did not come in time: the sentence names it; FED_EAUTH a rank
     * could not prove itself; FED_EINVAL, FED_ENOMEM, FED_EIO. */
    fed_status (*open)(const feddc_place *place, void **self, fed_error *err);

    /** Send a message to rank `to`, not to oneself. Copies the head; never blocks. To a rank that
     * is gone: FED_OK, and SENT comes. Errors: FED_ENOMEM, FED_EIO */
    fed_status (*send)(void *self, uint32_t to, const feddc_head *head, const void *data,
                       size_t len, uint64_t token, fed_error *err);

    /** The next event, waiting up to ms for it; 0: without waiting. Errors: FED_ENOMEM, FED_EIO:
     * the link is broken, and can only be closed. */
    fed_status (*wait)(void *self, int ms, feddc_event *event, fed_error *err);

    /** The data of an ARRIVED event is not needed any longer. In any order. */
    void (*release)(void *self, const feddc_event *event);

    /** Let wait return WOKEN, now or when it is called next. Several calls may become one event. */
    void (*wake)(void *self);

    /**
     * Leave. orderly: what was sent reaches the others, and their GONE says so. Waits for that up
     * to ten seconds, and for threads until the others have released what they got. Events that are
     * not released are.
     */
    void (*close)(void *self, bool orderly);
} feddc_link_vtable;

/** The k-th link of this build; NULL past the last. And the one of that name; NULL: none. */
const feddc_link_vtable *feddc_link_at(size_t k);
const feddc_link_vtable *feddc_link_named(const char *name);

FED_API_END

#endif

/* A link carries messages between ranks. For authors of links and feddc/exchange.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_LINK_H
#define FEDDC_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/* A link is a folder, links/NAME/, with one feddc_link_vtable, and a line of links.def.
 * tests/contract/test_each_link.c checks that each link keeps this contract. */

enum { FEDDC_RANKS = 1024, FEDDC_SECRET = 32 };

/** A rank's place in the worker group, and how it reaches the others. A comment that begins with a
 * link's name is about that link only. */
typedef struct feddc_place {
    uint32_t rank, size; /* rank < size <= FEDDC_RANKS. mpi: find fills them in */

    struct feddc_hub *hub; /* threads: shared by the ranks of this process; from feddc_hub_new */

    const char *const *address; /* tcp: "host:port" of each rank; char *[size] */
    int listener; /* tcp: a socket that listens on address[rank] already; the link closes it. -1:
                   * the link opens one */
    /* tcp: FEDDC_SECRET bytes. Two ranks talk only after each has proved to the other that it knows
     * the secret, for this generation. */
    const uint8_t *secret;
    uint32_t generation;    /* tcp: ranks with different generations do not connect */
    const char *congestion; /* tcp: the sockets' congestion control ("reno"); NULL: the system's */
    /* tcp: NICs may round FEDDC_FLOATS messages. These use a connection of their own, whose packets
     * have the type of service 0x28 (INCEPTIONN, section VI). feddc_exchange_open sets it */
    bool mark;
    uint32_t patience_ms; /* tcp, mpi: how long open waits for the other ranks; 0: 30 s */
} feddc_place;

/** Make the data that ranks 0 to size - 1 of link "threads" share, which are threads of one
 * process. NULL: out of memory. Free it after the last rank has closed its link. */
struct feddc_hub *feddc_hub_new(uint32_t size);
void feddc_hub_free(struct feddc_hub *hub);

/** A message's head. Links carry it unchanged, and read only its flag FEDDC_FLOATS. */
typedef struct feddc_head {
    uint8_t kind;
    uint8_t flags;
    uint16_t part;
    uint32_t bucket;
    uint32_t step;
} feddc_head;

/** A flag: all data are float32. Link tcp may send messages with this flag over a separate
 * connection. If that connection is marked, a NIC may compress its packets. */
enum { FEDDC_FLOATS = 0x80 };

typedef enum feddc_event_kind {
    FEDDC_NOTHING = 0, /* no event within the time to wait */
    FEDDC_ARRIVED,     /* from `peer`: head, data, len. data may be read until release */
    FEDDC_SENT,        /* the send with this token no longer reads its data */
    FEDDC_WOKEN,       /* somebody called wake */
    /* `peer` has left: it sends and receives nothing more. Comes once, after all its messages */
    FEDDC_GONE
} feddc_event_kind;

typedef struct feddc_event {
    feddc_event_kind kind;
    uint32_t peer;
    feddc_head head;
    /* len bytes; NULL if len is 0. Aligned to 64 bytes, or with link threads as the sender's
     * data */
    const uint8_t *data;
    size_t len;
    void *lease;    /* ARRIVED: for the link's release */
    uint64_t token; /* SENT: the token given to send */
    bool orderly;   /* GONE: the peer has called close with orderly set */
} feddc_event;

/**
 * Threads  All calls of one rank come from one thread, except wake, which any thread may call.
 *          Only open, wait and close block.
 * Order    Messages from one rank to another arrive in the order in which they were sent. There is
 *          no order among different ranks.
 * Memory   A sender must not change data until SENT. Links that share memory hand the sender's own
 *          bytes to the receiver, and say SENT when the receiver has released them. Others copy,
 *          and say SENT as soon as the system has the bytes.
 * Loss     Nothing is lost or repeated without a GONE. Only NICs change data (FEDDC_FLOATS).
 */
typedef struct feddc_link_vtable {
    uint8_t id;       /* permanent; links.def */
    const char *name; /* "tcp" */

    /** Fill in rank and size from the launcher that started this process, such as mpirun. NULL: the
     * link has no such launcher. Errors: FED_EINVAL too many ranks; FED_ESTATE, FED_ENOMEM,
     * FED_EIO */
    fed_status (*find)(feddc_place *place, fed_error *err);

    /** Connect with the other ranks. Returns when messages can be sent to each of them. place is
     * not read after the call. Errors: FED_EBUSY a rank did not come in time, named by the error's
     * text except with mpi; FED_EAUTH a rank could not prove that it knows the secret; FED_EVERSION
     * a rank runs another release (mpi); FED_EINVAL, FED_ESTATE, FED_ENOMEM, FED_EIO. */
    fed_status (*open)(const feddc_place *place, void **self, fed_error *err);

    /** Send a message to another rank. Copies the head; never blocks. To a rank that is gone:
     * returns FED_OK, and SENT comes. Errors: FED_EINVAL no such rank, or too many bytes;
     * FED_ENOMEM; FED_EIO */
    fed_status (*send)(void *self, uint32_t to, const feddc_head *head, const void *data,
                       size_t len, uint64_t token, fed_error *err);

    /** Take the next event, waiting up to ms. Errors: FED_ENOMEM, FED_EIO. After an error the link
     * is broken and can only be closed. */
    fed_status (*wait)(void *self, int ms, feddc_event *event, fed_error *err);

    /** Give the data of an ARRIVED event back. Events may be released in any order. */
    void (*release)(void *self, const feddc_event *event);

    /** Make wait return WOKEN, now or at its next call. Several calls may cause one event only. */
    void (*wake)(void *self);

    /**
     * Leave. orderly: what was sent reaches the others, and their GONE event is orderly. Waits for
     * this up to ten seconds; link threads waits until the others have released the messages that
     * they got. Events that were not released are released.
     */
    void (*close)(void *self, bool orderly);
} feddc_link_vtable;

/** The k-th link of this build, NULL past the last; and the link of a name, or NULL. */
const feddc_link_vtable *feddc_link_at(size_t k);
const feddc_link_vtable *feddc_link_named(const char *name);

FED_API_END

#endif

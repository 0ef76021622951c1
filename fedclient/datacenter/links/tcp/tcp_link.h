/* Inside of link "tcp": what its files know of each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_TCP_LINK_H
#define FEDDC_TCP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fedclient/datacenter/links/tcp/tcp_pool.h"
#include "fedclient/datacenter/links/tcp/tcp_wire.h"
#include "feddc/link.h"

enum {
    TCP_HEADS_STREAM = 0,
    TCP_FLOATS_STREAM = 1,
    TCP_STREAMS = 2,
    TCP_STAGE = 32 << 10,     /* heads and small messages are read in pieces of this size */
    TCP_APART = 4096,         /* tcp_link.apart, where no NIC waits for floats */
    TCP_READ_TURN = 1 << 20,  /* about what is read of one rank before the next one's turn */
    TCP_UNREAD_MAX = 64 << 20 /* no more is read while so many bytes wait to be taken */
};

/** Bytes on their way out. */
typedef struct tcp_item {
    struct tcp_item *next;
    uint8_t record[TCP_RECORD];
    size_t record_len; /* TCP_RECORD, or 0 */
    const uint8_t *data;
    size_t len, done; /* done: of record and data */
    bool tell;        /* SENT follows */
    uint64_t token;
} tcp_item;

/** One of a pair's two connections. The kernel tells each change of readable and writable once. */
typedef struct tcp_stream {
    int fd; /* -1: closed */
    bool readable, writable;
    bool closing; /* its end was announced: read until it is there */
    bool ended;   /* nothing more comes */
    tcp_item *first, **last;
} tcp_stream;

typedef struct tcp_peer {
    tcp_stream stream[TCP_STREAMS];
    uint8_t *stage; /* TCP_STAGE bytes: [begin, end) were read, and not used */
    size_t begin, end;

    bool arriving; /* this message */
    tcp_record record;
    tcp_buffer *buffer; /* NULL if it has no bytes */
    size_t got;

    bool goodbye; /* it said so */
    bool said;    /* we did, and nothing more goes to it */
    bool cut;     /* a connection failed: what has arrived is read, then it is gone */
    bool gone;
    bool listed; /* among those that have something to do */
    struct tcp_peer *next;
} tcp_peer;

typedef struct tcp_link {
    uint32_t rank, size;
    size_t apart; /* floats of fewer bytes travel with the heads */
    int epoll, bell;
    bool rung;               /* the bell is to be read */
    tcp_peer *peer;          /* [size]; the own one is gone from the beginning */
    tcp_peer *first, **last; /* those with something to do */

    feddc_event *event; /* a ring of a power of two, or NULL */
    size_t room, begin, count;
    size_t unread; /* bytes of ARRIVED events in it */

    tcp_pool pool;
    tcp_item *spare;
    size_t unsent; /* items in all streams */
} tcp_link;

/** Meet the others: fills in peer[].stream[].fd. Closes the listener in any case. */
fed_status feddc_tcp_meet(tcp_link *link, const feddc_place *place, fed_error *err) FED_CHECKED;

/* -- tcp_flow.c -- */

/** Watch all connections. */
fed_status feddc_tcp_watch(tcp_link *link, fed_error *err) FED_CHECKED;

/** Put an item behind the others of a stream, and send what can be sent. data may be NULL. */
fed_status feddc_tcp_put(tcp_link *link, tcp_peer *peer, unsigned stream, const tcp_item *item,
                         fed_error *err) FED_CHECKED;

/** Ask the kernel, waiting up to ms; then let each connection that is ready do one turn. */
fed_status feddc_tcp_poll(tcp_link *link, int ms, fed_error *err) FED_CHECKED;

#endif

/* Data and functions that the files of link "tcp" share. */
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
    TCP_STAGE = 32 << 10,     /* heads and small messages are read in pieces of up to this */
    TCP_APART = 4096,         /* value of tcp_link.apart where NICs do not compress */
    TCP_READ_TURN = 1 << 20,  /* about how many bytes are read from one rank at a time */
    TCP_UNREAD_MAX = 64 << 20 /* reading stops while this many received bytes wait to be taken */
};

typedef struct tcp_item {
    struct tcp_item *next;
    uint8_t record[TCP_RECORD];
    size_t record_len; /* 0: no record, only data */
    const uint8_t *data;
    size_t len, done; /* done: sent bytes of record and data together */
    bool tell;        /* a SENT event with this token follows */
    uint64_t token;
} tcp_item;

/** One of the two connections between two ranks. epoll reports each change only once
 * (edge-triggered), so readable and writable are remembered here. */
typedef struct tcp_stream {
    int fd; /* -1: closed */
    bool readable, writable;
    bool closing; /* read until the end, without waiting for epoll */
    bool ended;   /* nothing more is read */
    tcp_item *first, **last;
} tcp_stream;

typedef struct tcp_peer {
    tcp_stream stream[TCP_STREAMS];
    uint8_t *stage; /* TCP_STAGE bytes: [begin, end) were received and not yet parsed */
    size_t begin, end;

    bool arriving;
    tcp_record record;
    tcp_buffer *buffer; /* NULL if the message has no bytes */
    size_t got;

    bool goodbye; /* the peer's last record, TCP_GOODBYE, has come */
    bool said;    /* this rank has shut its sending side down */
    bool cut;     /* a connection has failed: the peer is gone once all arrived bytes are read */
    bool gone;
    bool listed;
    struct tcp_peer *next;
} tcp_peer;

typedef struct tcp_link {
    uint32_t rank, size;
    size_t apart; /* float messages of fewer bytes go over the connection of the heads */
    int epoll, bell;
    bool rung;               /* the eventfd `bell` was signalled and must be read */
    tcp_peer *peer;          /* [size]; this rank's own entry is marked as gone */
    tcp_peer *first, **last; /* list of peers with work to do */

    feddc_event *event; /* a ring buffer whose size is a power of two, or NULL */
    size_t room, begin, count;
    size_t unread; /* bytes of the ARRIVED events in the ring */

    tcp_pool pool;
    tcp_item *spare;
    size_t unsent;
} tcp_link;

/** Connect with all other ranks: fills in peer[].stream[].fd. Always closes the listener. */
fed_status feddc_tcp_meet(tcp_link *link, const feddc_place *place, fed_error *err) FED_CHECKED;

fed_status feddc_tcp_watch(tcp_link *link, fed_error *err) FED_CHECKED;

/** Queue a copy of *item on a stream, and send what can be sent. data may be NULL. */
fed_status feddc_tcp_put(tcp_link *link, tcp_peer *peer, unsigned stream, const tcp_item *item,
                         fed_error *err) FED_CHECKED;

/** Wait up to ms for epoll; then send and receive on each connection that is ready. */
fed_status feddc_tcp_poll(tcp_link *link, int ms, fed_error *err) FED_CHECKED;

#endif

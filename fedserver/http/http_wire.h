/* A connection's bytes below TLS: whose they are, and few system calls for them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_WIRE_H
#define FEDSERVER_HTTP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "fedserver/http/http_address.h"

/** Bytes that wait in memory of their own: the `len` ones at `data + at`. */
typedef struct http_wire_bytes {
    uint8_t *data; /* NULL: none */
    size_t at, len;
} http_wire_bytes;

/** The connection below a TLS session. It must outlive the session's last byte. */
typedef struct http_wire {
    int fd;                  /* does not block */
    http_address address;    /* of the client, once the first byte of TLS has been pulled */
    bool proxied;            /* a PROXY header comes first, and names the address */
    bool holds;              /* the next push is held */
    uint64_t *progress;      /* grows with every byte moved, and at the end of the connection */
    http_wire_bytes ahead;   /* they were read, and nobody has asked for them yet */
    http_wire_bytes pending; /* they travel in front of the next push */
} http_wire;

/* Both return the number of bytes moved, or -1 and errno: EAGAIN, come again later. */

/**
 * Get up to `size` bytes. TLS asks for the head of a record, five bytes, and then for the record.
 * So a read takes in what lies behind, and the next calls get it without a system call. EAGAIN
 * means that the socket was found empty and that nothing waits in memory. The end is ECONNRESET.
 */
ssize_t http_wire_pull(http_wire *wire, void *dst, size_t size);
ssize_t http_wire_push(http_wire *wire, const struct iovec *parts, int part_count);

/** Let the next push wait for the one after it, and travel with it in one write. The caller knows
 * that there is one: an answer's head is followed by its body. */
void http_wire_hold(http_wire *wire);

/** Free what waits in memory. */
void http_wire_free(http_wire *wire);

#endif

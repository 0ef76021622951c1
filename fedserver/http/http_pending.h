/* Keeps the requests that the coordinator holds: by the times when they are due, and by keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_PENDING_H
#define FEDSERVER_HTTP_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/** A held request is a member of a larger struct. All zeros: it is not in a set. */
typedef struct http_held {
    int64_t until_ms;       /* when the request is due, by the monotonic clock */
    uint64_t key;           /* fedserver_response.hold_key */
    size_t place;           /* in http_pending.heap, from 1; 0: in no set */
    struct http_held *next; /* with a key in the same list */
} http_held;

/** A set of held requests. A set of zeros is empty. */
typedef struct http_pending {
    http_held **heap;  /* [count]: a binary heap; none is due before heap[0] */
    http_held **lists; /* [list_count]: requests with equal hashes of their keys */
    size_t count, cap, list_count;
} http_pending;

void http_pending_free(http_pending *pending);

/** Add a request, whose until_ms and key are set and stay. FED_ENOMEM: nothing has changed. */
fed_status http_pending_add(http_pending *pending, http_held *held) FED_CHECKED;
void http_pending_remove(http_pending *pending, http_held *held);

/** The request that is due first; NULL: the set is empty. */
http_held *http_pending_first(const http_pending *pending);

/** A request with this key; NULL: there is none. */
http_held *http_pending_with(const http_pending *pending, uint64_t key);

#endif

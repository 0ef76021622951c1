/* At a follower: bodies that the leader has sent, for the next devices that ask for the same. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_SHELF_H
#define FEDSERVER_HTTP_SHELF_H

#include "fedserver/fedserver.h"

enum { HTTP_SHELF_ITEMS = 64, HTTP_SHELF_BYTES = 64 << 20, HTTP_SHELF_TAG = 20 };

typedef struct http_shelf_item {
    char *key; /* what was asked for; NULL: free */
    char etag[HTTP_SHELF_TAG];
    fedserver_blob *body;
    size_t len;
    uint64_t used; /* larger: used later */
} http_shelf_item;

/** Zeroed, it is empty. The bodies take HTTP_SHELF_BYTES at most. */
typedef struct http_shelf {
    http_shelf_item items[HTTP_SHELF_ITEMS];
    size_t bytes;
    uint64_t uses;
} http_shelf;

/** The body of the last answer to the same request, whose tag is set; one reference, which the
 * caller owns. NULL: there is none, and etag is "". The leader says whether it is still right. */
fedserver_blob *http_shelf_find(http_shelf *shelf, const fedserver_request *request,
                                char etag[HTTP_SHELF_TAG]);

/** Keep the answer's body, if its tag stands for its bytes; those used longest ago make room. */
void http_shelf_put(http_shelf *shelf, const fedserver_request *request,
                    const fedserver_response *response);

void http_shelf_free(http_shelf *shelf);

#endif

/* A follower's cache of bodies that the leader sent. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_OBJECT_CACHE_H
#define FEDSERVER_HTTP_OBJECT_CACHE_H

#include "fedserver/fedserver.h"

enum {
    HTTP_OBJECT_CACHE_ITEMS = 64,
    HTTP_OBJECT_CACHE_BYTES = 64 << 20,
    HTTP_OBJECT_CACHE_TAG = 20
};

typedef struct http_object_cache_item {
    char *key; /* the request's path, query, Range and If-Range; NULL: the item is free */
    char etag[HTTP_OBJECT_CACHE_TAG];
    fedserver_blob *body;
    size_t len;
    uint64_t used; /* when the item was used last, as a counter */
} http_object_cache_item;

/** An empty cache is all zeros. The bodies take HTTP_OBJECT_CACHE_BYTES at most. */
typedef struct http_object_cache {
    http_object_cache_item items[HTTP_OBJECT_CACHE_ITEMS];
    size_t bytes;
    uint64_t uses;
} http_object_cache;

/** Find the cached body of an answer to the same request, and set etag to its tag. The leader must
 * confirm that the body is still right. The caller owns the result. NULL: none, and etag is "". */
fedserver_blob *http_object_cache_find(http_object_cache *object_cache,
                                       const fedserver_request *request,
                                       char etag[HTTP_OBJECT_CACHE_TAG]);

/** Keep the answer's body, but only if its ETag is strong: a strong ETag stands for exactly these
 * bytes. The least recently used bodies make room. */
void http_object_cache_put(http_object_cache *object_cache, const fedserver_request *request,
                           const fedserver_response *response);

void http_object_cache_free(http_object_cache *object_cache);

#endif

/* A cache of answers' bodies by request, limited in items and bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_object_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MOST = 512, BODY_MOST = HTTP_OBJECT_CACHE_BYTES / 4 };

static bool write_key(const fedserver_request *request, char key[KEY_MOST]) {
    const char *range = request->range != NULL ? request->range : "";
    const char *if_range = request->if_range != NULL ? request->if_range : "";
    const int len =
        snprintf(key, KEY_MOST, "%s?%s\n%s\n%s", request->path, request->query, range, if_range);
    return len > 0 && len < KEY_MOST && request->listener == FEDSERVER_DEVICES &&
           strcmp(request->method, "GET") == 0;
}

static http_object_cache_item *find(http_object_cache *object_cache, const char *key) {
    for (size_t k = 0; k < HTTP_OBJECT_CACHE_ITEMS; k++) {
        if (object_cache->items[k].key != NULL && strcmp(object_cache->items[k].key, key) == 0) {
            return &object_cache->items[k];
        }
    }
    return NULL;
}

fedserver_blob *http_object_cache_find(http_object_cache *object_cache,
                                       const fedserver_request *request,
                                       char etag[HTTP_OBJECT_CACHE_TAG]) {
    char key[KEY_MOST];
    http_object_cache_item *item = write_key(request, key) ? find(object_cache, key) : NULL;
    etag[0] = '\0';
    if (item == NULL) {
        return NULL;
    }
    item->used = ++object_cache->uses;
    memcpy(etag, item->etag, HTTP_OBJECT_CACHE_TAG);
    return fedserver_blob_share(item->body);
}

static void take_off(http_object_cache *object_cache, http_object_cache_item *item) {
    object_cache->bytes -= item->len;
    fedserver_blob_free(item->body);
    free(item->key);
    *item = (http_object_cache_item){.key = NULL};
}

static http_object_cache_item *oldest(http_object_cache *object_cache, bool filled) {
    http_object_cache_item *found = NULL;
    for (size_t k = 0; k < HTTP_OBJECT_CACHE_ITEMS; k++) {
        http_object_cache_item *item = &object_cache->items[k];
        if ((item->key != NULL || !filled) && (found == NULL || item->used < found->used)) {
            found = item;
        }
    }
    return found;
}

void http_object_cache_put(http_object_cache *object_cache, const fedserver_request *request,
                           const fedserver_response *response) {
    char key[KEY_MOST];
    size_t len = 0;
    const bool complete = response->status == 200 || response->status == 206;
    if (response->body == NULL || !complete || response->etag[0] != '"' ||
        !write_key(request, key)) {
        /* bodies with the same weak ETag may differ */
        return;
    }
    (void)fedserver_blob_data(response->body, &len);
    http_object_cache_item *item = find(object_cache, key);
    if (item != NULL) {
        take_off(object_cache, item);
    }
    char *copy = len <= BODY_MOST ? strdup(key) : NULL;
    if (copy == NULL) {
        return; /* too large, or out of memory */
    }
    while (object_cache->bytes + len > HTTP_OBJECT_CACHE_BYTES) {
        take_off(object_cache, oldest(object_cache, true));
    }
    item = oldest(object_cache, false);
    if (item->key != NULL) {
        take_off(object_cache, item);
    }
    *item = (http_object_cache_item){.key = copy,
                                     .body = fedserver_blob_share(response->body),
                                     .len = len,
                                     .used = ++object_cache->uses};
    memcpy(item->etag, response->etag, HTTP_OBJECT_CACHE_TAG);
    object_cache->bytes += len;
}

void http_object_cache_free(http_object_cache *object_cache) {
    for (size_t k = 0; k < HTTP_OBJECT_CACHE_ITEMS; k++) {
        if (object_cache->items[k].key != NULL) {
            take_off(object_cache, &object_cache->items[k]);
        }
    }
}

/* A bounded cache of bodies, by request. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_shelf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MOST = 512, BODY_MOST = HTTP_SHELF_BYTES / 4 };

/* False: this request is not for the shelf. */
static bool write_key(const fedserver_request *request, char key[KEY_MOST]) {
    const char *range = request->range != NULL ? request->range : "";
    const char *if_range = request->if_range != NULL ? request->if_range : "";
    const int len =
        snprintf(key, KEY_MOST, "%s?%s\n%s\n%s", request->path, request->query, range, if_range);
    return len > 0 && len < KEY_MOST && request->listener == FEDSERVER_DEVICES &&
           strcmp(request->method, "GET") == 0;
}

static http_shelf_item *find(http_shelf *shelf, const char *key) {
    for (size_t k = 0; k < HTTP_SHELF_ITEMS; k++) {
        if (shelf->items[k].key != NULL && strcmp(shelf->items[k].key, key) == 0) {
            return &shelf->items[k];
        }
    }
    return NULL;
}

fedserver_blob *http_shelf_find(http_shelf *shelf, const fedserver_request *request,
                                char etag[HTTP_SHELF_TAG]) {
    char key[KEY_MOST];
    http_shelf_item *item = write_key(request, key) ? find(shelf, key) : NULL;
    etag[0] = '\0';
    if (item == NULL) {
        return NULL;
    }
    item->used = ++shelf->uses;
    memcpy(etag, item->etag, HTTP_SHELF_TAG);
    return fedserver_blob_share(item->body);
}

static void take_off(http_shelf *shelf, http_shelf_item *item) {
    shelf->bytes -= item->len;
    fedserver_blob_free(item->body);
    free(item->key);
    *item = (http_shelf_item){.key = NULL};
}

/* A free place (used 0), or that of the body that was used longest ago. */
static http_shelf_item *oldest(http_shelf *shelf, bool filled) {
    http_shelf_item *found = NULL;
    for (size_t k = 0; k < HTTP_SHELF_ITEMS; k++) {
        http_shelf_item *item = &shelf->items[k];
        if ((item->key != NULL || !filled) && (found == NULL || item->used < found->used)) {
            found = item;
        }
    }
    return found;
}

void http_shelf_put(http_shelf *shelf, const fedserver_request *request,
                    const fedserver_response *response) {
    char key[KEY_MOST];
    size_t len = 0;
    const bool whole = response->status == 200 || response->status == 206;
    if (response->body == NULL || !whole || response->etag[0] != '"' || !write_key(request, key)) {
        return; /* a weak tag stands for bodies that differ a little */
    }
    (void)fedserver_blob_data(response->body, &len);
    http_shelf_item *item = find(shelf, key);
    if (item != NULL) {
        take_off(shelf, item);
    }
    char *copy = len <= BODY_MOST ? strdup(key) : NULL;
    if (copy == NULL) {
        return; /* then the next device has it sent again */
    }
    while (shelf->bytes + len > HTTP_SHELF_BYTES) {
        take_off(shelf, oldest(shelf, true));
    }
    item = oldest(shelf, false);
    if (item->key != NULL) {
        take_off(shelf, item);
    }
    *item = (http_shelf_item){.key = copy,
                              .body = fedserver_blob_share(response->body),
                              .len = len,
                              .used = ++shelf->uses};
    memcpy(item->etag, response->etag, HTTP_SHELF_TAG);
    shelf->bytes += len;
}

void http_shelf_free(http_shelf *shelf) {
    for (size_t k = 0; k < HTTP_SHELF_ITEMS; k++) {
        if (shelf->items[k].key != NULL) {
            take_off(shelf, &shelf->items[k]);
        }
    }
}

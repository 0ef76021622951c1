/* Immutable bytes with a reference count, so that many answers can share one model's bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/versions/blob.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fed/file.h"

struct fedserver_blob {
    atomic_size_t holders;
    const uint8_t *data;
    size_t len;
    uint8_t *owned;        /* memory to free; NULL if the bytes belong to another blob or a file */
    fedserver_blob *whole; /* the blob that the bytes belong to; this blob holds a reference */
    bool mapped;
};

fedserver_blob *fedserver_blob_new(fed_writer *bytes) {
    fedserver_blob *blob = bytes->status == FED_OK ? calloc(1, sizeof *blob) : NULL;
    if (blob == NULL) {
        fed_writer_free(bytes);
        return NULL;
    }
    assert(bytes->grows);
    atomic_init(&blob->holders, 1);
    blob->data = blob->owned = bytes->data;
    blob->len = bytes->len;
    fed_writer_growing(bytes);
    return blob;
}

fedserver_blob *fedserver_blob_slice(fedserver_blob *whole, size_t offset, size_t len) {
    assert(offset <= whole->len && len <= whole->len - offset);
    fedserver_blob *blob = calloc(1, sizeof *blob);
    if (blob == NULL) {
        return NULL;
    }
    atomic_init(&blob->holders, 1);
    blob->data = whole->len == 0 ? whole->data : whole->data + offset;
    blob->len = len;
    blob->whole = fedserver_blob_share(whole);
    return blob;
}

fed_status fedserver_blob_map(const char *path, fedserver_blob **blob, fed_error *err) {
    fedserver_blob *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the file %s", path);
    }
    fed_status status = fed_file_map(path, SIZE_MAX, &made->data, &made->len, err);
    if (status != FED_OK) {
        free(made);
        return status;
    }
    atomic_init(&made->holders, 1);
    made->mapped = true;
    *blob = made;
    return FED_OK;
}

fedserver_blob *fedserver_blob_share(fedserver_blob *blob) {
    atomic_fetch_add_explicit(&blob->holders, 1, memory_order_relaxed);
    return blob;
}

void fedserver_blob_free(fedserver_blob *blob) {
    /* The last holder frees the blob only after every other holder's reads are done. */
    if (blob == NULL || atomic_fetch_sub_explicit(&blob->holders, 1, memory_order_acq_rel) != 1) {
        return;
    }
    fedserver_blob_free(blob->whole);
    free(blob->owned);
    if (blob->mapped) {
        fed_file_unmap(blob->data, blob->len);
    }
    free(blob);
}

const uint8_t *fedserver_blob_data(const fedserver_blob *blob, size_t *len) {
    *len = blob->len;
    return blob->data;
}

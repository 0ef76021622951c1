/* Writes and reads the questions of a coordinator and the answers of its helper. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/private_opening.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a device with one helper: no device has fewer. */
static size_t least_bytes(void) {
    return 8 + fed_private_bytes(1);
}

static void write_device(fed_writer *w, const fedserver_sealed *device) {
    fed_write_u64(w, device->lease);
    fed_private_write(w, &device->private_);
}

void fedserver_inquiry_write(fed_writer *w, const fedserver_inquiry *q) {
    fed_private_terms_write(w, &q->terms);
    fed_write_u32(w, q->groups);
    fed_write_u32(w, (uint32_t)q->count);
    for (size_t k = 0; k < q->count; k++) {
        write_device(w, &q->devices[k]);
    }
}

static fed_status read_device(fed_reader *r, fedserver_sealed *device) {
    device->lease = fed_read_u64(r);
    return fed_private_read(r, &device->private_);
}

fed_status fedserver_inquiry_read(fed_reader *r, fedserver_inquiry *q) {
    fedserver_inquiry read = {0};
    FED_TRY(fed_private_terms_read(r, &read.terms));
    read.groups = fed_read_u32(r);
    read.count = fed_read_u32(r);
    FED_TRY(r->status);
    FED_REQUIRE(read.groups >= 1 && read.groups <= FEDSERVER_GROUPS_MOST, FED_EFORMAT);
    FED_REQUIRE(read.count <= FEDSERVER_INQUIRY_DEVICES &&
                    read.count <= fed_reader_left(r) / least_bytes(),
                FED_EFORMAT);
    read.devices = calloc(read.count + 1, sizeof *read.devices);
    FED_REQUIRE(read.devices != NULL, FED_ENOMEM);
    fed_status status = FED_OK;
    for (size_t k = 0; k < read.count && status == FED_OK; k++) {
        status = read_device(r, &read.devices[k]);
    }
    if (status != FED_OK) {
        fedserver_inquiry_free(&read);
        return status;
    }
    *q = read;
    return FED_OK;
}

void fedserver_inquiry_free(fedserver_inquiry *q) {
    free(q->devices);
    q->devices = NULL;
    q->count = 0;
}

/* A device's place in the order of fingerprints. */
typedef struct place {
    uint8_t fingerprint[FED_SHA256_SIZE];
    uint64_t lease;
    size_t at;
} place;

static int by_fingerprint(const void *a, const void *b) {
    const place *x = a, *y = b;
    const int order = memcmp(x->fingerprint, y->fingerprint, sizeof x->fingerprint);
    return order != 0 ? order : (x->lease > y->lease) - (x->lease < y->lease);
}

fed_status fedserver_inquiry_digest(const fedserver_inquiry *q, uint8_t digest[FED_SHA256_SIZE]) {
    uint8_t terms[FED_SHA256_SIZE], bytes[1024];
    place *order = calloc(q->count + 1, sizeof *order);
    FED_REQUIRE(order != NULL, FED_ENOMEM);
    for (size_t k = 0; k < q->count; k++) {
        fed_point_fingerprint(q->devices[k].private_.point, order[k].fingerprint);
        order[k].lease = q->devices[k].lease;
        order[k].at = k;
    }
    qsort(order, q->count, sizeof *order, by_fingerprint);
    fed_sha256_sum sum;
    fed_sha256_begin(&sum);
    fed_private_terms_digest(&q->terms, terms);
    fed_sha256_add(&sum, terms, sizeof terms);
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_write_u32(&w, q->groups);
    fed_sha256_add(&sum, bytes, w.len);
    for (size_t k = 0; k < q->count; k++) {
        fed_writer_fixed(&w, bytes, sizeof bytes);
        write_device(&w, &q->devices[order[k].at]);
        fed_sha256_add(&sum, bytes, w.len);
    }
    fed_sha256_end(&sum, digest);
    free(order);
    return FED_OK;
}

void fedserver_reply_write(fed_writer *w, const fedserver_reply *reply) {
    fed_write_u64(w, reply->generation);
    fed_write_u64(w, reply->task);
    fed_write_u32(w, reply->round);
    fed_write_bytes(w, reply->set, sizeof reply->set);
    fed_write_str(w, reply->word);
    fed_write_str(w, reply->sentence);
    fed_write_u32(w, (uint32_t)reply->unopened_count);
    for (size_t k = 0; k < reply->unopened_count; k++) {
        fed_write_u32(w, reply->unopened[k]);
    }
    fed_write_bytes(w, reply->fields, reply->fields_len);
}

static fed_status read_unopened(fed_reader *r, fedserver_reply *read) {
    const uint32_t count = fed_read_u32(r);
    FED_TRY(r->status);
    FED_REQUIRE(count <= fed_reader_left(r) / 4, FED_EFORMAT);
    FED_REQUIRE((count > 0) == (strcmp(read->word, FEDSERVER_REPLY_SEALS) == 0), FED_EFORMAT);
    read->unopened = calloc((size_t)count + 1, sizeof *read->unopened);
    FED_REQUIRE(read->unopened != NULL, FED_ENOMEM);
    for (uint32_t k = 0; k < count; k++) {
        read->unopened[k] = fed_read_u32(r);
        FED_REQUIRE(k == 0 || read->unopened[k] > read->unopened[k - 1], FED_EFORMAT);
    }
    read->unopened_count = count;
    return r->status;
}

static fed_status read_fields(fed_reader *r, fedserver_reply *read) {
    read->fields_len = fed_reader_left(r);
    FED_REQUIRE((read->word[0] == '\0') == (read->fields_len > 0), FED_EFORMAT);
    if (read->fields_len > 0) {
        read->fields = malloc(read->fields_len);
        FED_REQUIRE(read->fields != NULL, FED_ENOMEM);
        memcpy(read->fields, fed_read_bytes(r, read->fields_len), read->fields_len);
    }
    return FED_OK;
}

fed_status fedserver_reply_read(fed_reader *r, fedserver_reply *reply) {
    fedserver_reply read = {0};
    read.generation = fed_read_u64(r);
    read.task = fed_read_u64(r);
    read.round = fed_read_u32(r);
    const uint8_t *set = fed_read_bytes(r, sizeof read.set);
    fed_read_str(r, read.word, sizeof read.word);
    fed_read_str(r, read.sentence, sizeof read.sentence);
    FED_TRY(r->status);
    memcpy(read.set, set, sizeof read.set);
    fed_status status = read_unopened(r, &read);
    if (status == FED_OK) {
        status = read_fields(r, &read);
    }
    if (status != FED_OK) {
        fedserver_reply_free(&read);
        return status;
    }
    *reply = read;
    return FED_OK;
}

void fedserver_reply_free(fedserver_reply *reply) {
    free(reply->unopened);
    free(reply->fields);
    reply->unopened = NULL;
    reply->fields = NULL;
    reply->unopened_count = reply->fields_len = 0;
}

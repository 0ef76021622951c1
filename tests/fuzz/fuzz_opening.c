/* Fuzz what a coordinator asks a helper, and what the helper replies. What is read can be written,
 * and reads the same again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <string.h>

#include "fedserver/private_opening.h"

static void check_inquiry(const uint8_t *data, size_t size) {
    fedserver_inquiry q, again;
    uint8_t digest[FED_SHA256_SIZE], same[FED_SHA256_SIZE];
    fed_reader r;
    fed_writer w;
    fed_reader_init(&r, data, size);
    if (fedserver_inquiry_read(&r, &q) != FED_OK) {
        return;
    }
    fed_writer_growing(&w);
    fedserver_inquiry_write(&w, &q);
    require(w.status == FED_OK && w.len <= size);
    require(fedserver_inquiry_digest(&q, digest) == FED_OK);
    fed_reader_init(&r, w.data, w.len);
    require(fedserver_inquiry_read(&r, &again) == FED_OK && fed_reader_end(&r) == FED_OK);
    require(again.count == q.count && q.count <= FEDSERVER_INQUIRY_DEVICES);
    require(fedserver_inquiry_digest(&again, same) == FED_OK);
    require(memcmp(digest, same, sizeof digest) == 0);
    fedserver_inquiry_free(&again);
    fedserver_inquiry_free(&q);
    fed_writer_free(&w);
}

static void check_reply(const uint8_t *data, size_t size) {
    fedserver_reply reply, again;
    fed_reader r;
    fed_writer w;
    fed_reader_init(&r, data, size);
    if (fedserver_reply_read(&r, &reply) != FED_OK) {
        return;
    }
    const bool opened = reply.word[0] == '\0';
    const bool unopened = strcmp(reply.word, FEDSERVER_REPLY_SEALS) == 0;
    require(opened == (reply.fields_len > 0) && unopened == (reply.unopened_count > 0));
    for (size_t k = 1; k < reply.unopened_count; k++) {
        require(reply.unopened[k - 1] < reply.unopened[k]);
    }
    fed_writer_growing(&w);
    fedserver_reply_write(&w, &reply);
    require(w.status == FED_OK && w.len <= size);
    fed_reader_init(&r, w.data, w.len);
    require(fedserver_reply_read(&r, &again) == FED_OK);
    require(again.unopened_count == reply.unopened_count);
    require(again.fields_len == reply.fields_len);
    require(memcmp(again.set, reply.set, sizeof reply.set) == 0);
    require(strcmp(again.word, reply.word) == 0 && strcmp(again.sentence, reply.sentence) == 0);
    fedserver_reply_free(&again);
    fedserver_reply_free(&reply);
    fed_writer_free(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    check_inquiry(data, len);
    check_reply(data, len);
    return 0;
}

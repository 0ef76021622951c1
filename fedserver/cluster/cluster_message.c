/* Writes and reads frames, requests and answers as bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/cluster/cluster_message.h"

#include <string.h>

void cluster_frame_init(cluster_frame *frame) {
    *frame = (cluster_frame){.first_len = 0};
    fed_writer_growing(&frame->head);
    fed_writer_growing(&frame->body);
}

void cluster_frame_clear(cluster_frame *frame) {
    fed_writer_free(&frame->body);
    frame->head.len = 0; /* the memory is kept for the next frame */
    frame->first_len = 0;
}

static size_t less(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t fill(fed_writer *part, size_t want, const uint8_t *bytes, size_t len) {
    const size_t n = less(want - part->len, len);
    fed_write_bytes(part, bytes, n);
    return n;
}

fed_status cluster_frame_take(cluster_frame *frame, const uint8_t *bytes, size_t len, size_t *used,
                              bool *complete, fed_error *err) {
    size_t at = less(CLUSTER_FRAME_SIZE - frame->first_len, len);
    *complete = false;
    if (at > 0) {
        memcpy(frame->first + frame->first_len, bytes, at);
        frame->first_len += at;
        *used = at;
        if (frame->first_len < CLUSTER_FRAME_SIZE) {
            return FED_OK;
        }
        fed_reader r;
        fed_reader_init(&r, frame->first, sizeof frame->first);
        frame->kind = (cluster_kind)fed_read_u8(&r);
        frame->head_len = fed_read_u32(&r);
        frame->body_len = fed_read_u32(&r);
        frame->id = fed_read_u64(&r);
        if (frame->kind < CLUSTER_HELLO || frame->kind > CLUSTER_HEARTBEAT ||
            frame->head_len > CLUSTER_HEAD_MOST || frame->body_len > CLUSTER_BODY_MOST) {
            return fed_fail(
                err, FED_EFORMAT,
                "a frame of kind %d with a head of %zu and a body of %zu bytes is not of "
                "this release: run releases that fit on all coordinators (docs/link.md)",
                (int)frame->kind, frame->head_len, frame->body_len);
        }
    }
    at += fill(&frame->head, frame->head_len, bytes + at, len - at);
    at += fill(&frame->body, frame->body_len, bytes + at, len - at);
    *used = at;
    if (frame->head.status != FED_OK || frame->body.status != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a frame of another coordinator");
    }
    *complete = frame->head.len == frame->head_len && frame->body.len == frame->body_len;
    return FED_OK;
}

void cluster_frame_write(fed_writer *w, cluster_kind kind, uint64_t id, const fed_writer *head,
                         size_t body_len) {
    const size_t head_len = head != NULL ? head->len : 0;
    fed_write_u8(w, (uint8_t)kind);
    fed_write_u32(w, (uint32_t)head_len);
    fed_write_u32(w, (uint32_t)body_len);
    fed_write_u64(w, id);
    fed_write_bytes(w, head_len > 0 ? head->data : NULL, head_len);
}

enum {
    HAS_RANGE = 1,
    HAS_IF_RANGE = 2,
    HAS_AGENT = 4,
    HAS_NAME = 8,
    HAS_COMPUTES = 16,
    HAS_FINGERPRINT = 32,
    HAS_CERTIFICATE = 64,
    HAS_ALL = 127
};

static unsigned bit(const void *member, unsigned value) {
    return member != NULL ? value : 0;
}

static void write_if(fed_writer *w, const char *text) {
    if (text != NULL) {
        fed_write_str(w, text);
    }
}

static void write_digest_if(fed_writer *w, const uint8_t *digest) {
    if (digest != NULL) {
        fed_write_bytes(w, digest, FED_SHA256_SIZE);
    }
}

void cluster_request_write(fed_writer *w, const fedserver_request *request, const char *known) {
    fed_write_u8(w, (uint8_t)request->listener);
    fed_write_u8(w,
                 (uint8_t)(bit(request->range, HAS_RANGE) | bit(request->if_range, HAS_IF_RANGE) |
                           bit(request->agent, HAS_AGENT) | bit(request->device_name, HAS_NAME) |
                           bit(request->computes_on, HAS_COMPUTES) |
                           bit(request->fingerprint, HAS_FINGERPRINT) |
                           bit(request->certificate, HAS_CERTIFICATE)));
    fed_write_str(w, request->method);
    fed_write_str(w, request->path);
    fed_write_str(w, request->query);
    fed_write_str(w, known);
    write_if(w, request->range);
    write_if(w, request->if_range);
    write_if(w, request->agent);
    write_if(w, request->device_name);
    write_if(w, request->computes_on);
    write_digest_if(w, request->fingerprint);
    write_digest_if(w, request->certificate);
    fed_write_u64(w, request->authority);
    fed_write_u64(w, request->wire_bytes);
    fed_write_u64(w, (uint64_t)request->waited_ms);
    fed_write_u64(w, request->classes);
}

typedef struct room {
    char *at;
    size_t left;
} room;

static const char *read_text(fed_reader *r, room *to) {
    const char *text = to->at;
    if (to->left == 0) {
        r->status = FED_EFORMAT;
        return "";
    }
    fed_read_str(r, to->at, to->left);
    const size_t len = strlen(text) + 1;
    to->at += len;
    to->left -= len;
    return text;
}

static const char *read_text_if(fed_reader *r, room *to, bool there) {
    return there ? read_text(r, to) : NULL;
}

static const uint8_t *read_digest_if(fed_reader *r, room *to, bool there) {
    const uint8_t *from = there ? fed_read_bytes(r, FED_SHA256_SIZE) : NULL;
    if (from == NULL || to->left < FED_SHA256_SIZE) {
        return NULL;
    }
    uint8_t *digest = (uint8_t *)to->at;
    memcpy(digest, from, FED_SHA256_SIZE);
    to->at += FED_SHA256_SIZE;
    to->left -= FED_SHA256_SIZE;
    return digest;
}

fed_status cluster_request_read(const uint8_t *bytes, size_t len, char *text, size_t cap,
                                fedserver_request *request, char *known) {
    fed_reader r;
    room to = {text, cap};
    fed_reader_init(&r, bytes, len);
    const uint8_t listener = fed_read_u8(&r);
    const unsigned has = fed_read_u8(&r);
    *request =
        (fedserver_request){.listener = (fedserver_listener)listener, .method = read_text(&r, &to)};
    request->path = read_text(&r, &to);
    request->query = read_text(&r, &to);
    fed_read_str(&r, known, sizeof((fedserver_response){0}.etag));
    request->range = read_text_if(&r, &to, (has & HAS_RANGE) != 0);
    request->if_range = read_text_if(&r, &to, (has & HAS_IF_RANGE) != 0);
    request->agent = read_text_if(&r, &to, (has & HAS_AGENT) != 0);
    request->device_name = read_text_if(&r, &to, (has & HAS_NAME) != 0);
    request->computes_on = read_text_if(&r, &to, (has & HAS_COMPUTES) != 0);
    request->fingerprint = read_digest_if(&r, &to, (has & HAS_FINGERPRINT) != 0);
    request->certificate = read_digest_if(&r, &to, (has & HAS_CERTIFICATE) != 0);
    request->authority = fed_read_u64(&r);
    request->wire_bytes = fed_read_u64(&r);
    request->waited_ms = (int64_t)fed_read_u64(&r);
    request->classes = fed_read_u64(&r);
    FED_TRY(fed_reader_end(&r));
    FED_REQUIRE(listener <= FEDSERVER_DEVICES && (has & ~(unsigned)HAS_ALL) == 0, FED_EFORMAT);
    FED_REQUIRE(request->waited_ms >= 0, FED_EFORMAT);
    return FED_OK;
}

enum { ANSWER_HAS_TYPE = 1, ANSWER_SAME = 2, ANSWER_IMMUTABLE = 4, ANSWER_ALL = 7 };

void cluster_answer_write(fed_writer *w, const fedserver_response *response, bool same) {
    fed_write_u16(w, (uint16_t)response->status);
    fed_write_u8(w, (uint8_t)(bit(response->content_type, ANSWER_HAS_TYPE) |
                              (same ? (unsigned)ANSWER_SAME : 0U) |
                              (response->immutable ? (unsigned)ANSWER_IMMUTABLE : 0U)));
    fed_write_u32(w, response->retry_after_s);
    write_if(w, response->content_type);
    fed_write_str(w, response->etag);
    fed_write_str(w, response->content_range);
    fed_write_str(w, response->file_name);
}

fed_status cluster_answer_read(const uint8_t *bytes, size_t len, cluster_answer *answer) {
    fed_reader r;
    fed_reader_init(&r, bytes, len);
    *answer = (cluster_answer){.response = {.status = fed_read_u16(&r)}};
    fedserver_response *response = &answer->response;
    const unsigned has = fed_read_u8(&r);
    response->retry_after_s = fed_read_u32(&r);
    if ((has & ANSWER_HAS_TYPE) != 0) {
        fed_read_str(&r, answer->type, sizeof answer->type);
        response->content_type = answer->type;
    }
    fed_read_str(&r, response->etag, sizeof response->etag);
    fed_read_str(&r, response->content_range, sizeof response->content_range);
    fed_read_str(&r, response->file_name, sizeof response->file_name);
    answer->same = (has & ANSWER_SAME) != 0;
    response->immutable = (has & ANSWER_IMMUTABLE) != 0;
    FED_TRY(fed_reader_end(&r));
    FED_REQUIRE(response->status >= 200 && response->status <= 599, FED_EFORMAT);
    FED_REQUIRE((has & ~(unsigned)ANSWER_ALL) == 0, FED_EFORMAT);
    return FED_OK;
}

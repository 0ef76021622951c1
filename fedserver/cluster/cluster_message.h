/* The messages between coordinators as bytes: frames, requests and answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLUSTER_MESSAGE_H
#define FEDSERVER_CLUSTER_MESSAGE_H

#include "fedserver/fedserver.h"

/*
 * docs/link.md describes the format. A frame is:
 *
 *     u8 kind, u32 head bytes, u32 body bytes, u64 id, head, body
 *
 * The id names a request, and comes back with its answer. So many requests can wait for answers at
 * once, and answers come in any order.
 */
enum {
    CLUSTER_PROTOCOL = 1,
    CLUSTER_FRAME_SIZE = 17,
    CLUSTER_HEAD_MOST = 32 * 1024,
    CLUSTER_BODY_MOST = INT32_MAX
};

typedef enum cluster_kind {
    CLUSTER_HELLO = 1,   /* the first frame of each side; the id is CLUSTER_PROTOCOL */
    CLUSTER_REQUEST = 2, /* from a follower: a request of a device or of the front */
    CLUSTER_ANSWER = 3,
    CLUSTER_CANCEL = 4,   /* from a follower: the answer with this id is no longer wanted */
    CLUSTER_HEARTBEAT = 5 /* this side is alive; a leader's id: bytes of the largest update */
} cluster_kind;

/** A frame that is being received. cluster_frame_init prepares it for its first byte. */
typedef struct cluster_frame {
    cluster_kind kind;
    uint64_t id;
    /* lengths that the first CLUSTER_FRAME_SIZE bytes announce */
    size_t head_len, body_len;
    fed_writer head, body;
    uint8_t first[CLUSTER_FRAME_SIZE];
    size_t first_len;
} cluster_frame;

void cluster_frame_init(cluster_frame *frame);

/**
 * Take bytes of a connection. *used: how many of them belong to this frame. *complete: the frame is
 * complete. The caller then reads the frame, may take over the body's memory, and calls
 * cluster_frame_clear. Memory grows with the bytes that have come, not with those that are
 * announced. Errors: FED_EFORMAT: the kind of the frame is unknown, or the frame is too large, and
 * the connection must be closed; FED_ENOMEM.
 */
fed_status cluster_frame_take(cluster_frame *frame, const uint8_t *bytes, size_t len, size_t *used,
                              bool *complete, fed_error *err) FED_CHECKED;
void cluster_frame_clear(cluster_frame *frame);

/** Write the first bytes of a frame, and its head. */
void cluster_frame_write(fed_writer *w, cluster_kind kind, uint64_t id, const fed_writer *head,
                         size_t body_len);

/**
 * Write a request without its body, and without `bearer`, `cookie` and `loopback`, which only the
 * front reads. known: the ETag of a body that the follower has kept for this request; "": none.
 */
void cluster_request_write(fed_writer *w, const fedserver_request *request, const char *known);

/** Read a request. Strings and fingerprints are copied into text[cap]; cap = len is always enough.
 * known has room for 20 bytes. FED_EFORMAT: these bytes are no request. */
fed_status cluster_request_read(const uint8_t *bytes, size_t len, char *text, size_t cap,
                                fedserver_request *request, char *known) FED_CHECKED;

/** An answer without its body. */
typedef struct cluster_answer {
    fedserver_response response; /* its members hold and set_cookie are not sent */
    char type[64];               /* the text that response.content_type points to */
    bool same; /* the body is the one of the ETag `known` in the request, and is not sent */
} cluster_answer;

void cluster_answer_write(fed_writer *w, const fedserver_response *response, bool same);
/** Read an answer, which points into itself: don't move it. FED_EFORMAT: this is no answer. */
fed_status cluster_answer_read(const uint8_t *bytes, size_t len,
                               cluster_answer *answer) FED_CHECKED;

#endif

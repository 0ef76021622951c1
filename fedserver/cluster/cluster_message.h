/* What travels between coordinators as flat bytes: frames, requests and answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLUSTER_MESSAGE_H
#define FEDSERVER_CLUSTER_MESSAGE_H

#include "fedserver/fedserver.h"

/*
 * docs/link.md is the format. A frame is 17 bytes that say what follows, a head and a body:
 *
 *     u8 kind, u32 head bytes, u32 body bytes, u64 id, head, body
 *
 * The id names a request, and comes back with its answer: many requests are under way at once, and
 * answers come in any order.
 */
enum {
    CLUSTER_PROTOCOL = 1,
    CLUSTER_FRAME_SIZE = 17,
    CLUSTER_HEAD_MOST = 32 * 1024,
    CLUSTER_BODY_MOST = INT32_MAX
};

typedef enum cluster_kind {
    CLUSTER_HELLO = 1,    /* the first frame of each side; the id is CLUSTER_PROTOCOL */
    CLUSTER_REQUEST = 2,  /* a follower's: head and body of a device's request */
    CLUSTER_ANSWER = 3,   /* the leader's */
    CLUSTER_CANCEL = 4,   /* a follower's: nobody waits for this answer any more */
    CLUSTER_HEARTBEAT = 5 /* this side is alive; the id is the leader's largest update */
} cluster_kind;

/** A frame that comes in piece by piece. {0} waits for its first byte. */
typedef struct cluster_frame {
    cluster_kind kind;
    uint64_t id;
    size_t head_len, body_len; /* announced; known once the first CLUSTER_FRAME_SIZE bytes are */
    fed_writer head, body;     /* what has come */
    uint8_t first[CLUSTER_FRAME_SIZE];
    size_t first_len;
} cluster_frame;

void cluster_frame_init(cluster_frame *frame);

/**
 * Take bytes of a connection. *used: how many belong to this frame. *whole: the frame is complete;
 * the caller reads it, may take over the body's memory, and calls cluster_frame_clear. Memory grows
 * with the bytes that have come, not with those that are announced. Errors: FED_EFORMAT: no such
 * frame, or one that is too large; the connection can't go on. FED_ENOMEM.
 */
fed_status cluster_frame_take(cluster_frame *frame, const uint8_t *bytes, size_t len, size_t *used,
                              bool *complete, fed_error *err) FED_CHECKED;
void cluster_frame_clear(cluster_frame *frame);

/** Write the first bytes of a frame, and its head. */
void cluster_frame_write(fed_writer *w, cluster_kind kind, uint64_t id, const fed_writer *head,
                         size_t body_len);

/**
 * A request without its body. What only the front reads does not travel: bearer, cookie and
 * loopback. known: an ETag whose body the follower has; "": none.
 */
void cluster_request_write(fed_writer *w, const fedserver_request *request, const char *known);

/** Strings and fingerprints are copied into text[cap]; len bytes are always enough room. known[20].
 * FED_EFORMAT: these bytes are no request. */
fed_status cluster_request_read(const uint8_t *bytes, size_t len, char *text, size_t cap,
                                fedserver_request *request, char *known) FED_CHECKED;

/** An answer without its body. */
typedef struct cluster_answer {
    fedserver_response response; /* hold and set_cookie do not travel */
    char type[64];               /* what response.content_type points to */
    bool same; /* the body is the one that the request's `known` names, and does not travel */
} cluster_answer;

void cluster_answer_write(fed_writer *w, const fedserver_response *response, bool same);
/** FED_EFORMAT: these bytes are no answer. *answer must stay where it is. */
fed_status cluster_answer_read(const uint8_t *bytes, size_t len,
                               cluster_answer *answer) FED_CHECKED;

#endif

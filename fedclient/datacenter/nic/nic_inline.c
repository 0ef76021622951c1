/* NIC "inline": a link around another link, which rounds the floats that it sends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/nic.h"

#include <stdlib.h>

#include "fedclient/datacenter/buffers.h"
#include "fedcodec/bursts.h"

/* A rounded copy of a message. */
typedef struct copy {
    uint64_t token; /* the original message's token */
    _Alignas(64) float x[];
} copy;

typedef struct inline_link {
    const feddc_link_vtable *link;
    void *self;
    int e;
    feddc_buffers copies;
} inline_link;

/* The inner link's token is a buffer's address. For a message without a copy it is the caller's
 * token shifted left, with the lowest bit set, which no address has. */

static fed_status inline_send(void *self, uint32_t to, const feddc_head *head, const void *data,
                              size_t len, uint64_t token, fed_error *err) {
    inline_link *l = self;
    if ((head->flags & FEDDC_FLOATS) == 0) {
        return l->link->send(l->self, to, head, data, len, token << 1 | 1, err);
    }
    if (len > l->copies.size - sizeof(copy) || len % sizeof(float) != 0) {
        return fed_fail(err, FED_EINVAL,
                        "nic inline can't round a message of %zu bytes: it is no array of float32, "
                        "or longer than the largest message",
                        len);
    }
    feddc_buffer *buffer = feddc_buffers_get(&l->copies);
    if (buffer == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the rounded copy of %zu bytes", len);
    }
    copy *c = (copy *)(void *)buffer->data;
    c->token = token;
    fedcodec_bursts_round(l->e, data, c->x, len / sizeof(float));
    return l->link->send(l->self, to, head, c->x, len, feddc_token_of_buffer(buffer), err);
}

static fed_status inline_wait(void *self, int ms, feddc_event *event, fed_error *err) {
    inline_link *l = self;
    FED_TRY(l->link->wait(l->self, ms, event, err));
    if (event->kind == FEDDC_SENT && (event->token & 1) != 0) {
        event->token >>= 1;
    } else if (event->kind == FEDDC_SENT) {
        feddc_buffer *buffer = feddc_token_buffer(event->token);
        event->token = ((const copy *)(const void *)buffer->data)->token;
        feddc_buffers_put(&l->copies, buffer);
    }
    return FED_OK;
}

static void inline_release(void *self, const feddc_event *event) {
    inline_link *l = self;
    l->link->release(l->self, event);
}

static void inline_wake(void *self) {
    inline_link *l = self;
    l->link->wake(l->self);
}

static void inline_close(void *self, bool orderly) {
    inline_link *l = self;
    l->link->close(l->self, orderly); /* close the inner link first: it still reads the copies */
    feddc_buffers_free(&l->copies);
    free(l);
}

fed_status feddc_nic_wrap(const feddc_link_vtable **link, void **self, int e, size_t most,
                          fed_error *err) {
    static const feddc_link_vtable vtable = {.name = "inline",
                                             .send = inline_send,
                                             .wait = inline_wait,
                                             .release = inline_release,
                                             .wake = inline_wake,
                                             .close = inline_close};
    inline_link *l = malloc(sizeof *l);
    if (l == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for nic inline");
    }
    *l = (inline_link){
        .link = *link, .self = *self, .e = e, .copies = {.size = sizeof(copy) + most}};
    *link = &vtable;
    *self = l;
    return FED_OK;
}

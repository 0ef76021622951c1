/* A link that simulates offload NICs (nic_link.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nic_link.h"

#include <stdlib.h>

#include "fedcodec/bursts.h"

static nic_plan *current;

typedef struct nic {
    nic_plan *plan;
    void *inner;
    bool marks;
    struct rounded *held;
} nic;

typedef struct rounded {
    struct rounded *next, **at; /* list of unreleased messages; at: the pointer to this one */
    feddc_event as_it_came;
    _Alignas(64) float x[];
} rounded;

static fed_status nic_open(const feddc_place *place, void **self, fed_error *err) {
    nic *c = malloc(sizeof *c);
    if (c == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a link with NICs");
    }
    *c = (nic){.plan = current, .marks = place->mark};
    const fed_status status = current->inner->open(place, &c->inner, err);
    if (status != FED_OK) {
        free(c);
        return status;
    }
    *self = c;
    return FED_OK;
}

static fed_status nic_send(void *self, uint32_t to, const feddc_head *head, const void *data,
                           size_t len, uint64_t token, fed_error *err) {
    nic *c = self;
    c->plan->missed += (head->flags & FEDDC_FLOATS) != 0 && !c->marks;
    return c->plan->inner->send(c->inner, to, head, data, len, token, err);
}

static fed_status nic_wait(void *self, int ms, feddc_event *event, fed_error *err) {
    nic *c = self;
    const fed_status status = c->plan->inner->wait(c->inner, ms, event, err);
    if (status != FED_OK || event->kind != FEDDC_ARRIVED) {
        return status;
    }
    rounded *r = aligned_alloc(64, (sizeof *r + event->len + 63) / 64 * 64);
    if (r == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a rounded message");
    }
    r->as_it_came = *event;
    r->next = c->held;
    r->at = &c->held;
    if (r->next != NULL) {
        r->next->at = &r->next;
    }
    c->held = r;
    event->lease = r;
    const bool bare = c->plan->bare > 0 && event->peer == c->plan->bare;
    if ((event->head.flags & FEDDC_FLOATS) != 0 && !bare) {
        c->plan->rounded++;
        fedcodec_bursts_round(c->plan->e, (const float *)(const void *)event->data, r->x,
                              event->len / sizeof(float));
        event->data = (const uint8_t *)r->x;
    }
    return FED_OK;
}

static void release(nic *c, rounded *r) {
    *r->at = r->next;
    if (r->next != NULL) {
        r->next->at = r->at;
    }
    c->plan->inner->release(c->inner, &r->as_it_came);
    free(r);
}

static void nic_release(void *self, const feddc_event *event) {
    release(self, event->lease);
}

static void nic_wake(void *self) {
    nic *c = self;
    c->plan->inner->wake(c->inner);
}

static void nic_close(void *self, bool orderly) {
    nic *c = self;
    while (c->held != NULL) {
        release(c, c->held);
    }
    c->plan->inner->close(c->inner, orderly);
    free(c);
}

const feddc_link_vtable *nic_link(nic_plan *plan) {
    static const feddc_link_vtable vtable = {.name = "tcp",
                                             .open = nic_open,
                                             .send = nic_send,
                                             .wait = nic_wait,
                                             .release = nic_release,
                                             .wake = nic_wake,
                                             .close = nic_close};
    current = plan;
    return &vtable;
}

/* The NIC that works inside the process, around a link that only records its calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/nic.h"

#include "fed_cases.h"
#include "fedcodec/bursts.h"

enum { E = 10, SENDS = 8, VALUES = 37 };

typedef struct noted {
    feddc_head head;
    const void *data;
    size_t len;
    uint64_t token;
} noted;

static struct {
    noted send[SENDS];
    uint32_t sends, told;
    bool refuses, closed, orderly, woken;
    const feddc_event *released;
} inner;

static fed_status note_send(void *self, uint32_t to, const feddc_head *head, const void *data,
                            size_t len, uint64_t token, fed_error *err) {
    assert_ptr_equal(self, &inner);
    assert_int_equal(to, 1);
    if (inner.refuses) {
        return fed_fail(err, FED_EIO, "the line is down");
    }
    assert_true(inner.sends < SENDS);
    inner.send[inner.sends++] = (noted){.head = *head, .data = data, .len = len, .token = token};
    return FED_OK;
}

/* Report the sent messages as free again, in their order, then one received message. */
static fed_status tell(void *self, int ms, feddc_event *event, fed_error *err) {
    (void)self, (void)err;
    assert_int_equal(ms, 5);
    *event = inner.told < inner.sends
                 ? (feddc_event){.kind = FEDDC_SENT, .token = inner.send[inner.told++].token}
                 : (feddc_event){.kind = FEDDC_ARRIVED, .token = 7, .peer = 1};
    return FED_OK;
}

static void note_release(void *self, const feddc_event *event) {
    (void)self;
    inner.released = event;
}

static void note_wake(void *self) {
    (void)self;
    inner.woken = true;
}

static void note_close(void *self, bool orderly) {
    (void)self;
    inner.closed = true;
    inner.orderly = orderly;
}

static const feddc_link_vtable noting = {.name = "noting",
                                         .send = note_send,
                                         .wait = tell,
                                         .release = note_release,
                                         .wake = note_wake,
                                         .close = note_close};

typedef struct nic {
    const feddc_link_vtable *link;
    void *self;
} nic;

static nic open_nic(void) {
    fed_error err = {0};
    memset(&inner, 0, sizeof inner);
    nic c = {.link = &noting, .self = &inner};
    assert_fed_ok_err(feddc_nic_wrap(&c.link, &c.self, E, VALUES * sizeof(float), &err));
    return c;
}

static void send(const nic *c, uint8_t flags, const void *data, size_t len, uint64_t token) {
    const feddc_head head = {.kind = 3, .flags = flags, .part = 2, .bucket = 9, .step = 4};
    fed_error err = {0};
    assert_fed_ok_err(c->link->send(c->self, 1, &head, data, len, token, &err));
}

static feddc_event next(const nic *c) {
    feddc_event event = {0};
    fed_error err = {0};
    assert_fed_ok_err(c->link->wait(c->self, 5, &event, &err));
    return event;
}

static void assert_sent(const nic *c, uint64_t token) {
    const feddc_event event = next(c);
    assert_int_equal(event.kind, FEDDC_SENT);
    assert_int_equal(event.token, token);
}

static void fill(float x[VALUES]) {
    for (int i = 0; i < VALUES; i++) {
        x[i] = (float)(i * i * 1.7e-3 - 0.3);
    }
}

FED_TEST(floats_leave_as_a_rounded_copy) {
    float x[VALUES], before[VALUES], wanted[VALUES];
    nic c = open_nic();
    fill(x);
    memcpy(before, x, sizeof x);
    fedcodec_bursts_round(E, x, wanted, VALUES);
    assert_memory_not_equal(wanted, x, sizeof x);
    send(&c, FEDDC_FLOATS | 1, x, sizeof x, 5);
    assert_memory_equal(inner.send[0].data, wanted, sizeof wanted);
    assert_int_equal(inner.send[0].len, sizeof x);
    assert_int_equal((uintptr_t)inner.send[0].data % 64, 0);
    assert_int_equal(inner.send[0].head.flags, FEDDC_FLOATS | 1);
    assert_int_equal(inner.send[0].head.bucket, 9);
    assert_memory_equal(x, before, sizeof x);
    assert_sent(&c, 5);
    c.link->close(c.self, true);
    assert_true(inner.closed && inner.orderly);
}

FED_TEST(everything_else_leaves_as_it_is) {
    float x[VALUES];
    nic c = open_nic();
    fill(x);
    send(&c, 1, x, sizeof x, 5);
    send(&c, 0, NULL, 0, 6);
    assert_ptr_equal(inner.send[0].data, x);
    assert_int_equal(inner.send[0].head.flags, 1);
    assert_null(inner.send[1].data);
    assert_sent(&c, 5);
    assert_sent(&c, 6);
    const feddc_event event = next(&c);
    assert_int_equal(event.kind, FEDDC_ARRIVED);
    assert_int_equal(event.token, 7);
    c.link->release(c.self, &event);
    assert_ptr_equal(inner.released, &event);
    c.link->wake(c.self);
    assert_true(inner.woken);
    c.link->close(c.self, false);
    assert_true(inner.closed && !inner.orderly);
}

FED_TEST(copies_stay_until_they_are_sent_and_are_used_again) {
    float x[VALUES];
    nic c = open_nic();
    fill(x);
    send(&c, FEDDC_FLOATS, x, sizeof x, 0);
    send(&c, FEDDC_FLOATS, x, 4, UINT32_MAX);
    send(&c, 0, x, sizeof x, 2);
    assert_ptr_not_equal(inner.send[0].data, inner.send[1].data);
    assert_sent(&c, 0);
    send(&c, FEDDC_FLOATS, x, sizeof x, 3);
    assert_ptr_equal(inner.send[3].data, inner.send[0].data);
    assert_sent(&c, UINT32_MAX);
    assert_sent(&c, 2);
    assert_sent(&c, 3);
    c.link->close(c.self, false);
}

FED_TEST(what_cannot_be_rounded_is_refused) {
    static const float x[VALUES + 1] = {1};
    const feddc_head head = {.flags = FEDDC_FLOATS};
    fed_error err = {0};
    nic c = open_nic();
    assert_fed_status(c.link->send(c.self, 1, &head, x, sizeof x, 1, &err), FED_EINVAL);
    assert_fed_says(err, "152 bytes");
    assert_fed_status(c.link->send(c.self, 1, &head, x, 6, 1, &err), FED_EINVAL);
    inner.refuses = true;
    assert_fed_status(c.link->send(c.self, 1, &head, x, 8, 1, &err), FED_EIO);
    assert_int_equal(inner.sends, 0);
    c.link->close(c.self, false);
}

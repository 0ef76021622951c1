/* Fuzz frames through two NICs: a frame must arrive with its floats rounded if it was compressed,
 * else unchanged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdio.h>

#include "fedcodec/bursts.h"
#include "ip_tos.h"
#include "nic_frames.h"

/* An input is a list of steps: a byte that chooses the step, then the step's bytes. */
enum { STEP_SEND, STEP_FROM_WIRE, STEP_ANY, STEP_SYN, STEPS };
enum { E = 10, FLOWS = 3, ENOUGH = 64, STEPS_MOST = 6, ISN = 1000, PEER_ISN = 77, TWIST = 253 };
enum { TOS = 0xfc, MARKED = 0x28, COMPRESSED = 0x2c };

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static size_t take(input *in, size_t bytes) {
    size_t value = 0;
    for (; bytes > 0 && in->left > 0; bytes--, in->left--) {
        value = value << 8 | *in->at++;
    }
    return value;
}

#define MUST(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #cond);                                 \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

typedef struct receiver {
    fednic_nic *far;
    uint8_t plain[8000];
    uint32_t seq;
    size_t got, frames;
} receiver;

static void receive(void *user, const fednic_frame *frame) {
    receiver *r = user;
    nic_parts parts;
    MUST(frame->len <= FEDNIC_FRAME && nic_frame_read(frame, 6, &parts));
    size_t at = parts.seq - r->seq;
    MUST(at == r->got && at + parts.payload_len <= sizeof r->plain);
    memcpy(r->plain + at, frame->data + parts.payload, parts.payload_len);
    r->got += parts.payload_len;
}

static void over_the_wire(void *user, const fednic_frame *frame) {
    receiver *r = user;
    nic_parts parts;
    const bool compressed = (ip_tos(frame->data + 14) & TOS) == COMPRESSED;
    MUST(nic_frame_read(frame, compressed ? TWIST : 6, &parts));
    r->frames++;
    fednic_nic_take(r->far, FEDNIC_WIRE, frame, 0, receive, r);
}

static void ignore(void *user, const fednic_frame *frame) {
    (void)user;
    MUST(frame->len <= FEDNIC_FRAME);
}

static uint8_t memory[FRAME_ROOM];

static void agree(fednic_nic *near, fednic_nic *far, nic_shape shape) {
    static const uint8_t option[] = {253, 4, 0xfe, 0xd1};
    shape.tos = MARKED;
    shape.flags = SEG_SYN;
    shape.seq = ISN;
    fednic_frame syn = nic_frame(&shape, NULL, 0, memory);
    fednic_nic_take(near, FEDNIC_HOST, &syn, 0, ignore, NULL);
    shape.options = option;
    shape.option_words = 1;
    syn = nic_frame(&shape, NULL, 0, memory);
    fednic_nic_take(far, FEDNIC_WIRE, &syn, 0, ignore, NULL);
    shape.backwards = true;
    shape.flags = SEG_SYN | SEG_ACK;
    shape.seq = PEER_ISN;
    shape.ack = ISN + 1;
    syn = nic_frame(&shape, NULL, 0, memory);
    fednic_nic_take(near, FEDNIC_WIRE, &syn, 0, ignore, NULL);
}

static nic_shape take_shape(input *in) {
    size_t bits = take(in, 2);
    nic_shape shape = {.family = bits & 1 ? 6 : 4,
                       .partial = bits >> 1 & 1,
                       .tos = (uint8_t)((bits >> 2 & 1 ? 0 : MARKED) | (bits >> 3 & 3)),
                       .ip_words = bits >> 5 & 3,
                       .may_cut = (bits >> 7 & 7) == 7,
                       .flags = SEG_ACK,
                       .seq = ISN + 1};
    const uint8_t flags[] = {0, SEG_PSH, SEG_FIN, SEG_CWR, SEG_URG, SEG_PSH | SEG_FIN, 0, 0};
    shape.flags |= flags[bits >> 10 & 7];
    if (shape.partial && bits >> 13 & 1) {
        shape.gso_size = (uint16_t)(take(in, 2) % 3000 + 1);
    }
    return shape;
}

static void send(fednic_nic *near, receiver *r, input *in) {
    uint8_t payload[8000] = {0};
    nic_shape shape = take_shape(in);
    shape.seq += (uint32_t)take(in, 2);
    size_t len = take(in, 2) % sizeof payload, own = take(in, 1) + 1;
    own = own < in->left ? own : in->left;
    for (size_t i = 0; i < len && own > 0; i += own) {
        memcpy(payload + i, in->at, own < len - i ? own : len - i);
    }
    in->at += own;
    in->left -= own;
    size_t most = shape.gso_size > 0 ? (size_t)shape.gso_size * 100 : sizeof payload;
    len = len < most ? len : most;
    fednic_frame frame = nic_frame(&shape, payload, len, memory);
    r->seq = shape.seq;
    r->got = r->frames = 0;
    fednic_nic_take(near, FEDNIC_HOST, &frame, 0, over_the_wire, r);
    MUST(r->got == len && (shape.gso_size > 0 || r->frames == 1));
    MUST(shape.gso_size == 0 || r->frames <= len / shape.gso_size + 1);
    if ((shape.tos & TOS) == MARKED && !(shape.family == 4 && shape.may_cut) &&
        (shape.flags & SEG_URG) == 0) {
        size_t lead = (0u - (shape.seq - ISN - 1)) % 4;
        lead = lead < len ? lead : len;
        float floats[sizeof payload / 4];
        size_t n = (len - lead) / 4;
        memcpy(floats, payload + lead, 4 * n);
        fedcodec_bursts_round(E, floats, floats, n);
        memcpy(payload + lead, floats, 4 * n);
    }
    MUST(memcmp(r->plain, payload, len) == 0);
}

static void from_wire(fednic_nic *far, input *in) {
    nic_shape shape = take_shape(in);
    if ((shape.tos & TOS) == MARKED) {
        shape.tos = (uint8_t)(COMPRESSED | (shape.tos & 3));
    }
    shape.protocol = TWIST;
    size_t len = take(in, 1) * 2;
    len = len < in->left ? len : in->left;
    fednic_frame frame = nic_frame(&shape, in->at, len, memory);
    in->at += len;
    in->left -= len;
    fednic_nic_take(far, FEDNIC_WIRE, &frame, 0, ignore, NULL);
}

typedef struct original {
    const fednic_frame *frame;
    size_t count;
    bool same;
} original;

static void compare(void *user, const fednic_frame *frame) {
    original *o = user;
    ignore(NULL, frame);
    o->count++;
    o->same = frame->data == o->frame->data && frame->len == o->frame->len &&
              memcmp(&frame->offload, &o->frame->offload, sizeof frame->offload) == 0;
}

static void any(fednic_nic *nic, input *in) {
    uint8_t side = (uint8_t)take(in, 1);
    fednic_frame frame = {.data = in->at};
    frame.offload.flags = (uint8_t)(side >> 1 & 3);
    frame.offload.gso_type = (side & 8) != 0 ? (uint8_t)take(in, 1) : 0;
    frame.offload.gso_size = (side & 8) != 0 ? (uint16_t)take(in, 2) : 0;
    frame.offload.csum_start = (side & 16) != 0 ? (uint16_t)take(in, 1) : 34;
    frame.offload.csum_offset = 16;
    size_t len = take(in, 1);
    frame.len = len < in->left ? len : in->left;
    uint8_t *copy = malloc(frame.len + 1);
    MUST(copy != NULL);
    memcpy(copy, in->at, frame.len);
    frame.data = copy;
    in->at += frame.len;
    in->left -= frame.len;
    original o = {.frame = &frame};
    fednic_nic_take(nic, (side & 1) != 0 ? FEDNIC_WIRE : FEDNIC_HOST, &frame, 0, compare, &o);
    MUST(o.count > 0);
    uint8_t ethertype = frame.len > 15 ? copy[12] : 0;
    uint8_t tos = ethertype == 8 ? copy[15] : MARKED;
    if ((side & 1) == 0 && ethertype == 8 && (tos & TOS) != MARKED &&
        (frame.len < 48 || (copy[47] & SEG_SYN) == 0) && copy[14] == 0x45) {
        MUST(o.count == 1 && o.same);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static receiver r;
    fednic_nic_options options = {.e = E, .flows = ENOUGH};
    fednic_nic *near = NULL, *strangers = NULL;
    MUST(fednic_nic_new(&options, &near, NULL) == FED_OK);
    MUST(fednic_nic_new(&options, &r.far, NULL) == FED_OK);
    options.flows = FLOWS;
    agree(near, r.far, (nic_shape){.family = 4});
    agree(near, r.far, (nic_shape){.family = 6});
    input in = {data, size};
    for (int k = 0; k < STEPS_MOST && in.left > 0; k++) {
        size_t step = take(&in, 1) % STEPS;
        if (strangers == NULL && (step == STEP_SYN || step == STEP_ANY)) {
            MUST(fednic_nic_new(&options, &strangers, NULL) == FED_OK);
        }
        switch (step) {
        case STEP_SEND:
            send(near, &r, &in);
            break;
        case STEP_FROM_WIRE:
            from_wire(r.far, &in);
            break;
        case STEP_SYN:
            agree(strangers, near, (nic_shape){.family = 4, .port = (uint16_t)take(&in, 1)});
            agree(near, r.far, (nic_shape){.family = 4});
            agree(near, r.far, (nic_shape){.family = 6});
            break;
        default:
            any(strangers, &in);
        }
    }
    fednic_nic_free(near);
    fednic_nic_free(r.far);
    fednic_nic_free(strangers);
    return 0;
}

/* Whole messages: checked against a layout once, then decoded, added, folded or measured. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "codecs/envelope_parts.h"
#include "codecs/envelope_read.h"
#include "codecs/stage.h"
#include "fedcodec/codec_vtable.h"

/* The place of a frame's values in an array of the whole layout. */
typedef struct part {
    const fed_tensor *tensor; /* NULL for a group and the statistics */
    size_t offset;            /* unused for a group, whose tensors lie apart */
    size_t section;
    size_t n;
} part;

/* Return what the next frame holds. *k: 1 + the index of the last tensor of an earlier frame that
 * holds one tensor; 0 at first. */
static part next_part(const fed_layout *layout, const fedcodec_envelope *envelope, size_t *k) {
    const uint64_t frames = fedcodec_section_frames(envelope);
    if (frames == 0 || envelope->next == frames * fedcodec_envelope_sections(envelope)) {
        return (part){.offset = fedcodec_statistics_offset(layout),
                      .n = fedcodec_statistics_size(layout)};
    }
    const size_t section = (size_t)(envelope->next / frames);
    if ((envelope->next + 1) % frames == 0 && envelope->small > 0) {
        return (part){.section = section, .n = fedcodec_group_size(layout, envelope->small)};
    }
    while (layout->tensors[*k].size < envelope->small) {
        ++*k;
    }
    const fed_tensor *tensor = &layout->tensors[(*k)++];
    return (part){
        .tensor = tensor, .offset = tensor->offset, .section = section, .n = tensor->size};
}

static fed_status unpack(fedcodec_message *m, const fed_tensor *tensor, fedcodec_frame *frame,
                         fed_error *err) {
    if (frame->stage == 0) {
        return FED_OK;
    }
    fedcodec_frame plain;
    uint8_t *dst = fed_writer_reserve(&m->plain, frame->plain_len);
    fed_status status = dst != NULL ? fedcodec_frame_unpack(frame, dst, &plain) : m->plain.status;
    if (status != FED_OK) {
        return fed_fail(err, status, "%s: its %zu packed bytes can't be unpacked",
                        fedcodec_frame_label(frame, tensor).text, frame->len);
    }
    fed_writer_advance(&m->plain, frame->plain_len);
    *frame = plain;
    return FED_OK;
}

static fed_status check_head(const fedcodec_frame *frame, const fed_tensor *tensor, size_t n,
                             const fedcodec *codec, fed_error *err) {
    if (frame->n != n) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: the message has %" PRIu64
                        " values, the model %zu: made for another model",
                        fedcodec_frame_label(frame, tensor).text, frame->n, n);
    }
    if (frame->statistics && (frame->codec->id != FEDCODEC_EXACT || frame->stage != 0)) {
        return fed_fail(
            err, FED_EFORMAT,
            "the running statistics: the message encodes them, but they must be plain float32");
    }
    if (frame->statistics) {
        return FED_OK;
    }
    if (codec != NULL && frame->codec != codec->vtable) {
        return fed_fail(err, FED_EFORMAT, "%s: sent as %s, expected %s",
                        fedcodec_frame_label(frame, tensor).text, frame->codec->name,
                        codec->vtable->name);
    }
    if (codec != NULL && frame->stage != 0 && frame->stage != codec->stage) {
        return fed_fail(
            err, FED_EFORMAT, "%s: packed by second stage %s, which the codec's spec does not name",
            fedcodec_frame_label(frame, tensor).text, fedcodec_stage_name(frame->stage));
    }
    return FED_OK;
}

/* Check the next frame. Cheap checks come first: a frame of the wrong size is never unpacked.
 * codecs: of each section; NULL: any codec. */
static fed_status check_next(fedcodec_message *m, fedcodec_envelope *envelope, const part *p,
                             const fedcodec *const codecs[2], fed_error *err) {
    const fed_tensor *tensor = p->tensor;
    const fedcodec *codec = codecs[p->section];
    const size_t n = p->n;
    fedcodec_frame frame;
    FED_TRY(fedcodec_frame_read(envelope, tensor, &frame, err));
    FED_TRY(check_head(&frame, tensor, n, codec, err));
    FED_TRY(unpack(m, tensor, &frame, err));
    float max = 0.0f;
    fed_status status = frame.codec->check(frame.data, frame.len, n, &max);
    if (status != FED_OK) {
        return fed_fail(err, status, "%s: its %zu bytes are not a valid %s message of %zu values",
                        fedcodec_frame_label(&frame, tensor).text, frame.len, frame.codec->name, n);
    }
    if (codec != NULL && frame.codec->fits != NULL &&
        !frame.codec->fits(codec->param, frame.data)) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: made with other parameters of %s than expected: encode it with those "
                        "that the receiver names",
                        fedcodec_frame_label(&frame, tensor).text, frame.codec->name);
    }
    m->max_abs = max > m->max_abs ? max : m->max_abs;
    return FED_OK;
}

static fed_status check_frames(const fedcodec_envelope *envelope, const fed_layout *layout,
                               const fedcodec *codec, uint32_t small, fed_error *err) {
    if (codec != NULL) {
        uint32_t wanted = fedcodec_group_small(layout, small);
        if (envelope->small != wanted) {
            return fed_fail(err, FED_EFORMAT,
                            "the message groups tensors of under %u values, expected under %u",
                            envelope->small, wanted);
        }
    }
    if (envelope->variates != (layout->controls > 0)) {
        return fed_fail(err, FED_EFORMAT, "the message has %scoded control variates, the model %s",
                        envelope->variates ? "" : "no ", envelope->variates ? "none" : "some");
    }
    if (envelope->statistics != (layout->statistics > 0)) {
        return fed_fail(err, FED_EFORMAT, "the message has %srunning statistics, the model %s",
                        envelope->statistics ? "" : "no ", envelope->statistics ? "none" : "some");
    }
    size_t frames = fedcodec_group_frames(layout, envelope->small);
    if (envelope->frames != frames) {
        return fed_fail(err, FED_EFORMAT, "the message has %" PRIu64 " frames, the model takes %zu",
                        envelope->frames, frames);
    }
    return FED_OK;
}

static fed_status check_message(fedcodec_message *m, const fedcodec *codec, uint32_t small,
                                fed_error *err) {
    fedcodec_envelope envelope = m->envelope;
    const fedcodec exact = {.vtable = fedcodec_by_id(FEDCODEC_EXACT)};
    const fedcodec *codecs[2] = {codec, NULL};
    if (codec != NULL) {
        codecs[1] = codec->variates != NULL ? codec->variates : &exact;
    }
    FED_TRY(check_frames(&envelope, m->layout, codec, small, err));
    for (size_t k = 0; envelope.next < envelope.frames;) {
        const part p = next_part(m->layout, &envelope, &k);
        FED_TRY(check_next(m, &envelope, &p, codecs, err));
    }
    return fed_reader_left(&envelope.reader) > 0 ? fedcodec_envelope_end(&envelope, err) : FED_OK;
}

fed_status fedcodec_message_open(const void *src, size_t len, const fed_layout *layout,
                                 const fedcodec *codec, uint32_t small, fedcodec_message *message,
                                 fed_error *err) {
    *message = (fedcodec_message){.layout = layout,
                                  .stretch = codec != NULL ? fedcodec_stretch(codec) : 1};
    fed_writer_growing(&message->plain);
    fed_status status = fedcodec_envelope_open(&message->envelope, src, len, err);
    if (status == FED_OK) {
        status = check_message(message, codec, small, err);
    }
    if (status != FED_OK) {
        fedcodec_message_close(message);
    }
    return status;
}

void fedcodec_message_close(fedcodec_message *message) {
    fed_writer_free(&message->plain);
}

typedef struct frames {
    const fedcodec_message *message;
    fedcodec_envelope envelope;
    size_t used; /* bytes of message->plain used by earlier frames */
} frames;

static frames frames_of(const fedcodec_message *m) {
    return (frames){.message = m, .envelope = m->envelope};
}

static fed_status next_frame(frames *f, fedcodec_frame *frame, fed_error *err) {
    FED_TRY(fedcodec_frame_read(&f->envelope, NULL, frame, err));
    if (frame->stage != 0) {
        frame->stage = 0;
        frame->data = f->message->plain.data + f->used;
        frame->len = frame->plain_len;
        f->used += frame->plain_len;
    }
    return FED_OK;
}

/* take is called once for each frame, with the address of the frame's values in `all`, or in a copy
 * of the group's values. */
typedef struct target {
    void (*take)(const struct target *to, const fedcodec_frame *frame, void *values);
    void *all;      /* values of the whole layout */
    size_t width;   /* bytes of one of these values */
    float w;        /* weight for axpy */
    int64_t weight; /* weight for fold */
} target;

static fed_status take_all(const target *to, const fedcodec_message *m, void *group,
                           fed_error *err) {
    frames f = frames_of(m);
    for (size_t k = 0; f.envelope.next < f.envelope.frames;) {
        const part p = next_part(m->layout, &f.envelope, &k);
        const uint32_t small = m->envelope.small;
        fedcodec_frame frame;
        FED_TRY(next_frame(&f, &frame, err));
        if (frame.group) {
            fedcodec_group_gather(m->layout, p.section, small, to->all, to->width, group);
            to->take(to, &frame, group);
            fedcodec_group_scatter(m->layout, p.section, small, group, to->width, to->all);
        } else {
            to->take(to, &frame, (uint8_t *)to->all + p.offset * to->width);
        }
    }
    return FED_OK;
}

static fed_status take_message(const target *to, const fedcodec_message *m, fed_error *err) {
    void *group = NULL;
    if (m->envelope.small > 0) {
        size_t n = fedcodec_group_size(m->layout, m->envelope.small);
        group = malloc(n * to->width);
        if (group == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for %zu values of small tensors", n);
        }
    }
    fed_status status = take_all(to, m, group, err);
    free(group);
    return status;
}

static void take_decoded(const target *to, const fedcodec_frame *frame, void *values) {
    (void)to;
    frame->codec->decode(frame->data, frame->len, values, (size_t)frame->n);
}

static target to_decode(float *y) {
    return (target){.take = take_decoded, .all = y, .width = sizeof *y};
}

fed_status fedcodec_message_decode(const fedcodec_message *message, float *y, fed_error *err) {
    const target to = to_decode(y);
    return take_message(&to, message, err);
}

static void take_axpy(const target *to, const fedcodec_frame *frame, void *values) {
    frame->codec->axpy(frame->data, frame->len, to->w, values, (size_t)frame->n);
}

static target to_axpy(float w, float *y) {
    return (target){.take = take_axpy, .all = y, .width = sizeof *y, .w = w};
}

fed_status fedcodec_message_axpy(const fedcodec_message *message, float w, float *y,
                                 fed_error *err) {
    const target to = to_axpy(w, y);
    return take_message(&to, message, err);
}

static void take_fold(const target *to, const fedcodec_frame *frame, void *values) {
    frame->codec->fold(frame->data, frame->len, to->weight, values, (size_t)frame->n);
}

fed_status fedcodec_message_fold(const fedcodec_message *message, int64_t weight, int64_t *acc,
                                 fed_error *err) {
    if (weight < 1 || weight >= FEDCODEC_FOLD_WEIGHT) {
        return fed_fail(err, FED_ERANGE, "the message's weight is %lld; it must be 1 to %lld",
                        (long long)weight, (long long)FEDCODEC_FOLD_WEIGHT - 1);
    }
    if (message->max_abs > FEDCODEC_FOLD_LIMIT) {
        return fed_fail(err, FED_ERANGE, "a value of magnitude %g; the sum takes up to %g",
                        (double)message->max_abs, (double)FEDCODEC_FOLD_LIMIT);
    }
    assert(message->layout != NULL); /* set by fedcodec_message_open */
    const target to = {.take = take_fold, .all = acc, .width = sizeof *acc, .weight = weight};
    return take_message(&to, message, err);
}

typedef struct frame_values {
    float *values;
    size_t cap;
} frame_values;

static fed_status make_room(frame_values *room, size_t n, fed_error *err) {
    if (n <= room->cap) {
        return FED_OK;
    }
    free(room->values);
    room->cap = 0;
    room->values = malloc(n * sizeof *room->values);
    if (room->values == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for %zu values of a tensor", n);
    }
    room->cap = n;
    return FED_OK;
}

/* Add up in eight lanes: the order is fixed, and the compiler can vectorise the loop. */
static double sum_squares(const float *x, size_t n) {
    enum { LANES = 8 };
    double lane[LANES] = {0}, sum = 0;
    for (size_t i = 0; i < n / LANES * LANES; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lane[k] += (double)x[i + k] * (double)x[i + k];
        }
    }
    for (size_t i = n / LANES * LANES; i < n; i++) {
        lane[i % LANES] += (double)x[i] * (double)x[i];
    }
    for (size_t k = 0; k < LANES; k++) {
        sum += lane[k];
    }
    return sum;
}

static fed_status add_squares(frames *f, frame_values *room, double *sum, fed_error *err) {
    fedcodec_frame frame;
    FED_TRY(next_frame(f, &frame, err));
    const size_t n = (size_t)frame.n;
    if (frame.variates || frame.statistics) {
        return FED_OK;
    }
    if (frame.codec->squares != NULL) {
        *sum += frame.codec->squares(frame.data, frame.len, n);
        return FED_OK;
    }
    FED_TRY(make_room(room, n, err));
    frame.codec->decode(frame.data, frame.len, room->values, n);
    *sum += sum_squares(room->values, n);
    return FED_OK;
}

fed_status fedcodec_message_norm(const fedcodec_message *message, double *norm, fed_error *err) {
    double sum = 0;
    frame_values room = {0};
    frames f = frames_of(message);
    fed_status status = FED_OK;
    for (uint64_t k = 0; status == FED_OK && k < message->envelope.frames; k++) {
        status = add_squares(&f, &room, &sum, err);
    }
    free(room.values);
    FED_TRY(status);
    assert(f.used == message->plain.len);
    *norm = sqrt(sum) / message->stretch;
    return FED_OK;
}

fed_status fedcodec_envelope_check(const void *src, size_t len, const fed_layout *layout,
                                   const fedcodec *codec, uint32_t small, float *max_abs,
                                   fed_error *err) {
    fedcodec_message m;
    FED_TRY(fedcodec_message_open(src, len, layout, codec, small, &m, err));
    if (max_abs != NULL) {
        *max_abs = m.max_abs;
    }
    fedcodec_message_close(&m);
    return FED_OK;
}

static fed_status take_once(const target *to, const void *src, size_t len, const fed_layout *layout,
                            fed_error *err) {
    fedcodec_message m;
    FED_TRY(fedcodec_message_open(src, len, layout, NULL, 0, &m, err));
    fed_status status = take_message(to, &m, err);
    fedcodec_message_close(&m);
    return status;
}

fed_status fedcodec_envelope_decode(const void *src, size_t len, const fed_layout *layout, float *y,
                                    fed_error *err) {
    const target to = to_decode(y);
    return take_once(&to, src, len, layout, err);
}

fed_status fedcodec_envelope_axpy(const void *src, size_t len, const fed_layout *layout, float w,
                                  float *y, fed_error *err) {
    const target to = to_axpy(w, y);
    return take_once(&to, src, len, layout, err);
}

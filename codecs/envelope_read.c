/* Reading envelopes: frame by frame, and checked as a whole against a model's layout. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codecs/envelope_parts.h"
#include "codecs/registry.h"
#include "codecs/stage.h"
#include "fedcodec/envelope.h"

enum { FRAME_MIN = 3 };

/* Every codec stays under this for all but extreme parameters; past it no stage is used. */
enum { PLAIN_PER_VALUE = 5, PLAIN_MORE = 64 };

/* Frame by frame */

fed_status fedcodec_envelope_open(fedcodec_envelope *envelope, const void *src, size_t len,
                                  fed_error *err) {
    fed_reader r;
    fed_reader_init(&r, src, len);
    const uint8_t *head = fed_read_bytes(&r, FEDCODEC_MAGIC_SIZE);
    if (head == NULL || head[0] != FEDCODEC_MAGIC_0 || head[1] != FEDCODEC_MAGIC_1) {
        return fed_fail(err, FED_EFORMAT, "not an envelope: it does not start with fe dc");
    }
    bool statistics = head[2] == FEDCODEC_VERSION_STATISTICS;
    if (head[2] != FEDCODEC_VERSION && !statistics) {
        return fed_fail(err, FED_EVERSION,
                        "envelope of version %u; this build reads versions %d and %d: update it, "
                        "or encode again",
                        head[2], FEDCODEC_VERSION, FEDCODEC_VERSION_STATISTICS);
    }
    uint64_t small = fed_read_varint(&r);
    uint64_t frames = fed_read_varint(&r);
    if (r.status != FED_OK || small > UINT32_MAX) {
        return fed_fail(err, FED_EFORMAT, "the envelope's head is malformed, or cut off");
    }
    if (frames > fed_reader_left(&r) / FRAME_MIN || frames < (small > 0 ? 1U : 0U) + statistics) {
        return fed_fail(err, FED_EFORMAT, "the envelope ends before all its tensors");
    }
    *envelope = (fedcodec_envelope){
        .reader = r, .statistics = statistics, .small = (uint32_t)small, .frames = frames};
    return FED_OK;
}

static fed_status envelope_end(const fedcodec_envelope *envelope, fed_error *err) {
    if (fed_reader_left(&envelope->reader) > 0) {
        return fed_fail(err, FED_EFORMAT, "%zu bytes follow the envelope's last frame",
                        fed_reader_left(&envelope->reader));
    }
    return fed_fail(err, FED_ENOTFOUND, "the envelope has no frame after number %" PRIu64,
                    envelope->frames);
}

/* What an error calls a frame. */
typedef struct label {
    char text[FED_TENSOR_NAME + 16];
} label;

/* tensor: the frame's, NULL where that is not known, or where it is of several. */
static label label_of(const fedcodec_frame *frame, const fed_tensor *tensor) {
    label l;
    if (frame->group) {
        snprintf(l.text, sizeof l.text, "the group of small tensors");
    } else if (frame->statistics) {
        snprintf(l.text, sizeof l.text, "the running statistics");
    } else if (tensor != NULL) {
        snprintf(l.text, sizeof l.text, "tensor %s", tensor->name);
    } else {
        snprintf(l.text, sizeof l.text, "frame %" PRIu64, frame->number);
    }
    return l;
}

size_t fedcodec_frame_plain_max(uint64_t n) {
    const uint64_t most = (SIZE_MAX - PLAIN_MORE) / PLAIN_PER_VALUE;
    return PLAIN_PER_VALUE * (size_t)(n < most ? n : most) + PLAIN_MORE;
}

/* A packed frame's data begins with its unpacked length, which bounds all that follows. */
static fed_status open_stage(fedcodec_frame *frame, const fed_tensor *tensor, fed_error *err) {
    if (fedcodec_stage_by_id(frame->stage) == NULL) {
        return fed_fail(err, FED_EFORMAT, "%s: packed by stage %u, which this build lacks",
                        label_of(frame, tensor).text, frame->stage);
    }
    fed_reader r;
    fed_reader_init(&r, frame->data, frame->len);
    uint64_t plain_len = fed_read_varint(&r);
    if (r.status != FED_OK || plain_len <= frame->len ||
        plain_len > fedcodec_frame_plain_max(frame->n)) {
        return fed_fail(err, FED_EFORMAT, "%s: packed, and its unpacked length is wrong",
                        label_of(frame, tensor).text);
    }
    frame->plain_len = (size_t)plain_len;
    frame->data += r.pos;
    frame->len -= r.pos;
    return FED_OK;
}

/* The next frame, which there is; tensor as in label_of. */
static fed_status read_frame(fedcodec_envelope *envelope, const fed_tensor *tensor,
                             fedcodec_frame *frame, fed_error *err) {
    fed_reader r = envelope->reader;
    uint64_t number = envelope->next + 1, groups = envelope->frames - envelope->statistics;
    uint8_t id = fed_read_u8(&r);
    fedcodec_frame read = {.number = number,
                           .group = envelope->small > 0 && number == groups,
                           .statistics = number > groups,
                           .codec = fedcodec_by_id(id & FEDCODEC_ID_MASK),
                           .stage = (uint8_t)(id >> FEDCODEC_STAGE_SHIFT)};
    read.n = fed_read_varint(&r);
    uint64_t len = fed_read_varint(&r);
    if (r.status != FED_OK || len > fed_reader_left(&r) || read.n > FEDCODEC_VALUES_MAX) {
        return fed_fail(err, FED_EFORMAT, "%s: its head is malformed, or its data cut off",
                        label_of(&read, tensor).text);
    }
    if (read.codec == NULL) {
        return fed_fail(err, FED_EFORMAT, "%s: unknown codec id %u", label_of(&read, tensor).text,
                        id & FEDCODEC_ID_MASK);
    }
    uint64_t least = read.group || read.statistics ? 1 : envelope->small;
    if (read.n < least) {
        return fed_fail(err, FED_EFORMAT, "%s: %" PRIu64 " values, where all under %u are grouped",
                        label_of(&read, tensor).text, read.n, envelope->small);
    }
    read.len = read.plain_len = (size_t)len;
    read.data = fed_read_bytes(&r, read.len);
    if (read.stage != 0) {
        FED_TRY(open_stage(&read, tensor, err));
    }
    envelope->reader = r;
    envelope->next++;
    *frame = read;
    return FED_OK;
}

fed_status fedcodec_envelope_next(fedcodec_envelope *envelope, fedcodec_frame *frame,
                                  fed_error *err) {
    return envelope->next < envelope->frames ? read_frame(envelope, NULL, frame, err)
                                             : envelope_end(envelope, err);
}

fed_status fedcodec_frame_unpack(const fedcodec_frame *frame, uint8_t *dst, fedcodec_frame *plain) {
    fedcodec_frame result = *frame;
    if (frame->stage != 0) {
        const fedcodec_stage *stage = fedcodec_stage_by_id(frame->stage);
        FED_REQUIRE(stage != NULL, FED_EINVAL);
        FED_TRY(stage->unpack(frame->data, frame->len, dst, frame->plain_len));
        result.stage = 0;
        result.data = dst;
        result.len = frame->plain_len;
    }
    *plain = result;
    return FED_OK;
}

/* Against a layout */

/* A message, and the unpacked bytes of those of its frames that have a stage. All are unpacked
 * once, by the check; so what comes after it cannot fail. */
typedef struct message {
    fedcodec_envelope envelope;
    fed_writer plain;
    size_t used; /* of plain, by the frames taken so far */
} message;

static fed_status unpack(message *m, const fed_tensor *tensor, const fedcodec_frame *frame,
                         fed_error *err) {
    if (frame->stage == 0) {
        return FED_OK;
    }
    fedcodec_frame plain;
    uint8_t *dst = fed_writer_reserve(&m->plain, frame->plain_len);
    fed_status status = dst != NULL ? fedcodec_frame_unpack(frame, dst, &plain) : m->plain.status;
    if (status != FED_OK) {
        return fed_fail(err, status, "%s: its %zu packed bytes can't be unpacked",
                        label_of(frame, tensor).text, frame->len);
    }
    fed_writer_advance(&m->plain, frame->plain_len);
    return FED_OK;
}

/* The frame's data is what was unpacked of it, where it has a stage. */
static void use_unpacked(message *m, fedcodec_frame *frame) {
    if (frame->stage != 0) {
        frame->stage = 0;
        frame->data = m->plain.data + m->used;
        frame->len = frame->plain_len;
        m->used += frame->plain_len;
    }
}

/* Does the frame have n values, and is it from the codec that it should be? codec NULL: any one. */
static fed_status check_head(const fedcodec_frame *frame, const fed_tensor *tensor, size_t n,
                             const fedcodec *codec, fed_error *err) {
    if (frame->n != n) {
        return fed_fail(err, FED_EFORMAT, "%s: the message has %" PRIu64 " values, the model %zu",
                        label_of(frame, tensor).text, frame->n, n);
    }
    if (frame->statistics && (frame->codec->id != FEDCODEC_EXACT || frame->stage != 0)) {
        return fed_fail(err, FED_EFORMAT, "the running statistics: they must be plain float32");
    }
    if (frame->statistics) {
        return FED_OK;
    }
    if (codec != NULL && frame->codec != codec->vtable) {
        return fed_fail(err, FED_EFORMAT, "%s: sent as %s, expected %s",
                        label_of(frame, tensor).text, frame->codec->name, codec->vtable->name);
    }
    if (codec != NULL && frame->stage != 0 && frame->stage != codec->stage) {
        return fed_fail(err, FED_EFORMAT, "%s: packed by %s, which is not its codec's stage",
                        label_of(frame, tensor).text, fedcodec_stage_name(frame->stage));
    }
    return FED_OK;
}

/* Check the next frame, the cheap things first: nothing is unpacked that has the wrong size. */
static fed_status check_next(message *m, const fed_tensor *tensor, size_t n, const fedcodec *codec,
                             float *max_abs, fed_error *err) {
    fedcodec_frame frame;
    FED_TRY(read_frame(&m->envelope, tensor, &frame, err));
    FED_TRY(check_head(&frame, tensor, n, codec, err));
    FED_TRY(unpack(m, tensor, &frame, err));
    use_unpacked(m, &frame);
    float max = 0.0f;
    fed_status status = frame.codec->check(frame.data, frame.len, n, &max);
    if (status != FED_OK) {
        return fed_fail(err, status, "%s: its %zu bytes are not a valid %s message of %zu values",
                        label_of(&frame, tensor).text, frame.len, frame.codec->name, n);
    }
    *max_abs = max > *max_abs ? max : *max_abs;
    return FED_OK;
}

/* Has the message the frames that the layout takes? With a codec: is it grouped as it should be? */
static fed_status check_frames(const fedcodec_envelope *envelope, const fed_layout *layout,
                               const fedcodec *codec, uint32_t small, fed_error *err) {
    if (codec != NULL) {
        uint32_t wanted = fedcodec_group_small(layout, small);
        if (envelope->small != wanted) {
            return fed_fail(err, FED_EFORMAT,
                            "the message groups tensors under %u values, expected %u",
                            envelope->small, wanted);
        }
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

static fed_status check_message(message *m, const fed_layout *layout, const fedcodec *codec,
                                uint32_t small, float *max_abs, fed_error *err) {
    FED_TRY(check_frames(&m->envelope, layout, codec, small, err));
    float most = 0.0f;
    for (size_t k = 0; k < fedcodec_coded_tensors(layout); k++) {
        const fed_tensor *t = &layout->tensors[k];
        if (t->size >= m->envelope.small) {
            FED_TRY(check_next(m, t, t->size, codec, &most, err));
        }
    }
    if (m->envelope.small > 0) {
        size_t n = fedcodec_group_size(layout, m->envelope.small);
        FED_TRY(check_next(m, NULL, n, codec, &most, err));
    }
    if (layout->statistics > 0) {
        FED_TRY(check_next(m, NULL, fedcodec_statistics_size(layout), codec, &most, err));
    }
    if (fed_reader_left(&m->envelope.reader) > 0) {
        return envelope_end(&m->envelope, err);
    }
    if (max_abs != NULL) {
        *max_abs = most;
    }
    return FED_OK;
}

/* Open and check a message, and go back to its first frame. Ends with close_message, always. */
static fed_status open_message(message *m, const void *src, size_t len, const fed_layout *layout,
                               const fedcodec *codec, uint32_t small, float *max_abs,
                               fed_error *err) {
    fed_writer_growing(&m->plain);
    m->used = 0;
    FED_TRY(fedcodec_envelope_open(&m->envelope, src, len, err));
    fedcodec_envelope start = m->envelope;
    FED_TRY(check_message(m, layout, codec, small, max_abs, err));
    m->envelope = start;
    m->used = 0;
    return FED_OK;
}

static void close_message(message *m) {
    fed_writer_free(&m->plain);
}

fed_status fedcodec_envelope_check(const void *src, size_t len, const fed_layout *layout,
                                   const fedcodec *codec, uint32_t small, float *max_abs,
                                   fed_error *err) {
    message m;
    fed_status status = open_message(&m, src, len, layout, codec, small, max_abs, err);
    close_message(&m);
    return status;
}

/* What becomes of a message: each frame's values go to their place in `all`. */
typedef struct target {
    void (*take)(const struct target *to, const fedcodec_frame *frame, void *values);
    void *all;      /* of the whole layout */
    size_t width;   /* bytes of one value there */
    float limit;    /* no value may be larger */
    float w;        /* of axpy */
    int64_t weight; /* of fold */
} target;

static fed_status take_next(const target *to, message *m, void *values, fed_error *err) {
    fedcodec_frame frame;
    FED_TRY(read_frame(&m->envelope, NULL, &frame, err));
    use_unpacked(m, &frame);
    to->take(to, &frame, values);
    return FED_OK;
}

/* Frame after frame of a checked message; the group's values through memory of its own. */
static fed_status take_all(const target *to, message *m, const fed_layout *layout, void *group,
                           fed_error *err) {
    uint32_t small = m->envelope.small;
    for (size_t k = 0; k < fedcodec_coded_tensors(layout); k++) {
        const fed_tensor *t = &layout->tensors[k];
        if (t->size >= small) {
            uint8_t *values = (uint8_t *)to->all + t->offset * to->width;
            FED_TRY(take_next(to, m, values, err));
        }
    }
    if (small > 0) {
        fedcodec_group_gather(layout, small, to->all, to->width, group);
        FED_TRY(take_next(to, m, group, err));
        fedcodec_group_scatter(layout, small, group, to->width, to->all);
    }
    if (layout->statistics > 0) {
        uint8_t *values = (uint8_t *)to->all + fedcodec_statistics_offset(layout) * to->width;
        FED_TRY(take_next(to, m, values, err));
    }
    return FED_OK;
}

/* Check the whole message before the output is touched, then take what is known to be good. */
static fed_status take_message(const target *to, const void *src, size_t len,
                               const fed_layout *layout, fed_error *err) {
    message m;
    void *group = NULL;
    float max = 0.0f;
    fed_status status = open_message(&m, src, len, layout, NULL, 0, &max, err);
    if (status == FED_OK && max > to->limit) {
        status = fed_fail(err, FED_ERANGE, "a value of magnitude %g; the sum takes up to %g",
                          (double)max, (double)to->limit);
    }
    if (status == FED_OK && m.envelope.small > 0) {
        size_t n = fedcodec_group_size(layout, m.envelope.small);
        group = malloc(n * to->width);
        if (group == NULL) {
            status = fed_fail(err, FED_ENOMEM, "no memory for %zu values of small tensors", n);
        }
    }
    if (status == FED_OK) {
        status = take_all(to, &m, layout, group, err);
    }
    free(group);
    close_message(&m);
    return status;
}

static void take_decoded(const target *to, const fedcodec_frame *frame, void *values) {
    (void)to;
    frame->codec->decode(frame->data, frame->len, values, (size_t)frame->n);
}

fed_status fedcodec_envelope_decode(const void *src, size_t len, const fed_layout *layout, float *y,
                                    fed_error *err) {
    const target to = {.take = take_decoded, .all = y, .width = sizeof *y, .limit = INFINITY};
    return take_message(&to, src, len, layout, err);
}

static void take_axpy(const target *to, const fedcodec_frame *frame, void *values) {
    frame->codec->axpy(frame->data, frame->len, to->w, values, (size_t)frame->n);
}

fed_status fedcodec_envelope_axpy(const void *src, size_t len, const fed_layout *layout, float w,
                                  float *y, fed_error *err) {
    const target to = {.take = take_axpy, .all = y, .width = sizeof *y, .limit = INFINITY, .w = w};
    return take_message(&to, src, len, layout, err);
}

static void take_fold(const target *to, const fedcodec_frame *frame, void *values) {
    frame->codec->fold(frame->data, frame->len, to->weight, values, (size_t)frame->n);
}

fed_status fedcodec_envelope_fold(const void *src, size_t len, const fed_layout *layout,
                                  int64_t weight, int64_t *acc, fed_error *err) {
    if (weight < 1 || weight >= FEDCODEC_FOLD_WEIGHT) {
        return fed_fail(err, FED_ERANGE, "a weight of %lld; it must be 1 to %lld",
                        (long long)weight, (long long)FEDCODEC_FOLD_WEIGHT - 1);
    }
    const target to = {.take = take_fold,
                       .all = acc,
                       .width = sizeof *acc,
                       .limit = FEDCODEC_FOLD_LIMIT,
                       .weight = weight};
    return take_message(&to, src, len, layout, err);
}

/* Room for the values of one frame. */
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
    FED_REQUIRE(room->values != NULL,
                fed_fail(err, FED_ENOMEM, "no memory for %zu values of a tensor", n));
    room->cap = n;
    return FED_OK;
}

/* In lanes, so that the loop is vectorised and the order of the additions is fixed all the same. */
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

static fed_status add_squares(message *m, frame_values *room, double *sum, fed_error *err) {
    fedcodec_frame frame;
    FED_TRY(read_frame(&m->envelope, NULL, &frame, err));
    use_unpacked(m, &frame);
    const size_t n = (size_t)frame.n;
    if (frame.statistics) {
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

fed_status fedcodec_envelope_norm(const void *src, size_t len, const fed_layout *layout,
                                  double *norm, fed_error *err) {
    message m;
    float max = 0.0f;
    double sum = 0;
    frame_values room = {0};
    fed_status status = open_message(&m, src, len, layout, NULL, 0, &max, err);
    for (uint64_t k = 0; status == FED_OK && k < m.envelope.frames; k++) {
        status = add_squares(&m, &room, &sum, err);
    }
    free(room.values);
    close_message(&m);
    FED_TRY(status);
    *norm = sqrt(sum);
    return FED_OK;
}

/* Envelopes: the tensors of a model, one frame each, in one message. */
#include "fedcodec/envelope.h"

#include <string.h>

#include "codecs/registry.h"
#include "codecs/stage.h"

enum { MAGIC_0 = 0xfe, MAGIC_1 = 0xdc, VERSION = 1, HEAD = 3, FRAME_MIN = 3 };

/* A frame's first byte: the codec's id, and above it the stage's. */
enum { STAGE_SHIFT = 6, CODEC_ID = (1 << STAGE_SHIFT) - 1 };
#define FEDCODEC(id, folder) _Static_assert((id) <= CODEC_ID, "the id has no place in a frame");
#include "codecs/codecs.def"
#undef FEDCODEC

/* Every codec stays under this for all but extreme parameters; past it no stage is used. */
enum { PLAIN_PER_VALUE = 5, PLAIN_MORE = 64 };

/* What a tensor travels in: tensors under `small` values as they are. */
static fedcodec codec_for(const fedcodec *codec, size_t n, uint32_t small) {
    return n < small ? (fedcodec){.vtable = fedcodec_by_id(FEDCODEC_ID_identity)} : *codec;
}

/* Most bytes of a frame's head: the codec's id, the number of values, the length. */
static size_t frame_head_bound(size_t n, size_t len) {
    return 1 + fed_varint_size(n) + fed_varint_size(len);
}

size_t fedcodec_envelope_bound(const fedcodec *codec, const fed_layout *layout, uint32_t small) {
    size_t bound = HEAD + fed_varint_size(layout->count);
    for (size_t k = 0; k < layout->count; k++) {
        size_t n = layout->tensors[k].size;
        fedcodec own = codec_for(codec, n, small);
        size_t data = fedcodec_bound(&own, n);
        bound += frame_head_bound(n, data) + data;
    }
    return bound;
}

size_t fedcodec_envelope_work_size(const fedcodec *codec, const fed_layout *layout,
                                   uint32_t small) {
    size_t most = 0;
    for (size_t k = 0; k < layout->count; k++) {
        size_t n = layout->tensors[k].size;
        fedcodec own = codec_for(codec, n, small);
        size_t size = fedcodec_work_size(&own, n);
        if (own.stage != 0) { /* what the stage makes, after the encoder is done */
            size = fedcodec_bound(&own, n) > size ? fedcodec_bound(&own, n) : size;
        }
        most = size > most ? size : most;
    }
    return most;
}

/* Everything that fedcodec_encode could find wrong with any tensor, before the first is changed. */
static fed_status can_encode(const fedcodec *codec, const fed_layout *layout, uint32_t small,
                             const float *residual, const float *x, const void *work) {
    FED_REQUIRE(fedcodec_params_valid(codec), FED_EINVAL);
    FED_REQUIRE(codec->stage == 0 || fedcodec_stage_by_id(codec->stage) != NULL, FED_EINVAL);
    FED_REQUIRE(work != NULL || fedcodec_envelope_work_size(codec, layout, small) == 0, FED_EINVAL);
    for (size_t k = 0; k < layout->count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        FED_REQUIRE(t->size <= FEDCODEC_VALUES_MAX, FED_EINVAL);
        fedcodec own = codec_for(codec, t->size, small);
        float max;
        FED_TRY(fedcodec_scan(&own, residual + t->offset, x != NULL ? x + t->offset : NULL, t->size,
                              &max));
    }
    return FED_OK;
}

/* Pack data[*len] with the codec's stage if that makes it shorter. Returns the stage used, or 0. */
static uint8_t apply_stage(const fedcodec *codec, size_t n, uint8_t *packed, uint8_t *data,
                           size_t *len) {
    const fedcodec_stage *stage = fedcodec_stage_by_id(codec->stage);
    size_t head = fed_varint_size(*len);
    if (stage == NULL || *len <= head + 1 || *len > fedcodec_frame_plain_max(n)) {
        return 0;
    }
    size_t made = stage->pack(data, *len, packed, *len - head - 1);
    if (made == 0) {
        return 0;
    }
    fed_writer w;
    fed_writer_fixed(&w, data, *len);
    fed_write_varint(&w, *len);
    fed_write_bytes(&w, packed, made);
    *len = w.len;
    return stage->id;
}

/* One frame. The data's length is known when it is there: it is written behind room for
 * the longest head, and moved up if the head is shorter. */
static fed_status put_frame(const fedcodec *codec, float *residual, const float *x, size_t n,
                            void *work, fed_writer *w) {
    size_t head = frame_head_bound(n, fedcodec_bound(codec, n));
    uint8_t *data = w->data + w->len + head;
    size_t len = 0;
    FED_TRY(fedcodec_encode(codec, residual, x, n, work, data, w->cap - w->len - head, &len));
    uint8_t stage = apply_stage(codec, n, work, data, &len);
    fed_write_u8(w, (uint8_t)(codec->vtable->id | stage << STAGE_SHIFT));
    fed_write_varint(w, n);
    fed_write_varint(w, len);
    memmove(w->data + w->len, data, len);
    fed_writer_advance(w, len);
    return w->status;
}

fed_status fedcodec_envelope_encode(const fedcodec *codec, const fed_layout *layout, uint32_t small,
                                    float *residual, const float *x, void *work, fed_writer *out) {
    FED_TRY(can_encode(codec, layout, small, residual, x, work));
    size_t bound = fedcodec_envelope_bound(codec, layout, small);
    uint8_t *dst = fed_writer_reserve(out, bound);
    FED_REQUIRE(dst != NULL, out->status);
    fed_writer w;
    fed_writer_fixed(&w, dst, bound);
    fed_write_u8(&w, MAGIC_0);
    fed_write_u8(&w, MAGIC_1);
    fed_write_u8(&w, VERSION);
    fed_write_varint(&w, layout->count);
    for (size_t k = 0; k < layout->count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        fedcodec own = codec_for(codec, t->size, small);
        FED_TRY(put_frame(&own, residual + t->offset, x != NULL ? x + t->offset : NULL, t->size,
                          work, &w));
    }
    FED_TRY(w.status);
    fed_writer_advance(out, w.len);
    return out->status;
}

fed_status fedcodec_envelope_open(fedcodec_envelope *envelope, const void *src, size_t len,
                                  fed_error *err) {
    fed_reader r;
    fed_reader_init(&r, src, len);
    const uint8_t *head = fed_read_bytes(&r, HEAD);
    if (head == NULL || head[0] != MAGIC_0 || head[1] != MAGIC_1) {
        return fed_fail(err, FED_EFORMAT, "not an envelope: it does not start with fe dc");
    }
    if (head[2] != VERSION) {
        return fed_fail(err, FED_EVERSION, "envelope of version %u; this build reads version %d",
                        head[2], VERSION);
    }
    uint64_t frames = fed_read_varint(&r);
    if (r.status != FED_OK || frames > fed_reader_left(&r) / FRAME_MIN) {
        return fed_fail(err, FED_EFORMAT, "the envelope ends before all its tensors");
    }
    *envelope = (fedcodec_envelope){.reader = r, .frames = frames};
    return FED_OK;
}

static fed_status envelope_end(const fedcodec_envelope *envelope, fed_error *err) {
    if (fed_reader_left(&envelope->reader) > 0) {
        return fed_fail(err, FED_EFORMAT, "%zu bytes follow the envelope's last tensor",
                        fed_reader_left(&envelope->reader));
    }
    return fed_fail(err, FED_ENOTFOUND, "the envelope has no tensor after number %llu",
                    (unsigned long long)envelope->frames);
}

size_t fedcodec_frame_plain_max(uint64_t n) {
    const uint64_t most = (SIZE_MAX - PLAIN_MORE) / PLAIN_PER_VALUE;
    return PLAIN_PER_VALUE * (size_t)(n < most ? n : most) + PLAIN_MORE;
}

/* A packed frame's data begins with its unpacked length, which bounds all that follows. */
static fed_status open_stage(fedcodec_frame *frame, unsigned long long number, fed_error *err) {
    if (fedcodec_stage_by_id(frame->stage) == NULL) {
        return fed_fail(err, FED_EFORMAT, "tensor %llu: packed by stage %u, which this build lacks",
                        number, frame->stage);
    }
    fed_reader r;
    fed_reader_init(&r, frame->data, frame->len);
    uint64_t plain_len = fed_read_varint(&r);
    if (r.status != FED_OK || plain_len <= frame->len ||
        plain_len > fedcodec_frame_plain_max(frame->n)) {
        return fed_fail(err, FED_EFORMAT, "tensor %llu: packed, and its unpacked length is wrong",
                        number);
    }
    frame->plain_len = (size_t)plain_len;
    frame->data += r.pos;
    frame->len -= r.pos;
    return FED_OK;
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

fed_status fedcodec_envelope_next(fedcodec_envelope *envelope, fedcodec_frame *frame,
                                  fed_error *err) {
    if (envelope->next == envelope->frames) {
        return envelope_end(envelope, err);
    }
    unsigned long long number = envelope->next + 1;
    fed_reader r = envelope->reader;
    uint8_t id = fed_read_u8(&r);
    fedcodec_frame read = {.codec = fedcodec_by_id(id & CODEC_ID),
                           .stage = (uint8_t)(id >> STAGE_SHIFT)};
    read.n = fed_read_varint(&r);
    uint64_t len = fed_read_varint(&r);
    if (r.status != FED_OK || len > fed_reader_left(&r) || read.n > FEDCODEC_VALUES_MAX) {
        return fed_fail(err, FED_EFORMAT, "tensor %llu: its head is malformed, or its data cut off",
                        number);
    }
    if (read.codec == NULL) {
        return fed_fail(err, FED_EFORMAT, "tensor %llu: unknown codec id %u", number,
                        id & CODEC_ID);
    }
    read.len = read.plain_len = (size_t)len;
    read.data = fed_read_bytes(&r, read.len);
    if (read.stage != 0) {
        FED_TRY(open_stage(&read, number, err));
    }
    envelope->reader = r;
    envelope->next++;
    *frame = read;
    return FED_OK;
}

/* A message against the layout: its frames, and the unpacked bytes of those that have a stage. All
 * are unpacked once, by the check; so what comes after it cannot fail. */
typedef struct message {
    fedcodec_envelope envelope;
    fed_writer plain;
    size_t used; /* of plain, by the frames taken so far */
} message;

/* The next frame, unpacked: to the end of m->plain, or already there. */
static fed_status next_frame(message *m, bool unpack, fedcodec_frame *frame, fed_error *err) {
    FED_TRY(fedcodec_envelope_next(&m->envelope, frame, err));
    if (frame->stage == 0) {
        return FED_OK;
    }
    if (unpack) {
        uint8_t *dst = fed_writer_reserve(&m->plain, frame->plain_len);
        fed_status status =
            dst != NULL ? fedcodec_frame_unpack(frame, dst, frame) : m->plain.status;
        if (status != FED_OK) {
            return fed_fail(err, status, "tensor %llu: its %zu packed bytes can't be unpacked",
                            (unsigned long long)m->envelope.next, frame->len);
        }
        fed_writer_advance(&m->plain, frame->plain_len);
    }
    frame->stage = 0;
    frame->data = m->plain.data + m->used;
    frame->len = frame->plain_len;
    m->used += frame->plain_len;
    return FED_OK;
}

/* Is the frame of this tensor's size, and from the codec that it should be? codec NULL: any one. */
static fed_status check_head(const fedcodec_frame *frame, const fed_tensor *tensor,
                             const fedcodec *codec, fed_error *err) {
    if (frame->n != tensor->size) {
        return fed_fail(err, FED_EFORMAT, "tensor %s: the message has %llu values, the model %zu",
                        tensor->name, (unsigned long long)frame->n, tensor->size);
    }
    if (codec != NULL && frame->codec != codec->vtable) {
        return fed_fail(err, FED_EFORMAT, "tensor %s: sent as %s, expected %s", tensor->name,
                        frame->codec->name, codec->vtable->name);
    }
    if (codec != NULL && frame->stage != 0 && frame->stage != codec->stage) {
        return fed_fail(err, FED_EFORMAT, "tensor %s: packed by %s, which is not its codec's stage",
                        tensor->name, fedcodec_stage_name(frame->stage));
    }
    return FED_OK;
}

static fed_status check_frame(const fedcodec_frame *frame, const fed_tensor *tensor, float *max_abs,
                              fed_error *err) {
    fed_status status = frame->codec->check(frame->data, frame->len, tensor->size, max_abs);
    if (status != FED_OK) {
        return fed_fail(err, status,
                        "tensor %s: its %zu bytes are not a valid %s message of %zu values",
                        tensor->name, frame->len, frame->codec->name, tensor->size);
    }
    return FED_OK;
}

/* Check frame after frame, the cheap things first: nothing is unpacked that has the wrong size. */
static fed_status check_message(message *m, const fed_layout *layout, const fedcodec *codec,
                                uint32_t small, float *max_abs, fed_error *err) {
    if (m->envelope.frames != layout->count) {
        return fed_fail(err, FED_EFORMAT, "the message has %llu tensors, the model %zu",
                        (unsigned long long)m->envelope.frames, layout->count);
    }
    float most = 0.0f;
    fedcodec_frame frame;
    for (size_t k = 0; k < layout->count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        fedcodec wanted = {.vtable = NULL};
        if (codec != NULL) {
            wanted = codec_for(codec, t->size, small);
        }
        float max = 0.0f;
        fedcodec_envelope ahead = m->envelope;
        FED_TRY(fedcodec_envelope_next(&ahead, &frame, err));
        FED_TRY(check_head(&frame, t, codec != NULL ? &wanted : NULL, err));
        FED_TRY(next_frame(m, true, &frame, err));
        FED_TRY(check_frame(&frame, t, &max, err));
        most = max > most ? max : most;
    }
    if (fed_reader_left(&m->envelope.reader) > 0) {
        return fedcodec_envelope_next(&m->envelope, &frame, err); /* says what follows */
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

/* The three below check the whole message before they touch the output, and then walk frames that
 * they know to be good. */

fed_status fedcodec_envelope_decode(const void *src, size_t len, const fed_layout *layout, float *y,
                                    fed_error *err) {
    message m;
    fedcodec_frame frame = {.codec = NULL};
    fed_status status = open_message(&m, src, len, layout, NULL, 0, NULL, err);
    for (size_t k = 0; status == FED_OK && k < layout->count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        status = next_frame(&m, false, &frame, err);
        if (status == FED_OK) {
            frame.codec->decode(frame.data, frame.len, y + t->offset, t->size);
        }
    }
    close_message(&m);
    return status;
}

fed_status fedcodec_envelope_axpy(const void *src, size_t len, const fed_layout *layout, float w,
                                  float *y, fed_error *err) {
    message m;
    fedcodec_frame frame = {.codec = NULL};
    fed_status status = open_message(&m, src, len, layout, NULL, 0, NULL, err);
    for (size_t k = 0; status == FED_OK && k < layout->count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        status = next_frame(&m, false, &frame, err);
        if (status == FED_OK) {
            frame.codec->axpy(frame.data, frame.len, w, y + t->offset, t->size);
        }
    }
    close_message(&m);
    return status;
}

fed_status fedcodec_envelope_fold(const void *src, size_t len, const fed_layout *layout,
                                  int64_t weight, int64_t *acc, fed_error *err) {
    if (weight < 1 || weight >= FEDCODEC_FOLD_WEIGHT) {
        return fed_fail(err, FED_ERANGE, "a weight of %lld; it must be 1 to %lld",
                        (long long)weight, (long long)FEDCODEC_FOLD_WEIGHT - 1);
    }
    message m;
    fedcodec_frame frame = {.codec = NULL};
    float max = 0.0f;
    fed_status status = open_message(&m, src, len, layout, NULL, 0, &max, err);
    if (status == FED_OK && max > FEDCODEC_FOLD_LIMIT) {
        status = fed_fail(err, FED_ERANGE, "a value of magnitude %g; the sum takes up to %g",
                          (double)max, (double)FEDCODEC_FOLD_LIMIT);
    }
    for (size_t k = 0; status == FED_OK && k < layout->count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        status = next_frame(&m, false, &frame, err);
        if (status == FED_OK) {
            frame.codec->fold(frame.data, frame.len, weight, acc + t->offset, t->size);
        }
    }
    close_message(&m);
    return status;
}

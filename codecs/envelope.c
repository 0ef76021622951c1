/* Write envelopes, and rewrite an envelope without second stages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedcodec/envelope.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "codecs/envelope_parts.h"
#include "codecs/registry.h"
#include "codecs/stage.h"
#include "codecs/tensor.h"

#define FEDCODEC(id, folder)                                                                       \
    _Static_assert((id) <= FEDCODEC_ID_MASK, "the id has no place in a frame");
#include "codecs/codecs.def"
#undef FEDCODEC

static size_t frame_head_bound(size_t n, size_t len) {
    return 1 + fed_varint_size(n) + fed_varint_size(len);
}

static fedcodec as_they_are(void) {
    return (fedcodec){.vtable = fedcodec_by_id(FEDCODEC_EXACT)};
}

/* Return the codec with its parameter "rows" set, if it has one that is 0. The group of small
 * tensors is coded as a vector: each of its values is a row. */
static fedcodec codec_for(const fedcodec *codec, size_t rows) {
    fedcodec own = *codec;
    const size_t k = codec->vtable->rows_param;
    if (k > 0 && own.param[k - 1] <= 0.0) {
        own.param[k - 1] = (double)rows;
    }
    return own;
}

/* Return the codec for a tensor, as codec_for does. The number of rows is the tensor's first
 * dimension. */
static fedcodec codec_for_tensor(const fedcodec *codec, const fed_tensor *t) {
    return codec_for(codec, t->rank > 0 ? t->dims[0] : 1);
}

/* The codec of a section, with the caller's members. */
static fedcodec codec_of_section(const fedcodec *codec, size_t section) {
    fedcodec own = *codec;
    if (section > 0) {
        own = codec->variates != NULL ? *codec->variates : as_they_are();
        own.pool = codec->pool;
        own.unguarded = codec->unguarded;
    }
    return own;
}

static size_t frame_bound(const fedcodec *codec, size_t n) {
    size_t data = fedcodec_bound(codec, n);
    return frame_head_bound(n, data) + data;
}

/* codec: the section's. The tensors of both sections have the same sizes. */
static size_t section_bound(const fedcodec *codec, const fed_layout *layout, uint32_t small) {
    size_t bound = 0;
    for (size_t k = 0; k < fedcodec_coded_tensors(layout); k++) {
        const fed_tensor *t = &layout->tensors[k];
        const fedcodec own = codec_for_tensor(codec, t);
        bound += t->size < small ? 0 : frame_bound(&own, t->size);
    }
    const size_t group = fedcodec_group_size(layout, small);
    const fedcodec own = codec_for(codec, group);
    return bound + (small > 0 ? frame_bound(&own, group) : 0);
}

size_t fedcodec_envelope_bound(const fedcodec *codec, const fed_layout *layout, uint32_t small) {
    small = fedcodec_group_small(layout, small);
    size_t bound = FEDCODEC_MAGIC_SIZE + fed_varint_size(small) + fed_varint_size(layout->count);
    for (size_t section = 0; section < fedcodec_sections(layout); section++) {
        const fedcodec own = codec_of_section(codec, section);
        bound += section_bound(&own, layout, small);
    }
    if (layout->statistics > 0) {
        const fedcodec exact = as_they_are();
        bound += frame_bound(&exact, fedcodec_statistics_size(layout));
    }
    return bound;
}

/* The second stage reuses the encoder's work memory, so the larger size is enough for both. */
static size_t frame_work_size(const fedcodec *codec, size_t n) {
    size_t work = fedcodec_work_size(codec, n);
    size_t packed = codec->stage != 0 ? fedcodec_bound(codec, n) : 0;
    return work > packed ? work : packed;
}

/* Return the bytes for n floats, rounded up so that memory for any type may follow. */
static size_t float_memory(size_t n) {
    const size_t unit = _Alignof(max_align_t);
    return (n * sizeof(float) + unit - 1) / unit * unit;
}

static size_t group_memory(size_t n) {
    return float_memory(2 * n);
}

static size_t section_work_size(const fedcodec *codec, const fed_layout *layout, uint32_t small) {
    size_t group = fedcodec_group_size(layout, small);
    const fedcodec of_group = codec_for(codec, group);
    size_t most = small > 0 ? group_memory(group) + frame_work_size(&of_group, group) : 0;
    for (size_t k = 0; k < fedcodec_coded_tensors(layout); k++) {
        const fed_tensor *t = &layout->tensors[k];
        const fedcodec own = codec_for_tensor(codec, t);
        size_t size = t->size < small ? 0 : frame_work_size(&own, t->size);
        most = size > most ? size : most;
    }
    return most;
}

size_t fedcodec_envelope_work_size(const fedcodec *codec, const fed_layout *layout,
                                   uint32_t small) {
    size_t most = 0;
    small = fedcodec_group_small(layout, small);
    for (size_t section = 0; section < fedcodec_sections(layout); section++) {
        const fedcodec own = codec_of_section(codec, section);
        const size_t size = section_work_size(&own, layout, small);
        most = size > most ? size : most;
    }
    return float_memory(layout->count) + most;
}

/* The address of a tensor's values in an array, or NULL if the array is NULL. */
#define PART(values, offset) ((values) != NULL ? (values) + (offset) : NULL)

static fed_status can_encode_section(const fedcodec *codec, const fed_layout *layout,
                                     const float *residual, const float *x, size_t section,
                                     float *found) {
    const size_t count = fedcodec_coded_tensors(layout);
    FED_REQUIRE(fedcodec_params_valid(codec), FED_EINVAL);
    FED_REQUIRE(codec->stage == 0 || fedcodec_stage_by_id(codec->stage) != NULL, FED_EINVAL);
    for (size_t k = section * count; k < (section + 1) * count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        FED_REQUIRE(t->size <= FEDCODEC_VALUES_MAX, FED_EINVAL);
        FED_TRY(fedcodec_scan(codec, PART(residual, t->offset), PART(x, t->offset), t->size,
                              &found[k]));
    }
    return FED_OK;
}

/* Make the checks of fedcodec_encode for all tensors before the first residual is changed.
 * found[k] is the codec's scan result for tensor k. */
static fed_status can_encode(const fedcodec *codec, const fed_layout *layout, uint32_t small,
                             const float *residual, const float *x, float *found) {
    FED_REQUIRE(found != NULL || layout->count == 0, FED_EINVAL);
    for (size_t section = 0; section < fedcodec_sections(layout); section++) {
        const fedcodec own = codec_of_section(codec, section);
        FED_TRY(can_encode_section(&own, layout, residual, x, section, found));
    }
    FED_REQUIRE(fedcodec_group_size(layout, small) <= FEDCODEC_VALUES_MAX, FED_EINVAL);
    const fedcodec exact = as_they_are();
    size_t at = fedcodec_statistics_offset(layout), n = fedcodec_statistics_size(layout);
    FED_REQUIRE(n <= FEDCODEC_VALUES_MAX, FED_EINVAL);
    float ignored;
    return fedcodec_scan(&exact, PART(residual, at), PART(x, at), n, &ignored);
}

/* Try to pack data[*len] with the codec's stage. Returns the stage used; 0: data is unchanged. */
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

static void put_frame_head(const fedcodec_vtable *codec, uint8_t stage, uint64_t n, size_t len,
                           fed_writer *w) {
    fed_write_u8(w, (uint8_t)(codec->id | stage << FEDCODEC_STAGE_SHIFT));
    fed_write_varint(w, n);
    fed_write_varint(w, len);
}

/* Write one frame. The data's length is known only after encoding. So the data is encoded behind
 * room for the longest head, then moved next to the real head. */
static fed_status put_frame(const fedcodec *codec, float *residual, const float *x, size_t n,
                            float max, void *work, fed_writer *w) {
    size_t head = frame_head_bound(n, fedcodec_bound(codec, n));
    uint8_t *data = w->data + w->len + head;
    size_t len = 0;
    FED_TRY(fedcodec_encode_scanned(codec, residual, x, n, max, work, data, w->cap - w->len - head,
                                    &len));
    uint8_t stage = apply_stage(codec, n, work, data, &len);
    put_frame_head(codec->vtable, stage, n, len, w);
    memmove(w->data + w->len, data, len);
    fed_writer_advance(w, len);
    return w->status;
}

/* What one section of an envelope is made of. residual and x are of the whole layout. */
typedef struct section {
    fedcodec codec;
    const fed_layout *layout;
    size_t number; /* 0 or 1 */
    uint32_t small;
    float *residual;
    const float *x, *found;
} section;

/* Write the group. Its values are gathered in work memory, before the encoder's work memory. */
static fed_status put_group(const section *s, void *work, fed_writer *w) {
    const fed_layout *layout = s->layout;
    const size_t n = fedcodec_group_size(layout, s->small), count = fedcodec_coded_tensors(layout);
    float max = 0.0f;
    assert(s->found != NULL); /* there are tensors, or there were no group */
    for (size_t k = s->number * count; k < (s->number + 1) * count; k++) {
        max = layout->tensors[k].size < s->small && s->found[k] > max ? s->found[k] : max;
    }
    float *group = s->residual != NULL ? work : NULL;
    float *group_x = s->x != NULL ? (float *)work + n : NULL;
    if (s->residual != NULL) {
        fedcodec_group_gather(layout, s->number, s->small, s->residual, sizeof *group, group);
    }
    if (s->x != NULL) {
        fedcodec_group_gather(layout, s->number, s->small, s->x, sizeof *group_x, group_x);
    }
    const fedcodec own = codec_for(&s->codec, n);
    FED_TRY(put_frame(&own, group, group_x, n, max, (uint8_t *)work + group_memory(n), w));
    if (s->residual != NULL) {
        fedcodec_group_scatter(layout, s->number, s->small, group, sizeof *group, s->residual);
    }
    return FED_OK;
}

static fed_status put_section(const section *s, void *work, fed_writer *w) {
    const size_t count = fedcodec_coded_tensors(s->layout);
    for (size_t k = s->number * count; k < (s->number + 1) * count; k++) {
        const fed_tensor *t = &s->layout->tensors[k];
        assert(s->found != NULL);
        if (t->size >= s->small) {
            const fedcodec own = codec_for_tensor(&s->codec, t);
            FED_TRY(put_frame(&own, PART(s->residual, t->offset), PART(s->x, t->offset), t->size,
                              s->found[k], work, w));
        }
    }
    return s->small > 0 ? put_group(s, work, w) : FED_OK;
}

static fed_status put_statistics(const fed_layout *layout, float *residual, const float *x,
                                 void *work, fed_writer *w) {
    const fedcodec exact = as_they_are();
    size_t at = fedcodec_statistics_offset(layout), n = fedcodec_statistics_size(layout);
    return put_frame(&exact, PART(residual, at), PART(x, at), n, 0.0f, work, w);
}

static void put_head(bool variates, bool statistics, uint32_t small, uint64_t frames,
                     fed_writer *w) {
    fed_write_u8(w, FEDCODEC_MAGIC_0);
    fed_write_u8(w, FEDCODEC_MAGIC_1);
    fed_write_u8(w, (uint8_t)(FEDCODEC_VERSION + (variates ? FEDCODEC_MORE_VARIATES : 0) +
                              (statistics ? FEDCODEC_MORE_STATISTICS : 0)));
    fed_write_varint(w, small);
    fed_write_varint(w, frames);
}

fed_status fedcodec_envelope_encode(const fedcodec *codec, const fed_layout *layout, uint32_t small,
                                    float *residual, const float *x, void *work, fed_writer *out) {
    float *found = work;
    FED_TRY(can_encode(codec, layout, small, residual, x, found));
    work = (uint8_t *)work + float_memory(layout->count);
    size_t bound = fedcodec_envelope_bound(codec, layout, small);
    uint8_t *dst = fed_writer_reserve(out, bound);
    FED_REQUIRE(dst != NULL, out->status);
    fed_writer w;
    fed_writer_fixed(&w, dst, bound);
    small = fedcodec_group_small(layout, small);
    put_head(layout->controls > 0, layout->statistics > 0, small,
             fedcodec_group_frames(layout, small), &w);
    for (size_t k = 0; k < fedcodec_sections(layout); k++) {
        const section s = {.codec = codec_of_section(codec, k),
                           .layout = layout,
                           .number = k,
                           .small = small,
                           .residual = residual,
                           .x = x,
                           .found = found};
        FED_TRY(put_section(&s, work, &w));
    }
    if (layout->statistics > 0) {
        FED_TRY(put_statistics(layout, residual, x, work, &w));
    }
    FED_TRY(w.status);
    fed_writer_advance(out, w.len);
    return out->status;
}

static fed_status put_unpacked(const fedcodec_frame *frame, fed_writer *out, fed_error *err) {
    fedcodec_frame plain;
    put_frame_head(frame->codec, FEDCODEC_STAGE_NONE, frame->n, frame->plain_len, out);
    uint8_t *dst = fed_writer_reserve(out, frame->plain_len);
    FED_REQUIRE(dst != NULL, out->status);
    fed_status status = fedcodec_frame_unpack(frame, dst, &plain);
    if (status != FED_OK) {
        return fed_fail(err, status, "frame %" PRIu64 ": its %zu packed bytes can't be unpacked",
                        frame->number, frame->len);
    }
    if (frame->stage == FEDCODEC_STAGE_NONE && frame->len > 0) {
        memcpy(dst, frame->data, frame->len);
    }
    fed_writer_advance(out, frame->plain_len);
    return FED_OK;
}

fed_status fedcodec_envelope_unpack(const void *src, size_t len, fed_writer *out, fed_error *err) {
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    FED_TRY(fedcodec_envelope_open(&envelope, src, len, err));
    put_head(envelope.variates, envelope.statistics, envelope.small, envelope.frames, out);
    while (envelope.next < envelope.frames) {
        FED_TRY(fedcodec_envelope_next(&envelope, &frame, err));
        FED_TRY(put_unpacked(&frame, out, err));
    }
    return out->status;
}

static size_t data_size(size_t len) {
    return fed_varint_size(len) + len;
}

size_t fedcodec_envelope_plain_len(const void *src, size_t len) {
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    size_t plain = len;
    fed_status status = fedcodec_envelope_open(&envelope, src, len, NULL);
    while (status == FED_OK &&
           (status = fedcodec_envelope_next(&envelope, &frame, NULL)) == FED_OK) {
        if (frame.stage != FEDCODEC_STAGE_NONE) { /* packed data begins with the unpacked length */
            plain += data_size(frame.plain_len) -
                     data_size(fed_varint_size(frame.plain_len) + frame.len);
        }
    }
    return plain;
}

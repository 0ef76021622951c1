/* Reading envelopes frame by frame. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "codecs/envelope_parts.h"
#include "codecs/envelope_read.h"
#include "codecs/stage.h"
#include "codecs/tensor.h"

enum { FRAME_MIN = 3 };

/* Limits on a frame's unpacked bytes, which bound the memory for unpacking. A longer frame gets no
 * second stage. */
enum { PLAIN_PER_VALUE = 5, PLAIN_MORE = 64 };

fed_status fedcodec_envelope_open(fedcodec_envelope *envelope, const void *src, size_t len,
                                  fed_error *err) {
    fed_reader r;
    fed_reader_init(&r, src, len);
    const uint8_t *head = fed_read_bytes(&r, FEDCODEC_MAGIC_SIZE);
    if (head == NULL || head[0] != FEDCODEC_MAGIC_0 || head[1] != FEDCODEC_MAGIC_1) {
        return fed_fail(err, FED_EFORMAT, "not an envelope: it does not start with fe dc");
    }
    if (head[2] < FEDCODEC_VERSION || head[2] > FEDCODEC_VERSION_LAST) {
        return fed_fail(err, FED_EVERSION,
                        "envelope of version %u; this build reads versions %d to %d: update it, or "
                        "encode again",
                        head[2], FEDCODEC_VERSION, FEDCODEC_VERSION_LAST);
    }
    const unsigned more = head[2] - FEDCODEC_VERSION;
    const bool variates = (more & FEDCODEC_MORE_VARIATES) != 0;
    const bool statistics = (more & FEDCODEC_MORE_STATISTICS) != 0;
    uint64_t small = fed_read_varint(&r);
    uint64_t frames = fed_read_varint(&r);
    if (r.status != FED_OK || small > UINT32_MAX) {
        return fed_fail(err, FED_EFORMAT, "the envelope's head is malformed or cut off");
    }
    const uint64_t least = variates ? 2 : small > 0 ? 1 : 0;
    if (frames > fed_reader_left(&r) / FRAME_MIN || frames < least + statistics) {
        return fed_fail(err, FED_EFORMAT, "the envelope ends before all its tensors");
    }
    if (variates && (frames - statistics) % 2 != 0) {
        return fed_fail(err, FED_EFORMAT,
                        "the envelope's control variates have other frames than its tensors");
    }
    *envelope = (fedcodec_envelope){.reader = r,
                                    .variates = variates,
                                    .statistics = statistics,
                                    .small = (uint32_t)small,
                                    .frames = frames};
    return FED_OK;
}

fed_status fedcodec_envelope_end(const fedcodec_envelope *envelope, fed_error *err) {
    if (fed_reader_left(&envelope->reader) > 0) {
        return fed_fail(err, FED_EFORMAT, "%zu bytes follow the envelope's last frame",
                        fed_reader_left(&envelope->reader));
    }
    return fed_fail(err, FED_ENOTFOUND, "the envelope has no frame after number %" PRIu64,
                    envelope->frames);
}

fedcodec_label fedcodec_frame_label(const fedcodec_frame *frame, const fed_tensor *tensor) {
    fedcodec_label l;
    if (frame->group) {
        snprintf(l.text, sizeof l.text, "the group of small %s",
                 frame->variates ? "control variates" : "tensors");
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

static fed_status open_stage(fedcodec_frame *frame, const fed_tensor *tensor, fed_error *err) {
    if (fedcodec_stage_by_id(frame->stage) == NULL) {
        return fed_fail(err, FED_EFORMAT, "%s: packed by second stage %u, which this build lacks",
                        fedcodec_frame_label(frame, tensor).text, frame->stage);
    }
    fed_reader r;
    fed_reader_init(&r, frame->data, frame->len);
    uint64_t plain_len = fed_read_varint(&r);
    if (r.status != FED_OK || plain_len <= frame->len ||
        plain_len > fedcodec_frame_plain_max(frame->n)) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: it is packed, and the unpacked length that it states is wrong",
                        fedcodec_frame_label(frame, tensor).text);
    }
    frame->plain_len = (size_t)plain_len;
    frame->data += r.pos;
    frame->len -= r.pos;
    return FED_OK;
}

fed_status fedcodec_frame_read(fedcodec_envelope *envelope, const fed_tensor *tensor,
                               fedcodec_frame *frame, fed_error *err) {
    fed_reader r = envelope->reader;
    const uint64_t number = envelope->next + 1, section = fedcodec_section_frames(envelope);
    const bool statistics = number > section * fedcodec_envelope_sections(envelope);
    uint8_t id = fed_read_u8(&r);
    fedcodec_frame read = {.number = number,
                           .group = envelope->small > 0 && !statistics && number % section == 0,
                           .variates = number > section && !statistics,
                           .statistics = statistics,
                           .codec = fedcodec_by_id(id & FEDCODEC_ID_MASK),
                           .stage = (uint8_t)(id >> FEDCODEC_STAGE_SHIFT)};
    read.n = fed_read_varint(&r);
    uint64_t len = fed_read_varint(&r);
    if (r.status != FED_OK || len > fed_reader_left(&r) || read.n > FEDCODEC_VALUES_MAX) {
        return fed_fail(err, FED_EFORMAT, "%s: its head is malformed, or its data cut off",
                        fedcodec_frame_label(&read, tensor).text);
    }
    if (read.codec == NULL) {
        return fed_fail(err, FED_EFORMAT, "%s: unknown codec id %u",
                        fedcodec_frame_label(&read, tensor).text, id & FEDCODEC_ID_MASK);
    }
    uint64_t least = read.group || read.statistics ? 1 : envelope->small;
    if (read.n < least) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: its frame has %" PRIu64 " values, but in this envelope it must have "
                        "at least %" PRIu64,
                        fedcodec_frame_label(&read, tensor).text, read.n, least);
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
    return envelope->next < envelope->frames ? fedcodec_frame_read(envelope, NULL, frame, err)
                                             : fedcodec_envelope_end(envelope, err);
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

/* The envelope: all tensors of a model in one message. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_ENVELOPE_H
#define FEDCODEC_ENVELOPE_H

#include <stdbool.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/model.h"
#include "fedcodec/codec.h"

FED_API_BEGIN

/*
 * To compress a buffer of a whole model's size, and to add it to another one elsewhere:
 *
 *     fedcodec codec;
 *     fed_writer out;
 *     fedcodec_parse("sbc:p=0.01", &codec, &err);
 *     void *work = malloc(fedcodec_envelope_work_size(&codec, layout, small));
 *     fed_writer_growing(&out);
 *     fedcodec_envelope_encode(&codec, layout, small, residual, gradient, work, &out);
 *     ...
 *     fedcodec_envelope_axpy(out.data, out.len, layout, 1.0f, model, &err);
 *
 * An envelope is a head, then frames. A frame is one tensor's message with the codec's id, the
 * number of values and the length, so an envelope describes itself (the command fedcodec info).
 *
 *     small        Tensors of fewer values than this would cost more in heads than in values. They
 *                  travel as one tensor, the group: their values one after the other, in the
 *                  layout's order, in one frame after the frames of the large tensors. If small
 *                  is 0, each tensor has a frame of its own.
 *     variates     A layout's control variates have frames as the tensors before them, a group too,
 *                  by the codec's member `variates`.
 *     statistics   A layout's running statistics have one more frame, the last, as float32: no
 *                  codec changes them.
 *     stage        A codec with a second stage packs each frame once more, if that makes the frame
 *                  shorter. Statistics are not packed.
 *
 * The bytes are specified in docs/codec-formats.md#envelope.
 *
 * Memory: encoding allocates only to let out grow, but zstd allocates, too. Frames without a
 * second stage are read in place. Reading allocates in four cases. The unpacked bytes of frames
 * with a second stage, at most fedcodec_frame_plain_max each, are kept from open to close. The
 * group's values, 4 bytes each or 8 to fold, are kept while one call runs. fedcodec_message_norm
 * may keep the values of one frame while it runs. zstd allocates while it unpacks. After FED_ENOMEM
 * all outputs are as they were, but those of fedcodec_envelope_unpack.
 */

/* -- Write -- */

/** Return the most bytes that fedcodec_envelope_encode writes, and the work memory it needs in
 * bytes. */
size_t fedcodec_envelope_bound(const fedcodec *codec, const fed_layout *layout, uint32_t small);
size_t fedcodec_envelope_work_size(const fedcodec *codec, const fed_layout *layout, uint32_t small);

/**
 * Compress a model-sized buffer: fedcodec_encode of each tensor, and of the group as one tensor.
 *
 * residual, x   float32[layout->size]; one of them may be NULL, as for fedcodec_encode
 * out           the envelope is appended to it
 *
 * Errors as fedcodec_encode, and FED_ENOMEM. An error appends nothing. It leaves the residual
 * untouched if the residual was finite and codec->unguarded is false.
 */
fed_status fedcodec_envelope_encode(const fedcodec *codec, const fed_layout *layout, uint32_t small,
                                    float *residual, const float *x, void *work,
                                    fed_writer *out) FED_CHECKED;

/** Append the same envelope without second stages, for readers that lack them. Its values are the
 * same, to the bit. src is not trusted, and its heads decide how much memory the result takes:
 * check fedcodec_envelope_plain_len first. Errors: FED_EFORMAT, FED_EVERSION, FED_ENOMEM. An error
 * may leave a part of the envelope in out. */
fed_status fedcodec_envelope_unpack(const void *src, size_t len, fed_writer *out,
                                    fed_error *err) FED_CHECKED;

/** Return the number of bytes that fedcodec_envelope_unpack appends, found from the heads alone. It
 * is len if no frame has a second stage. */
size_t fedcodec_envelope_plain_len(const void *src, size_t len);

/* -- Read in one call -- */

/** y = the decoded values, to the bit; float32[layout->size]. The whole message is checked first:
 * an error leaves y untouched. */
fed_status fedcodec_envelope_decode(const void *src, size_t len, const fed_layout *layout, float *y,
                                    fed_error *err) FED_CHECKED;

/** y += w * the decoded values. The whole message is checked first: an error leaves y untouched. */
fed_status fedcodec_envelope_axpy(const void *src, size_t len, const fed_layout *layout, float w,
                                  float *y, fed_error *err) FED_CHECKED;

/** Make only the check of fedcodec_message_open. *max_abs: the largest magnitude; may be NULL. */
fed_status fedcodec_envelope_check(const void *src, size_t len, const fed_layout *layout,
                                   const fedcodec *codec, uint32_t small, float *max_abs,
                                   fed_error *err) FED_CHECKED;

/* -- Check a message once, then read it several times -- */

/** A message being read, frame by frame. */
typedef struct fedcodec_envelope {
    fed_reader reader;
    bool variates;   /* the second half of the other frames has control variates */
    bool statistics; /* the last frame has running statistics */
    uint32_t small;  /* the group's tensors have fewer values than this; 0: no group */
    uint64_t frames; /* number of frames in the message */
    uint64_t next;   /* number of frames read so far */
} fedcodec_envelope;

/** A whole message that was checked. Callers read the members and do not write them. */
typedef struct fedcodec_message {
    const fed_layout *layout;
    fedcodec_envelope envelope; /* positioned before the first frame */
    float max_abs;              /* the largest magnitude that the message decodes to */
    double stretch;             /* of the codec with which it was opened, for the norm */
    fed_writer plain;           /* the unpacked bytes of frames with a second stage, in order */
} fedcodec_message;

/**
 * Check a whole message and unpack its second stages, both once.
 *
 * src, layout   must stay as they are until fedcodec_message_close: the message points to both
 * codec, small  what the message must have been made with: the frames that follow from small,
 *               each of this codec, with the codec's second stage or none; control variates by
 *               its member `variates`; statistics as float32.
 *               Parameters of the codec that decide its noise must be those of the message, too.
 *               codec NULL accepts any codec, stage and small
 * *message      the caller's; fedcodec_message_close frees what it holds. After an error it holds
 *               nothing, and closing it does no harm
 *
 * FED_OK says that each frame is a valid message of its tensor's number of values. Errors:
 * FED_EFORMAT, FED_EVERSION, FED_ENOMEM; *err says which tensor, and what is wrong.
 */
fed_status fedcodec_message_open(const void *src, size_t len, const fed_layout *layout,
                                 const fedcodec *codec, uint32_t small, fedcodec_message *message,
                                 fed_error *err) FED_CHECKED;
void fedcodec_message_close(fedcodec_message *message);

/* The calls below check no value again and can be made any number of times. Their only error is
 * FED_ENOMEM unless their comment names another one. An error leaves the output untouched. */

/** y = the decoded values, to the bit; float32[layout->size]. */
fed_status fedcodec_message_decode(const fedcodec_message *message, float *y,
                                   fed_error *err) FED_CHECKED;

/** y += w * the decoded values. */
fed_status fedcodec_message_axpy(const fedcodec_message *message, float w, float *y,
                                 fed_error *err) FED_CHECKED;

/** acc += weight * rint(decoded value * 2^30), int64[layout->size]. FED_ERANGE as fedcodec_fold. */
fed_status fedcodec_message_fold(const fedcodec_message *message, int64_t weight, int64_t *acc,
                                 fed_error *err) FED_CHECKED;

/** *norm = the Euclidean norm of the decoded values, without control variates and running
 * statistics: the same bits on every machine. If the message was opened with a codec that adds
 * noise of a known length, such as eden, it is divided by the factor that honest values would grow
 * by: so it is about the norm before encoding. */
fed_status fedcodec_message_norm(const fedcodec_message *message, double *norm,
                                 fed_error *err) FED_CHECKED;

/* -- Read frame by frame, without a layout -- */

/** One frame as it lies in the message. */
typedef struct fedcodec_frame {
    uint64_t number; /* from 1 */
    bool group;      /* the values are those of all small tensors */
    bool variates;   /* the values are control variates */
    bool statistics; /* the values are the running statistics */
    const fedcodec_vtable *codec;
    uint8_t stage;       /* the id of the second stage that packed the data; 0: none */
    uint64_t n;          /* number of values */
    const uint8_t *data; /* the codec's bytes, or what the second stage made of them */
    size_t len;
    size_t plain_len; /* length of the codec's bytes; len without a second stage */
} fedcodec_frame;

/** Read the head. Errors: FED_EFORMAT, FED_EVERSION. */
fed_status fedcodec_envelope_open(fedcodec_envelope *envelope, const void *src, size_t len,
                                  fed_error *err) FED_CHECKED;

/**
 * Read the next frame. The frame's data is not checked yet. Its n is at most what fedcodec_decode
 * takes; with a second stage its plain_len is at most fedcodec_frame_plain_max(n). Errors:
 * FED_EFORMAT; FED_ENOTFOUND: the last frame was read, and no byte is left.
 */
fed_status fedcodec_envelope_next(fedcodec_envelope *envelope, fedcodec_frame *frame,
                                  fed_error *err) FED_CHECKED;

/** Return the most bytes that a message of n values may have to be packed by a second stage. */
size_t fedcodec_frame_plain_max(uint64_t n);

/**
 * Undo a frame's second stage. *plain becomes the frame of the codec's own bytes. These bytes are
 * written to dst[frame->plain_len]; without a second stage they stay where they are. Errors:
 * FED_EFORMAT, FED_ENOMEM.
 */
fed_status fedcodec_frame_unpack(const fedcodec_frame *frame, uint8_t *dst,
                                 fedcodec_frame *plain) FED_CHECKED;

FED_API_END

#endif

/* The envelope: all tensors of a model in one message. */
#ifndef FEDCODEC_ENVELOPE_H
#define FEDCODEC_ENVELOPE_H

#include "fed/bytes.h"
#include "fed/model.h"
#include "fedcodec/codec.h"

/*
 * A head (magic, version), then per tensor its codec's id, its number of values, its length and its
 * bytes, so a message says by itself what it is (`fedcodec info`). Layout:
 * docs/codec-formats.md#envelope. Tensors of fewer than `small` values travel as float32, exactly.
 * With a second stage each message is packed once more, if that makes it shorter.
 *
 * Memory: messages without a second stage are read where they lie. Those with one must be unpacked
 * first: check, decode, axpy and fold allocate for that, at most fedcodec_frame_plain_max of each
 * tensor, and free it before they return. FED_ENOMEM changes nothing either.
 */

/** Most bytes that fedcodec_envelope_encode can write, and the work memory that it needs. */
size_t fedcodec_envelope_bound(const fedcodec *codec, const fed_layout *layout, uint32_t small);
size_t fedcodec_envelope_work_size(const fedcodec *codec, const fed_layout *layout, uint32_t small);

/**
 * Compress a model-sized buffer: fedcodec_encode tensor by tensor.
 * residual, x   float32[layout->size]; x may be NULL. Appends to out. Errors as fedcodec_encode; on
 * one, residual is untouched and nothing is appended.
 */
fed_status fedcodec_envelope_encode(const fedcodec *codec, const fed_layout *layout, uint32_t small,
                                    float *residual, const float *x, void *work,
                                    fed_writer *out) FED_CHECKED;

/** One tensor of an envelope, as it lies in the message. */
typedef struct fedcodec_frame {
    const fedcodec_vtable *codec;
    uint8_t stage;       /* 0, or the second stage that packed the data */
    uint64_t n;          /* values */
    const uint8_t *data; /* the codec's bytes, or what the stage made of them */
    size_t len;
    size_t plain_len; /* of the codec's bytes; len without a stage */
} fedcodec_frame;

/** A message being read, frame by frame. */
typedef struct fedcodec_envelope {
    fed_reader reader;
    uint64_t frames; /* in all */
    uint64_t next;   /* how many have been taken */
} fedcodec_envelope;

/** Read the head. FED_EFORMAT, FED_EVERSION. */
fed_status fedcodec_envelope_open(fedcodec_envelope *envelope, const void *src, size_t len,
                                  fed_error *err) FED_CHECKED;

/** The next frame. FED_ENOTFOUND after the last one, when every byte was used; FED_EFORMAT. Its
 * data is not checked yet, its n is at most what fedcodec_decode takes, its plain_len at most
 * fedcodec_frame_plain_max(n) if it has a stage. */
fed_status fedcodec_envelope_next(fedcodec_envelope *envelope, fedcodec_frame *frame,
                                  fed_error *err) FED_CHECKED;

/** Most bytes that a message of n values may have for a second stage to be allowed on it. */
size_t fedcodec_frame_plain_max(uint64_t n);

/**
 * Undo a frame's second stage: *plain is the frame of the codec's own bytes. They are in
 * dst[frame->plain_len], or where they were if there is no stage. FED_EFORMAT, FED_ENOMEM.
 */
fed_status fedcodec_frame_unpack(const fedcodec_frame *frame, uint8_t *dst,
                                 fedcodec_frame *plain) FED_CHECKED;

/**
 * Check a whole message against a layout, and against the codec it should have come from: tensor by
 * tensor the right codec (float32 under `small`), the right number of values, a valid message.
 * codec NULL: any codec will do, with any stage; else with its stage or with none. *max_abs (may be
 * NULL) = the largest magnitude in it. *err says which tensor and what is wrong.
 */
fed_status fedcodec_envelope_check(const void *src, size_t len, const fed_layout *layout,
                                   const fedcodec *codec, uint32_t small, float *max_abs,
                                   fed_error *err) FED_CHECKED;

/** y = decoded over the whole layout, to the bit. Checks first: on an error y is untouched. */
fed_status fedcodec_envelope_decode(const void *src, size_t len, const fed_layout *layout, float *y,
                                    fed_error *err) FED_CHECKED;

/** y += w * decoded over the whole layout. Checks first: on an error y is untouched. */
fed_status fedcodec_envelope_axpy(const void *src, size_t len, const fed_layout *layout, float w,
                                  float *y, fed_error *err) FED_CHECKED;

/** acc += weight * rint(decoded * 2^30), int64[layout->size]. Checks first, limits as
 * fedcodec_fold. */
fed_status fedcodec_envelope_fold(const void *src, size_t len, const fed_layout *layout,
                                  int64_t weight, int64_t *acc, fed_error *err) FED_CHECKED;

#endif

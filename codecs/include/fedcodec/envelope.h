/* The envelope: all tensors of a model in one message. */
#ifndef FEDCODEC_ENVELOPE_H
#define FEDCODEC_ENVELOPE_H

#include <stdbool.h>

#include "fed/bytes.h"
#include "fed/model.h"
#include "fedcodec/codec.h"

/*
 * A head, then frames: each tensor's message with its codec's id, its number of values and its
 * length, so an envelope says by itself what it is (`fedcodec info`). Tensors of fewer than `small`
 * values would cost more in heads than in values: they are laid one behind the other, in the
 * layout's order, and travel as one tensor, the group, in the last frame. Small 0: each tensor has
 * a frame of its own. A layout's running statistics lie in one more frame behind all, as float32:
 * no codec changes them. With a second stage each message is packed once more, if that makes it
 * shorter. Bytes: docs/codec-formats.md#envelope.
 *
 * Memory: encoding takes what it is given. Messages without a second stage are read where they lie;
 * those with one must be unpacked first: check, decode, axpy and fold allocate for that, at most
 * fedcodec_frame_plain_max of each frame. Decode, axpy and fold also allocate the group's values,
 * 4 bytes each, 8 to fold. All is freed before they return. FED_ENOMEM changes nothing either.
 */

/** Most bytes that fedcodec_envelope_encode can write, and the work memory that it needs. */
size_t fedcodec_envelope_bound(const fedcodec *codec, const fed_layout *layout, uint32_t small);
size_t fedcodec_envelope_work_size(const fedcodec *codec, const fed_layout *layout, uint32_t small);

/**
 * Compress a model-sized buffer: fedcodec_encode tensor by tensor, the group as one.
 * residual, x   float32[layout->size]; x may be NULL. Appends to out. Errors as fedcodec_encode; on
 * one, residual is untouched, unless it is unguarded, and nothing is appended.
 */
fed_status fedcodec_envelope_encode(const fedcodec *codec, const fed_layout *layout, uint32_t small,
                                    float *residual, const float *x, void *work,
                                    fed_writer *out) FED_CHECKED;

/** One tensor of an envelope, or the group, as it lies in the message. */
typedef struct fedcodec_frame {
    uint64_t number; /* from 1 */
    bool group;      /* the values are those of all small tensors */
    bool statistics; /* the values are the running statistics */
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
    bool statistics; /* the last frame is theirs */
    uint32_t small;  /* the last frame, or that before them, is the group of the tensors under it;
                        0: there is none */
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
 * Check a whole message against a layout, and against the codec and `small` that it should have
 * been made with: just the frames that this takes, of the right codec with its stage or none, with
 * the right numbers of values, each a valid message. codec NULL: any codec, stage and small will
 * do. *max_abs (may be NULL) = the largest magnitude in it. *err says which tensor and what is
 * wrong.
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

/** *norm = the length of the decoded values as a vector, without the running statistics: the same
 * bits on every machine. Checks first. Memory: as decode, and the values of one frame. */
fed_status fedcodec_envelope_norm(const void *src, size_t len, const fed_layout *layout,
                                  double *norm, fed_error *err) FED_CHECKED;

#endif

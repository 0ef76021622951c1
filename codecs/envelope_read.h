/* Internal to the library: read one frame, for callers that check a whole message. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_ENVELOPE_READ_H
#define FEDCODEC_ENVELOPE_READ_H

#include "fedcodec/envelope.h"

/** A frame's name in an error message, such as "tensor dense1.weight". */
typedef struct fedcodec_label {
    char text[FED_TENSOR_NAME + 16];
} fedcodec_label;

/** tensor: the frame's tensor; NULL if it is not known, or if the frame holds several tensors. */
fedcodec_label fedcodec_frame_label(const fedcodec_frame *frame, const fed_tensor *tensor);

/** The number of sections of an envelope, and of the frames of each. */
static inline uint64_t fedcodec_envelope_sections(const fedcodec_envelope *envelope) {
    return envelope->variates ? 2 : 1;
}
static inline uint64_t fedcodec_section_frames(const fedcodec_envelope *envelope) {
    return (envelope->frames - envelope->statistics) / fedcodec_envelope_sections(envelope);
}

/** Read the next frame, which must exist. tensor: the frame's tensor or NULL, as for
 * fedcodec_frame_label; only error messages use it. */
fed_status fedcodec_frame_read(fedcodec_envelope *envelope, const fed_tensor *tensor,
                               fedcodec_frame *frame, fed_error *err) FED_CHECKED;

/** Call this function after the last frame. Returns FED_EFORMAT if bytes are left, else
 * FED_ENOTFOUND. */
fed_status fedcodec_envelope_end(const fedcodec_envelope *envelope, fed_error *err) FED_CHECKED;

#endif

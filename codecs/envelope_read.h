/* Inside the library: reading one frame, for a message that is checked as a whole. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_ENVELOPE_READ_H
#define FEDCODEC_ENVELOPE_READ_H

#include "fedcodec/envelope.h"

/** What an error calls a frame: "tensor dense1.weight". */
typedef struct fedcodec_label {
    char text[FED_TENSOR_NAME + 16];
} fedcodec_label;

/** tensor: the frame's; NULL if it is not known, or if the frame has several. */
fedcodec_label fedcodec_frame_label(const fedcodec_frame *frame, const fed_tensor *tensor);

/** fedcodec_envelope_next, where one more frame is due. tensor as above, for errors. */
fed_status fedcodec_frame_read(fedcodec_envelope *envelope, const fed_tensor *tensor,
                               fedcodec_frame *frame, fed_error *err) FED_CHECKED;

/** After the last frame: FED_EFORMAT where bytes are left, else FED_ENOTFOUND. */
fed_status fedcodec_envelope_end(const fedcodec_envelope *envelope, fed_error *err) FED_CHECKED;

#endif

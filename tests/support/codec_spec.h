/* Specs of all codecs, for tests that walk them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CODEC_SPEC_H
#define FED_CODEC_SPEC_H

#include <string.h>

#include "fedcodec/codec.h"

/** Return the spec of a codec with its presets. A parameter without a preset gets a value. */
static inline const char *codec_spec_of(const fedcodec_vtable *codec) {
    const char *name = fedcodec_name(codec);
    return strcmp(name, "threshold") == 0 ? "threshold:t=0.001" : name;
}

#endif

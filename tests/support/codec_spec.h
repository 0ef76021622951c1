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

/** Return the k-th spec to test: each codec with its presets, then forms of messages that presets
 * don't make. NULL: k is too large. */
static inline const char *codec_spec_at(size_t k) {
    static const char *const forms[] = {"eden:p=0.008", "eden:p=0.008,scale=tensor"};
    size_t codecs = 0;
    while (fedcodec_at(codecs) != NULL) {
        codecs++;
    }
    return k < codecs                                    ? codec_spec_of(fedcodec_at(k))
           : k - codecs < sizeof forms / sizeof forms[0] ? forms[k - codecs]
                                                         : NULL;
}

#endif

/* Choose a codec for a number of bytes: eden, by how many values it sends and in how many bits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/task/auto_codec.h"

#include <stdio.h>
#include <string.h>

#include "fedcodec/codec_vtable.h"
#include "fedcodec/envelope.h"

static const char name[] = "auto";

bool fedserver_codec_is_auto(const char *spec) {
    const size_t len = sizeof name - 1;
    return strncmp(spec, name, len) == 0 && (spec[len] == '\0' || spec[len] == ':');
}

static fed_status read_bytes(const char *spec, double *bytes, fed_error *err) {
    static const fed_param params[] = {{.key = "bytes",
                                        .preset = 0,
                                        .low = 1,
                                        .high = 1e12,
                                        .help = "most bytes of a device's update",
                                        .whole = true},
                                       {.key = NULL}};
    return fed_params_read("codec", name, params, spec + sizeof name - 1, bytes, err);
}

/* Write the k-th spec to try: odd numbers of 1,024 values, then all of them in 1 to 4 bits. Returns
 * false past the last. */
static bool spec_at(unsigned k, char spec[FEDCODEC_SPEC]) {
    enum { BUCKET = 1024, FEW = BUCKET / 2, BITS = 4 };
    if (k < FEW) {
        char share[32];
        fed_param_write((2.0 * k + 1.0) / BUCKET, share, sizeof share);
        snprintf(spec, FEDCODEC_SPEC, "eden:p=%s", share);
    } else {
        snprintf(spec, FEDCODEC_SPEC, "eden:bits=%u", k - FEW + 1);
    }
    return k < FEW + BITS;
}

fed_status fedserver_codec_choose(const fed_layout *layout, uint32_t small,
                                  char spec[FEDCODEC_SPEC], fed_error *err) {
    double most = 0, least = 0, error = 0;
    char each[FEDCODEC_SPEC], best[FEDCODEC_SPEC] = "";
    FED_TRY(read_bytes(spec, &most, err));
    for (unsigned k = 0; spec_at(k, each); k++) {
        fedcodec codec;
        FED_TRY(fedcodec_parse(each, &codec, err));
        const double size = (double)fedcodec_envelope_bound(&codec, layout, small);
        const double stretch = codec.vtable->stretch(codec.param);
        least = k == 0 || size < least ? size : least;
        if (size <= most && (best[0] == '\0' || stretch < error)) {
            error = stretch;
            fedcodec_format(&codec, best);
        }
    }
    if (best[0] == '\0') {
        return fed_fail(
            err, FED_EINVAL,
            "updates of this model take %.0f bytes at least; give codec auto bytes=%.0f "
            "or more",
            least, least);
    }
    memcpy(spec, best, sizeof best);
    return FED_OK;
}

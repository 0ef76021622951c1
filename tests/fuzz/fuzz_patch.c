/* Fuzz patches: the first byte chooses the number of values, the others are the patch. An accepted
 * patch must give finite values, which survive another patch. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <math.h>

#include "fedcodec/patch.h"

enum { MOST = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    if (len == 0) {
        return 0;
    }
    const size_t n = (size_t)data[0] * 2;
    float from[MOST], to[MOST], again[MOST];
    for (size_t i = 0; i < n; i++) {
        from[i] = to[i] = again[i] = (float)i / 64 - 2;
    }
    if (fedcodec_patch_apply(data + 1, len - 1, to, n) != FED_OK) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        require(isfinite(to[i]));
    }
    fed_writer w;
    fed_writer_growing(&w);
    require(fedcodec_patch_write(from, to, n, &w) == FED_OK);
    require(w.len <= fedcodec_patch_bound(n));
    require(fedcodec_patch_apply(w.data, w.len, again, n) == FED_OK);
    require(n == 0 || memcmp(again, to, n * sizeof *to) == 0);
    fed_writer_free(&w);
    return 0;
}

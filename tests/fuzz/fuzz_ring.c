/* Fuzz fields of private updates: what is accepted is within the levels and the reach, and any
 * bytes can be added. An input: bits of a level (from 128 on: with a count), values of the model,
 * devices of the round (a byte each), then the fields. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fedcodec/ring.h"

static void check_fields(const fedcodec_ring *ring, const uint8_t *src, size_t len) {
    fed_error why = {FED_OK, ""};
    uint32_t *sums = calloc(ring->shape.all, sizeof *sums);
    float *change = malloc(ring->shape.n * sizeof *change);
    require(sums != NULL && change != NULL);
    const fed_status status = fedcodec_ring_check(ring, src, len, &why);
    require(status == FED_OK || (status == FED_EFORMAT && why.text[0] != '\0'));
    require(len == ring->shape.bytes || status != FED_OK);
    if (len == ring->shape.bytes) {
        fedcodec_ring_add(ring, src, sums);
        const double norm = fedcodec_ring_sums(ring, sums);
        require(status != FED_OK || norm <= ring->shape.reach * (1 + 1e-12));
        fedcodec_ring_change(ring, sums, 1, change);
        for (size_t i = 0; i < ring->shape.n; i++) {
            require(isfinite(change[i]));
        }
    }
    free(sums);
    free(change);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    enum { HEAD = 3 };
    if (len < HEAD) {
        return 0;
    }
    const fed_privacy told = {.clip = 1, .cohort = 1U + data[2], .counted = data[0] > 127};
    fedcodec_ring ring = {.shape = fed_privacy_shape(&told, 2U + data[0] % 15,
                                                     data[1] % 2 ? 1 : 0.3, 1U + 8U * data[1])};
    fed_privacy_draw(1, 1, ring.draw);
    check_fields(&ring, data + HEAD, len - HEAD);
    return 0;
}

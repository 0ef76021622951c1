/* bfloat16: the upper half of each float32, rounded. Format: docs/codec-formats.md#bfloat16 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/narrow.h"
#include "codecs/prim/rounding.h"
#include "codecs/registry.h"

static const fedcodec_param bfloat16_params[] = {{.key = NULL}};

FEDCODEC_NARROW_FUNCTIONS(fedcodec_to_bfloat16, fedcodec_from_bfloat16, FEDCODEC_BFLOAT16_INFINITY)

const fedcodec_vtable FEDCODEC_VTABLE(bfloat16) = {
    .id = FEDCODEC_ID_bfloat16,
    .name = "bfloat16",
    .about = "the upper half of each float32, rounded",
    .params = bfloat16_params,
    FEDCODEC_NARROW_MEMBERS,
};

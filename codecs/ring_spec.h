/* The codec `ring` as fedcodec_parse knows it: a name and parameters. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_RING_SPEC_H
#define FEDCODEC_RING_SPEC_H

#include "fedcodec/codec_vtable.h"

extern const fedcodec_vtable fedcodec_ring_spec;

#endif

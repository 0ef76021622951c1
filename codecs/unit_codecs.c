/* The table of the codecs as compiled for one vector unit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/registry.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const fedcodec_unit fedcodec_this_unit = {
#ifdef FEDCODEC_UNIT
    .name = TEXT(FEDCODEC_UNIT),
#else
    .name = "plain",
#endif
    .codecs = {
#define FEDCODEC(id, folder) &FEDCODEC_VTABLE(folder),
#include FEDCODEC_LIST
#undef FEDCODEC
    }};

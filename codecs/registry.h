/* Inside the library: the codecs by folder name, from codecs.def. */
#ifndef FEDCODEC_REGISTRY_H
#define FEDCODEC_REGISTRY_H

#include "fedcodec/codec.h"

/* A codec's permanent id: FEDCODEC_ID_sbc. */
enum {
#define FEDCODEC(id, folder) FEDCODEC_ID_##folder = (id),
#include "codecs/codecs.def"
#undef FEDCODEC
};

#define FEDCODEC(id, folder) extern const fedcodec_vtable fedcodec_##folder;
#include "codecs/codecs.def"
#undef FEDCODEC

/** Most values of a tensor: on a 32-bit machine fewer, so that no size computed from them, such as
 * of work memory, passes a size_t. */
#define FEDCODEC_VALUES_MAX ((size_t)(SIZE_MAX / 32 < UINT32_MAX ? SIZE_MAX / 32 : UINT32_MAX))

/** Are all parameters within their ranges? */
bool fedcodec_params_valid(const fedcodec *codec);

#endif

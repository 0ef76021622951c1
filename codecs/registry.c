/* The table of codecs, in the order of codecs.def. */
#include "codecs/registry.h"

static const fedcodec_vtable *const codecs[] = {
#define FEDCODEC(id, folder) &fedcodec_##folder,
#include "codecs/codecs.def"
#undef FEDCODEC
};

const fedcodec_vtable *fedcodec_at(size_t k) {
    return k < sizeof codecs / sizeof codecs[0] ? codecs[k] : NULL;
}

const fedcodec_vtable *fedcodec_by_id(uint8_t id) {
    switch (
        id) { /* an id that codecs.def gives out twice is a repeated case: it does not compile */
#define FEDCODEC(number, folder)                                                                   \
    case (number):                                                                                 \
        return &fedcodec_##folder;
#include "codecs/codecs.def"
#undef FEDCODEC
    default:
        return NULL;
    }
}

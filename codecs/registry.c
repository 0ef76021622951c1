/* The list of codecs, and the choice of the vector unit that runs them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/registry.h"

#include "fed/cpu.h"

#ifdef FEDCODEC_HAS_X86_UNITS
extern const fedcodec_unit fedcodec_this_unit_avx2, fedcodec_this_unit_avx512;

/* Check for the instructions that CMakeLists.txt compiles the unit avx512 with. */
static bool runs_avx512(void) {
    return fed_cpu_runs_v4() && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2");
}
#endif

const fedcodec_unit *fedcodec_unit_at(size_t k) {
#ifdef FEDCODEC_HAS_X86_UNITS
    if (runs_avx512() && k-- == 0) {
        return &fedcodec_this_unit_avx512;
    }
    if (fed_cpu_runs_v3() && k-- == 0) {
        return &fedcodec_this_unit_avx2;
    }
#endif
    return k == 0 ? &fedcodec_this_unit : NULL;
}

const fedcodec_vtable *fedcodec_at(size_t k) {
    return k < FEDCODEC_COUNT ? fedcodec_unit_at(0)->codecs[k] : NULL;
}

const fedcodec_vtable *fedcodec_by_id(uint8_t id) {
    switch (id) { /* two codecs with one id make a repeated case, which does not compile */
#define FEDCODEC(number, folder)                                                                   \
    case (number):                                                                                 \
        return fedcodec_at(FEDCODEC_INDEX_##folder);
#include FEDCODEC_LIST
#undef FEDCODEC
    default:
        return NULL;
    }
}

const char *fedcodec_name(const fedcodec_vtable *codec) {
    return codec->name;
}

bool fedcodec_has_feedback(const fedcodec_vtable *codec) {
    return codec->feedback;
}

double fedcodec_stretch(const fedcodec *codec) {
    return codec->vtable->stretch != NULL ? codec->vtable->stretch(codec->param) : 1;
}

bool fedcodec_needs_residual(const fedcodec_vtable *codec) {
    return codec->feedback && !codec->spares;
}

/* The table of second stages, in the order of stages.def. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/stage.h"

#define FEDCODEC_STAGE(id, folder) extern const fedcodec_stage fedcodec_stage_##folder;
#include "codecs/stages.def"
#undef FEDCODEC_STAGE

static const fedcodec_stage *const stages[] = {
#define FEDCODEC_STAGE(number, folder) &fedcodec_stage_##folder,
#include "codecs/stages.def"
#undef FEDCODEC_STAGE
};

const fedcodec_stage *fedcodec_stage_at(size_t k) {
    return k < sizeof stages / sizeof stages[0] ? stages[k] : NULL;
}

const fedcodec_stage *fedcodec_stage_by_id(uint8_t id) {
    for (size_t k = 0; fedcodec_stage_at(k) != NULL; k++) {
        if (fedcodec_stage_at(k)->id == id) {
            return fedcodec_stage_at(k);
        }
    }
    return NULL;
}

const char *fedcodec_stage_name(uint8_t stage) {
    const fedcodec_stage *found = fedcodec_stage_by_id(stage);
    return found != NULL ? found->name : stage == 0 ? "" : "?";
}

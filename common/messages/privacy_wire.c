/* What an assignment says of a private task, and the draw of its rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed/privacy.h"

enum { COUNTED = 0x80 /* a bit of the byte `helpers` */ };

void fed_privacy_draw(uint64_t task, uint32_t round, uint8_t draw[FED_SHA256_SIZE]) {
    uint8_t text[4 + 8 + 4];
    fed_writer w;
    fed_writer_fixed(&w, text, sizeof text);
    fed_write_bytes(&w, "ring", 4);
    fed_write_u64(&w, task);
    fed_write_u32(&w, round);
    fed_sha256(text, w.len, draw);
}

uint32_t fed_privacy_drawn(const fed_privacy *privacy, uint32_t round) {
    return privacy->apart > 1 ? 0 : round;
}

void fed_privacy_write(fed_writer *w, const fed_privacy *privacy) {
    fed_write_f32(w, privacy->clip);
    if (privacy->clip == 0) {
        return;
    }
    fed_write_u32(w, privacy->minimum);
    fed_write_u32(w, privacy->goal);
    fed_write_u32(w, privacy->cohort);
    fed_write_f64(w, privacy->sigma2);
    fed_write_f32(w, privacy->epsilon);
    fed_write_f32(w, privacy->delta);
    fed_write_u32(w, privacy->participations);
    fed_write_u32(w, privacy->apart);
    fed_write_u8(w, (uint8_t)(privacy->helpers | (privacy->counted ? COUNTED : 0)));
    fed_write_bytes(w, privacy->helper_key, (size_t)privacy->helpers * FED_SEAL_KEY);
    if (privacy->helpers > 0) {
        fed_write_u64(w, privacy->generation);
    }
}

static bool holds(const fed_privacy *p) {
    return p->minimum >= 1 && p->minimum <= p->goal && p->goal <= p->cohort &&
           isfinite(p->sigma2) && p->sigma2 >= 0 && isfinite(p->epsilon) && p->epsilon >= 0 &&
           p->delta >= 0 && p->delta < 1 && p->apart >= 1;
}

fed_status fed_privacy_read(fed_reader *r, fed_privacy *privacy) {
    fed_privacy t = {0};
    t.clip = fed_read_f32(r);
    bool allowed = isfinite(t.clip) && t.clip >= 0;
    if (r->status == FED_OK && t.clip > 0) {
        t.minimum = fed_read_u32(r);
        t.goal = fed_read_u32(r);
        t.cohort = fed_read_u32(r);
        t.sigma2 = fed_read_f64(r);
        t.epsilon = fed_read_f32(r);
        t.delta = fed_read_f32(r);
        t.participations = fed_read_u32(r);
        t.apart = fed_read_u32(r);
        t.helpers = fed_read_u8(r);
        t.counted = (t.helpers & COUNTED) != 0;
        t.helpers &= COUNTED - 1;
        allowed = allowed && t.helpers <= FED_HELPERS && holds(&t);
        for (unsigned k = 0; k < t.helpers && k < FED_HELPERS; k++) {
            const uint8_t *key = fed_read_bytes(r, FED_SEAL_KEY);
            for (size_t i = 0; key != NULL && i < FED_SEAL_KEY; i++) {
                t.helper_key[k][i] = key[i];
            }
        }
        t.generation = t.helpers > 0 ? fed_read_u64(r) : 0;
    }
    if (r->status == FED_OK && !allowed) {
        r->status = FED_EFORMAT;
    }
    FED_TRY(r->status);
    *privacy = t;
    return FED_OK;
}

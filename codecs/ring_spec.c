/* The spec of the codec `ring`. It makes no message of one array: a round's terms are missing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/ring_spec.h"

#include <math.h>

#include "fedcodec/ring.h"

enum { ID = 21 };

static const fedcodec_param params[] = {
    {.key = "b", .preset = 5, .low = 2, .high = 16, .help = "bits of a level", .whole = true},
    {.key = "p", .preset = 1, .low = 1e-6, .high = 1, .help = "fraction of values sent"},
    {.key = NULL},
};

/* An envelope can't hold what one private task makes of values: see fedcodec/ring.h. */

static size_t no_bytes(const double *param, size_t n) {
    (void)param;
    (void)n;
    return 0;
}

static float scan(const float *residual, const float *x, size_t n) {
    (void)residual;
    (void)x;
    (void)n;
    return 0;
}

static fed_status refuse(const fedcodec_job *job, size_t *len) {
    (void)job;
    (void)len;
    return FED_EINVAL;
}

static fed_status refuse_message(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    (void)src;
    (void)len;
    (void)n;
    (void)max_abs;
    return FED_EFORMAT;
}

const fedcodec_vtable fedcodec_ring_spec = {
    .id = ID,
    .name = "ring",
    .about = "whole numbers that add up, for updates of private tasks",
    .params = params,
    .bound = no_bytes,
    .scan = scan,
    .encode = refuse,
    .check = refuse_message,
};

bool fedcodec_is_ring(const fedcodec_vtable *codec) {
    return codec == &fedcodec_ring_spec;
}

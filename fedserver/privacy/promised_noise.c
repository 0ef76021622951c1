/* The noise that terms promise, computed anew by whoever has to add it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/privacy/promised_noise.h"

#include <math.h>
#include <string.h>

#include "fedcodec/ring.h"
#include "fedserver/privacy/correlated.h"

/* Relative: far above a logarithm's last bit, far below any epsilon that a person reads. */
#define SLACK 1e-9

/* Does the shape follow from codec, clip and k, as the devices' own does? */
static bool shape_of(const fed_private_terms *t, fed_privacy_fields *shape) {
    fedcodec codec;
    if (fedcodec_parse(t->codec_up, &codec, NULL) != FED_OK || !fedcodec_is_ring(codec.vtable)) {
        return false;
    }
    *shape = fed_privacy_shape(&t->privacy, (unsigned)codec.param[0], 1, (size_t)t->sent);
    return shape->fields == t->fields && shape->width == t->width;
}

static bool is_promise(const fed_privacy *p) {
    return p->epsilon > 0 && p->delta > 0 && p->participations >= 1 && p->apart >= 1 &&
           p->apart <= FEDSERVER_APART_MOST;
}

/* 0: no noise of the values is enough. */
static double least_z(const fed_privacy *p) {
    const double z =
        fedserver_privacy_z((double)p->epsilon, (double)p->delta, p->participations, p->apart);
    return p->counted ? fedserver_privacy_values_z(z, p->goal) : z;
}

static double least_sigma2(const fed_privacy *p, double reach) {
    const double sigma = reach * least_z(p);
    return fmax(sigma * sigma, FEDSERVER_VARIANCE_LEAST);
}

fed_status fedserver_promised_noise(const fed_private_terms *terms, fedserver_variance *variance,
                                    fed_error *why) {
    const fed_privacy *p = &terms->privacy;
    fed_privacy_fields shape;
    if (p->epsilon == 0 && p->sigma2 == 0) {
        return FED_OK;
    }
    if (!is_promise(p)) {
        return fed_fail(why, FED_EINVAL,
                        "noise belongs to epsilon, delta and participations, and apart is at most "
                        "%d",
                        FEDSERVER_APART_MOST);
    }
    if (!shape_of(terms, &shape)) {
        return fed_fail(why, FED_EINVAL,
                        "the fields do not follow from codec_up, clip and the values sent");
    }
    if (least_z(p) == 0 || (p->counted && p->apart > 1)) {
        return fed_fail(why, FED_EINVAL,
                        "the count of short updates needs a goal above 10 z, and apart 1; the goal "
                        "is %u",
                        p->goal);
    }
    const double least = least_sigma2(p, shape.reach);
    if (!(p->sigma2 >= least * (1 - SLACK))) {
        return fed_fail(why, FED_EINVAL,
                        "the variance of the noise is %.6g; epsilon %.4g for %u rounds of a device "
                        "asks for %.6g",
                        p->sigma2, (double)p->epsilon, p->participations, least);
    }
    const double sigma2 = fmax(p->sigma2, least);
    return (p->apart > 1 ? fedserver_correlated_variance(sigma2, variance)
                         : fedserver_variance_of(sigma2, variance)) == FED_OK
               ? FED_OK
               : fed_fail(why, FED_EINVAL, "the variance of the noise, %.6g, is too large",
                          p->sigma2);
}

fed_status fedserver_count_noise(const fed_privacy *privacy, const uint8_t key[FEDSERVER_NOISE_KEY],
                                 const uint8_t set[FED_SHA256_SIZE], int64_t *noise) {
    uint8_t text[5 + FED_SHA256_SIZE] = "count", own[FED_SHA256_SIZE];
    const double sigma2 = fed_privacy_count_sigma2(privacy);
    fedserver_variance variance;
    if (sigma2 == 0) {
        return FED_OK;
    }
    memcpy(text + sizeof text - FED_SHA256_SIZE, set, FED_SHA256_SIZE);
    fed_sha256(text, sizeof text, own);
    FED_TRY(fedserver_variance_of(fmax(sigma2, FEDSERVER_VARIANCE_LEAST), &variance));
    return fedserver_noise_draw(key, own, variance, noise, 1);
}

void fedserver_promise_bytes(const fed_privacy *privacy, uint8_t bytes[FEDSERVER_PROMISE]) {
    fed_writer w;
    fed_writer_fixed(&w, bytes, FEDSERVER_PROMISE);
    fed_write_f32(&w, privacy->epsilon);
    fed_write_f32(&w, privacy->delta);
    fed_write_u32(&w, privacy->participations);
    fed_write_u32(&w, privacy->apart);
}

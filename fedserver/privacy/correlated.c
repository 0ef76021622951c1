/* Correlated noise in fixed point: whole numbers only, from the first bit to the last. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/privacy/correlated.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "fed/bytes.h"
#include "fed/crypto.h"

__extension__ typedef __int128 wide;

enum { POINT = 32 }; /* bits behind the point */

/* A quotient by 2^32, rounded: half up, so that whole numbers may be added before or after. */
static wide rounded(wide number) {
    const wide half = (wide)1 << (POINT - 1);
    const wide moved = number + half, unit = (wide)1 << POINT;
    return moved >= 0 ? moved / unit : -((unit - 1 - moved) / unit);
}

fed_status fedserver_correlated_variance(double sigma2, fedserver_variance *variance) {
    return fedserver_variance_of(ldexp(sigma2, 2 * POINT), variance);
}

static void put(uint8_t *bytes, size_t i, int64_t value) {
    fed_writer w;
    fed_writer_fixed(&w, bytes + i * FEDSERVER_CORRELATED, FEDSERVER_CORRELATED);
    fed_write_u64(&w, (uint64_t)value);
}

static int64_t get(const uint8_t *bytes, size_t i) {
    fed_reader r;
    fed_reader_init(&r, bytes + i * FEDSERVER_CORRELATED, FEDSERVER_CORRELATED);
    return (int64_t)fed_read_u64(&r);
}

/* Take what the earlier rounds ask for off noise[count]. */
static fed_status take_off(const fedserver_correlated *which, fedserver_earlier_noise *earlier,
                           void *user, int64_t *noise, uint8_t *bytes, fed_error *err) {
    double c[FEDSERVER_APART_MOST];
    (void)fedserver_privacy_coefficients(which->apart, c);
    for (uint32_t back = 1; back < which->apart; back++) {
        const wide factor = (wide)ldexp(c[back], POINT);
        bool found = false;
        FED_TRY(earlier(user, back, bytes, which->count * FEDSERVER_CORRELATED, &found, err));
        for (size_t i = 0; i < which->count && found; i++) {
            noise[i] -= (int64_t)rounded(factor * get(bytes, i));
        }
    }
    return FED_OK;
}

fed_status fedserver_correlated_draw(const fedserver_correlated *which,
                                     fedserver_earlier_noise *earlier, void *user, uint8_t *bytes,
                                     fed_error *err) {
    assert(which->apart >= 2 && which->apart <= FEDSERVER_APART_MOST);
    int64_t *noise = malloc(which->count * sizeof *noise);
    fed_status status = noise != NULL ? fedserver_noise_draw(which->key, which->set,
                                                             which->variance, noise, which->count)
                                      : FED_ENOMEM;
    if (status != FED_OK) {
        free(noise);
        return fed_fail(err, status, "the noise of a round can't be drawn: %s",
                        fed_status_text(status));
    }
    status = take_off(which, earlier, user, noise, bytes, err);
    for (size_t i = 0; i < which->count && status == FED_OK; i++) {
        put(bytes, i, noise[i]);
    }
    fed_wipe(noise, which->count * sizeof *noise);
    free(noise);
    return status;
}

void fedserver_correlated_levels(const uint8_t *bytes, int64_t *noise, size_t count) {
    for (size_t i = 0; i < count; i++) {
        noise[i] = (int64_t)rounded(get(bytes, i));
    }
}

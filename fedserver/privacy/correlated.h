/* Noise that is correlated over rounds: what a round adds, later ones partly take off. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CORRELATED_H
#define FEDSERVER_CORRELATED_H

#include <stdbool.h>

#include "fedserver/privacy/accountant.h"
#include "fedserver/privacy/sampler.h"

/*
 * Where a device takes part in each h-th round at most (`apart`), round t adds the noise
 *
 *     Z_t = z_t - c_1 Z_(t-1) - ... - c_(h-1) Z_(t-h+1)
 *
 * with independent z_t and the coefficients of fedserver_privacy_coefficients. So the noise of a
 * sum of rounds is smaller than that of independent noise, and a device pays |c|^2 for a round.
 *
 * Z_t and z_t are multiples of 2^-32 levels: z_t is a discrete Gaussian on that lattice, and each
 * product is rounded to it. c_j is a multiple of 2^-32, too. That loses nothing of the proof: let
 * S_t be the sum of a round, whole numbers, and X_t = S_t + Z_t what is released. Then c_j S_(t-j)
 * is on the lattice, so rounding c_j Z_(t-j) is rounding c_j X_(t-j), less c_j S_(t-j). Hence X_t
 * is a function of X before it and of Y_t = S_t + sum_j c_j S_(t-j) + z_t. In Y_t a device has a
 * vector of at most c_j D, from its last participation alone, j rounds ago. These are discrete
 * Gaussian mechanisms, one after the other, and their costs add up, however later sums follow
 * from earlier releases. A round that is missing counts as zeros on both sides.
 *
 * Paper: Choquette-Choo et al., "(Amplified) banded matrix factorization", 2023.
 */

/** Bytes of a value of Z_t in the store: i64, little-endian. */
enum { FEDSERVER_CORRELATED = 8 };

/** Read Z of the round that is `back` rounds earlier: len bytes. *found: there is one. */
typedef fed_status fedserver_earlier_noise(void *user, uint32_t back, uint8_t *bytes, size_t len,
                                           bool *found, fed_error *err);

/** Which noise is drawn. */
typedef struct fedserver_correlated {
    const uint8_t *key, *set;    /* as fedserver_noise_draw */
    fedserver_variance variance; /* of z_t on its lattice: fedserver_correlated_variance */
    uint32_t apart;              /* h, 2 to FEDSERVER_APART_MOST */
    size_t count;                /* fields */
} fedserver_correlated;

/** The variance of z_t in units of 2^-64 levels squared. FED_EINVAL: sigma2 is out of bounds. */
fed_status fedserver_correlated_variance(double sigma2, fedserver_variance *variance) FED_CHECKED;

/** Draw Z_t into bytes[count * FEDSERVER_CORRELATED]. Needs memory for two vectors. Errors: those
 * of `earlier`; FED_ENOMEM. */
fed_status fedserver_correlated_draw(const fedserver_correlated *which,
                                     fedserver_earlier_noise *earlier, void *user, uint8_t *bytes,
                                     fed_error *err) FED_CHECKED;

/** noise[count] = Z_t in whole levels. Rounding after the sum would give the same. */
void fedserver_correlated_levels(const uint8_t *bytes, int64_t *noise, size_t count);

#endif

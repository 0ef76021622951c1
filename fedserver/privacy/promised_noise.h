/* Checks that the terms of a private round have the noise that they promise. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PROMISED_NOISE_H
#define FEDSERVER_PROMISED_NOISE_H

#include "fed/private_terms.h"
#include "fedserver/privacy/sampler.h"

/**
 * Check sigma2 of terms that somebody else wrote: is it what epsilon, delta, participations, apart
 * and clip ask for, and is it 0 where nothing is promised?
 *
 * D, the longest vector of levels, follows from codec_up, clip, k and k', which each device of the
 * round signs as it knows them. Another machine's logarithm may differ in its last bits, so sigma2
 * may be below by a billionth. Where updates are counted, the values need more noise, and goal
 * decides how much (fedserver_privacy_values_z).
 *
 * *variance  of the noise to draw, at least sigma2; unchanged where nothing is promised. Where
 *            apart is above 1: that of fedserver_correlated_variance
 * Errors     FED_EINVAL: *why is a sentence on what is wrong
 */
fed_status fedserver_promised_noise(const fed_private_terms *terms, fedserver_variance *variance,
                                    fed_error *why) FED_CHECKED;

/** Draw the noise of a round's count, if there is one: noise[1]. Its bits are unrelated to those of
 * the same set's other noise. key, set: as for fedserver_noise_draw. FED_ENOMEM. */
fed_status fedserver_count_noise(const fed_privacy *privacy, const uint8_t key[FEDSERVER_NOISE_KEY],
                                 const uint8_t set[FED_SHA256_SIZE], int64_t *noise) FED_CHECKED;

/** What the rounds of one task have in common, as bytes: its promise. */
enum { FEDSERVER_PROMISE = 16 };
void fedserver_promise_bytes(const fed_privacy *privacy, uint8_t bytes[FEDSERVER_PROMISE]);

#endif

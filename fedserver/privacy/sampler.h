/* Draws the noise of a sum: discrete Gaussians, exact, from a key. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_SAMPLER_H
#define FEDSERVER_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/hash.h"

/** Bytes of a noise key. It is fresh for each sum, from fed_random, and secret until it is
 * deleted. */
enum { FEDSERVER_NOISE_KEY = 32 };

/** The least and the largest variance. Above the largest, a draw might not fit an int64_t. */
#define FEDSERVER_VARIANCE_LEAST 0.25
#define FEDSERVER_VARIANCE_MOST  0x1p112

/** A variance that the sampler can draw exactly: t u / m, with integers. */
typedef struct fedserver_variance {
    uint64_t t, u, m;
} fedserver_variance;

/** The least such variance that is not below sigma2, of numbers near it: up to 2^-16 (sigma below
 * 2^24) or 1 / sigma larger, relative to sigma2. FED_EINVAL: sigma2 is out of bounds. */
fed_status fedserver_variance_of(double sigma2, fedserver_variance *variance) FED_CHECKED;

/**
 * Set noise[count] to independent discrete Gaussians: P(x) is proportional to
 * exp(-x^2 / (2 variance)).
 *
 * The same key and the same set give the same bits, on every machine. Another set gives
 * unrelated bits: they are AES-256-CTR(HKDF-SHA256(key, info = set)).
 *
 * set    SHA-256 of what the noise is for: the set of updates
 * Exact  no floating-point number is used, and no probability is rounded; each draw cuts off what
 *        has a probability below exp(-1900)
 * Errors FED_ENOMEM; noise is undefined then
 * Paper  Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", 2020,
 *        algorithms 1 to 3. Departs: t u / m in place of sigma^2, with any t near sigma.
 */
fed_status fedserver_noise_draw(const uint8_t key[FEDSERVER_NOISE_KEY],
                                const uint8_t set[FED_SHA256_SIZE], fedserver_variance variance,
                                int64_t *noise, size_t count) FED_CHECKED;

#endif

/* What a task's noise promises to each of its devices, and how much noise a promise needs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ACCOUNTANT_H
#define FEDSERVER_ACCOUNTANT_H

#include <stdint.h>

/*
 * The mechanism adds Gaussian noise, of variance z^2 D^2 on each value, to a sum in which a device
 * has a vector of at most the length D. Neighbours: in one of two runs one device sends zeros in
 * all of its rounds. A device that takes part K times spends K participations.
 *
 * A participation costs rho = |c|^2 / (2 z^2) of zero-concentrated differential privacy, and costs
 * add up. c: the coefficients by which the noise of one round goes into later ones (see
 * fedserver_privacy_coefficients); independent noise has c = (1), so |c|^2 = 1. There is no
 * amplification by sampling: a round's set of devices is not a random sample, and is seen.
 *
 * The discrete Gaussian costs the same as the continuous one (Canonne, Kamath, Steinke, "The
 * discrete Gaussian for differential privacy", 2020, theorem 4). zCDP: Bun and Steinke, 2016.
 */

/** The most rounds that a device may have to stay away (the key `apart`). */
enum { FEDSERVER_APART_MOST = 64 };

/**
 * The epsilon of (epsilon, delta) differential privacy that costs of `rho` add up to:
 * the least over a > 1 of rho a + ln(1 - 1/a) - ln(a delta)/(a - 1), and at least 0.
 *
 * rho: 0 or above. delta: above 0, below 1. Any a bounds epsilon, so the result holds however the
 * numbers are rounded. Formula: Canonne, Kamath, Steinke 2020, proposition 12.
 */
double fedserver_privacy_epsilon(double rho, double delta);

/** The largest rho whose epsilon is at most that one: the inverse of fedserver_privacy_epsilon.
 * epsilon, delta: above 0; delta below 1. */
double fedserver_privacy_rho(double epsilon, double delta);

/**
 * Write the coefficients c[apart] of noise that is correlated over rounds, and return |c|^2.
 *
 * c_0 = 1, c_j = c_(j-1) (2j - 1)/(2j), cut off to a multiple of 2^-32. A device takes part in each
 * apart-th round at most, so its columns do not overlap. apart: 1 (independent noise) to
 * FEDSERVER_APART_MOST.
 *
 * Paper: Choquette-Choo et al., "(Amplified) banded matrix factorization", 2023, section 3.
 * Departs: the band of the square root of the prefix sum, not an optimised one.
 */
double fedserver_privacy_coefficients(uint32_t apart, double c[FEDSERVER_APART_MOST]);

/** The noise multiplier z with which `participations` participations of a device cost epsilon at
 * delta. Nobody chooses z. */
double fedserver_privacy_z(double epsilon, double delta, uint32_t participations, uint32_t apart);

/**
 * The noise multiplier of the values of a round that counts short updates, too (`clip_quantile`):
 * (z^-2 - z_count^-2)^(-1/2). A count moves by at most 1, and has noise of the deviation z_count =
 * goal / 10. Values and count together cost what values alone cost with z. 0: the count alone costs
 * more; goal is at most 10 z.
 *
 * Paper: Andrew, Thakkar, McMahan, Ramaswamy, "Differentially private learning with adaptive
 * clipping", 2021, theorem 1.
 */
double fedserver_privacy_values_z(double z, uint32_t goal);

/** The length of the noise that `rounds` rounds leave in a sum of all of them, of that of
 * independent noise with the same z: below 1 where apart is above 1. */
double fedserver_privacy_share(uint32_t apart, uint32_t rounds);

/** What one participation costs with the noise multiplier z. */
double fedserver_privacy_cost(double z, uint32_t apart);

#endif

/* The goals of the codecs' speed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GOALS_H
#define GOALS_H

#include <stddef.h>

/** Sizes measured by default, in values. */
enum { GOAL_SIZES = 3 };
extern const size_t goal_sizes[GOAL_SIZES];

/** The goal of every operation on n values, as a share of the bound that the same run measures. It
 * is smaller where a cache holds the values, since instructions weigh more there. */
double goal_share(size_t n);

/** The verdict on a result of `part` times its goal: "met"; "near", if at most 10 % is missing,
 * which goals allow for noise; or "missed". */
const char *goal_verdict(double part);

#endif

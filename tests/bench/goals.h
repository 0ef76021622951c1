/* Goals for the speed of the codecs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GOALS_H
#define GOALS_H

#include <stddef.h>

/** Default sizes of benchmarks, in values. */
enum { GOAL_SIZES = 3 };
extern const size_t goal_sizes[GOAL_SIZES];

/** Return the goal of operations on n values, as a share of the measured bound. */
double goal_share(size_t n);

/** Return the verdict on a result of `part` times its goal: "met", "near" (at most 10 % missing) or
 * "missed". */
const char *goal_verdict(double part);

#endif

/* Goals for the speed of the codecs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "goals.h"

const size_t goal_sizes[GOAL_SIZES] = {431080, 11200000, 60000000};

enum { CACHED = 1000000 };

double goal_share(size_t n) {
    return n <= CACHED ? 0.8 : 0.9;
}

const char *goal_verdict(double part) {
    return part >= 1.0 ? "met" : part >= 0.9 ? "near" : "missed";
}

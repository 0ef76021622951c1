/* A made-up data set in MNIST's file format. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_DIGITS_H
#define FED_DIGITS_H

#include <stddef.h>

/** Write the files of a training and a test set: noisy 28x28 pictures of ten classes, which a
 * linear model can learn. */
void fed_digits_write(const char *directory, size_t train, size_t test);

#endif

/* A made-up data set in MNIST's files, for tests that must not depend on a download. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_DIGITS_H
#define FED_DIGITS_H

#include <stddef.h>

/** Write train and t10k image and label files. They hold noisy 28x28 pictures of ten classes, each
 * with a bright block at its own position. A linear model learns them within some dozen steps. */
void fed_digits_write(const char *directory, size_t train, size_t test);

#endif

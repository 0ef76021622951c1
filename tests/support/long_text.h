/* The text of a model with many tensors, which is too long for a task. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_LONG_TEXT_H
#define FED_TEST_LONG_TEXT_H

enum { LONG_TEXT_MOST = 3000 };

/** Return the text of a model of `tensors` tensors, at most LONG_TEXT_MOST. They have one value and
 * two in turn. `name` begins their names, and has at most 15 characters. Valid until the next
 * call. */
const char *long_text(const char *name, int tensors);

#endif

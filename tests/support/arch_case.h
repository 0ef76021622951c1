/* Checks of model descriptions, valid and invalid. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARCH_CASE_H
#define ARCH_CASE_H

#include "fed/arch.h"

/** Write a valid model description of the greatest length. */
void arch_case_longest(char text[FED_ARCH_TEXT]);

fed_arch arch_case_parse(const char *text);

/** Check that the text is refused, with an error that contains these words. */
void arch_case_refused(const char *text, const char *words);

/** Check that layer l has this output shape, written "CxHxW". */
void arch_case_gives(const char *text, size_t l, const char *shape);

#endif

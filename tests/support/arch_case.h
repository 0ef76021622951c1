/* Model descriptions in tests: those that must parse, and those that must not. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARCH_CASE_H
#define ARCH_CASE_H

#include "fed/arch.h"

/** Fails the test where the text is wrong. */
fed_arch arch_case_parse(const char *text);

/** The text must be refused, with these words in the error. */
void arch_case_refused(const char *text, const char *words);

/** Layer l of the text must give this shape, written "CxHxW". */
void arch_case_gives(const char *text, size_t l, const char *shape);

#endif

/* For clang-tidy, which includes it in each source: facts about functions of other files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_ANALYZER_H
#define FED_ANALYZER_H

#include "fed/error.h"

/* fed_fail returns its argument `status`. */
#define fed_fail(err, status, ...) ((void)(fed_fail)(err, status, __VA_ARGS__), (status))

#endif

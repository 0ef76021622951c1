/* Read by clang-tidy before each source: what its analyzer can't see across files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_ANALYZER_H
#define FED_ANALYZER_H

#include "fed/error.h"

/* fed_fail returns the status that it is given. Without this macro the analyzer does not know that.
 * It would follow paths on which fed_fail returns FED_OK, and report unset outputs there. */
#define fed_fail(err, status, ...) ((void)(fed_fail)(err, status, __VA_ARGS__), (status))

#endif

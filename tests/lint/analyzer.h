/* Read by clang-tidy before each source: what its analyzer can't see across files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_ANALYZER_H
#define FED_ANALYZER_H

#include "fed/error.h"

/* fed_fail answers the status that it was given. Without this the analyzer follows paths on which a
 * failure is taken for success, and finds unset outputs there. */
#define fed_fail(err, status, ...) ((void)(fed_fail)(err, status, __VA_ARGS__), (status))

#endif

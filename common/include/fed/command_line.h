/* The errors that the programs' command lines have in common. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_COMMAND_LINE_H
#define FED_COMMAND_LINE_H

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

struct option; /* of getopt.h */

/**
 * Say why getopt_long stopped at the last option that it read, and return FED_EINVAL: the option is
 * unknown, an abbreviation of several, lacks its value, or takes none.
 *
 * found  what getopt_long returned: ':' or '?'. Its string of short options must be ":"
 * names  the options given to getopt_long. Each val is another number below 0, and no flag is NULL:
 *        the C library takes an abbreviation of several options as the first if their vals are one
 */
fed_status fed_option_refuse(int found, char *const *argv, const struct option *names,
                             fed_error *err);

/** Say that the command is unknown or, for "", missing; name the command that was meant or, if no
 * name is near, all commands. names ends with NULL. Returns FED_EINVAL. */
fed_status fed_command_refuse(const char *word, const char *const *names, fed_error *err);

FED_API_END

#endif

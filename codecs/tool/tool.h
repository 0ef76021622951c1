/* Declarations that the files of the fedcodec program share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_TOOL_H
#define FEDCODEC_TOOL_H

#include "fed/file.h"
#include "fed/model.h"
#include "fedcodec/codec.h"

enum { TOOL_EXIT_USAGE = 2, TOOL_FILE_MODE = FED_FILE_OUTPUT | 0644 };

/** Tensors of fewer values are grouped, unless --small says otherwise. The same number is a task's
 * default. */
#define TOOL_SMALL "1024"

/** How many messages fedcodec compare takes the mean of, unless --cohort says otherwise. */
#define TOOL_COHORT "10"

/** The most bytes that a file is decoded to, unless --max-bytes says otherwise: 1 GiB. */
#define TOOL_MAX_BYTES "1073741824"

/* Each function prints to standard error what went wrong, and returns the exit status. */
int tool_fail(const fed_error *err);
int tool_fail_file(const char *path, const fed_error *err);
int tool_fail_usage(const char *what, const char *word);

/** Flush standard output, and report a failed write. Returns the exit status. */
int tool_finish_output(void);

/** An option that takes a value. Without the option, value keeps its default. */
typedef struct tool_option {
    const char *name; /* "--codec"; NULL ends the list */
    const char *value;
} tool_option;

/** Read the words after the command in argv[1]: options anywhere, and exactly count files. Returns
 * an exit status; an error has been printed. */
int tool_read_args(int argc, char **argv, tool_option *options, const char **files, int count);

/** Read the value of an option that is a number from 0 to most. Returns an exit status; an error
 * has been printed. */
int tool_read_number(const tool_option *option, uint64_t most, uint64_t *number);

/** fedcodec_parse, for codecs that make envelopes. FED_EINVAL also for `ring`, which makes none. */
fed_status tool_parse(const char *spec, fedcodec *codec, fed_error *err) FED_CHECKED;

/** Read a file of values: safetensors if its name ends in .safetensors, else raw little-endian
 * float32 values, which become one matrix, as square as it can be. Owner: the caller,
 * fed_model_free. */
fed_status tool_read_tensors(const char *path, fed_model *model, fed_error *err) FED_CHECKED;

/** The command fedcodec compare: measure codecs on the user's own tensors. */
int tool_compare(int argc, char **argv);

#endif

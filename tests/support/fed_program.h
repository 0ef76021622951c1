/* A program of ours in a folder of the test's own, run as a person runs it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PROGRAM_H
#define FED_PROGRAM_H

typedef struct fed_program {
    const char *name; /* "fedtrain" */
    char directory[256];
    char out[8192]; /* what the last run printed, both streams */
} fed_program;

void fed_program_open(fed_program *p, const char *name);
void fed_program_close(fed_program *p);

/** For teardown, where the state is the program. */
int fed_program_teardown(void **state);

/** Run it with these arguments, as a shell reads them. Returns its exit status. */
int fed_program_run(fed_program *p, const char *args);

/** The same. It must end with this status, and say these words; "": any. */
void assert_runs(fed_program *p, const char *args, int status, const char *words);

/** The last run must also have said these words. */
void assert_says(const fed_program *p, const char *words);

#endif

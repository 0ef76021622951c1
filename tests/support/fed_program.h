/* Runs a program of this project in a temporary directory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PROGRAM_H
#define FED_PROGRAM_H

typedef struct fed_program {
    const char *name;
    char directory[256];
    char out[8192]; /* output of the last run */
} fed_program;

void fed_program_open(fed_program *p, const char *name);
void fed_program_close(fed_program *p);

int fed_program_teardown(void **state);

/** Run the program with these arguments, as a shell reads them. Returns the exit status. */
int fed_program_run(fed_program *p, const char *args);

/** Run the program, and check its exit status and that its output contains `words`. */
void assert_runs(fed_program *p, const char *args, int status, const char *words);

void assert_says(const fed_program *p, const char *words);

#endif

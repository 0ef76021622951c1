/* Runs a program of this project in a temporary directory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_program.h"

#include "fed_test.h"

void fed_program_open(fed_program *p, const char *name) {
    *p = (fed_program){.name = name};
    fed_test_tmpdir(p->directory, sizeof p->directory);
}

void fed_program_close(fed_program *p) {
    fed_test_rmdir(p->directory);
}

int fed_program_teardown(void **state) {
    fed_program_close(*state);
    return 0;
}

int fed_program_run(fed_program *p, const char *args) {
    return fed_test_run(p->directory, p->name, args, p->out, sizeof p->out);
}

void assert_runs(fed_program *p, const char *args, int status, const char *words) {
    const int ended = fed_program_run(p, args);
    if (ended != status) {
        fail_msg("%s %s ended with status %d instead of %d; it printed: %s", p->name, args, ended,
                 status, p->out);
    }
    if (strstr(p->out, words) == NULL) {
        fail_msg("%s %s printed: \"%s\", without \"%s\"", p->name, args, p->out, words);
    }
}

void assert_says(const fed_program *p, const char *words) {
    if (strstr(p->out, words) == NULL) {
        fail_msg("%s printed: \"%s\", without \"%s\"", p->name, p->out, words);
    }
}

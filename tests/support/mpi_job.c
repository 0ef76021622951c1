/* Runs a program as the ranks of an MPI job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_job.h"

#include <sys/wait.h>
#include <unistd.h>

#include "fed_test.h"

bool mpi_job_possible(void) {
    FILE *pipe = popen("command -v mpirun 2>/dev/null", "r");
    char path[256] = "";
    assert_non_null(pipe);
    bool there = fgets(path, sizeof path, pipe) != NULL;
    pclose(pipe);
    return there;
}

int mpi_job_run(const char *program, const char *args, unsigned ranks, char *out, size_t cap) {
    char command[2048], line[512];
    size_t used = 0;
    snprintf(command, sizeof command,
             MPI_JOB_SETTINGS "timeout -k 10 1200 mpirun -n %u '%s' %s 2>&1 </dev/null", ranks,
             program, args);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    out[0] = 0;
    while (fgets(line, sizeof line, pipe) != NULL) {
        size_t len = strlen(line);
        if (used + len < cap) {
            memcpy(out + used, line, len + 1);
            used += len;
        }
    }
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void mpi_job_self(char *path, size_t cap) {
    ssize_t len = readlink("/proc/self/exe", path, cap - 1);
    assert_true(len > 0);
    path[len] = 0;
}

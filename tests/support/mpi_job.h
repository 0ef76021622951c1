/* Runs a program as the ranks of an MPI job. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPI_JOB_H
#define MPI_JOB_H

#include <stdbool.h>
#include <stddef.h>

bool mpi_job_possible(void);

/** Run `mpirun -n ranks program args`, at most 20 minutes. Returns the exit status, 0 if all ranks
 * ended with 0. out: the output, without lines that do not fit. */
int mpi_job_run(const char *program, const char *args, unsigned ranks, char *out, size_t cap);

/** Environment of mpirun, for Open MPI 4 and 5: allow root, and more ranks than processors. Leak
 * detection is off because Open MPI leaks. */
#define MPI_JOB_SETTINGS                                                                           \
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 "          \
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "                        \
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_mpi_yield_when_idle=1 "         \
    "ASAN_OPTIONS=detect_leaks=0 "

/** Write the path of this program's file to `path`. */
void mpi_job_self(char *path, size_t cap);

#endif

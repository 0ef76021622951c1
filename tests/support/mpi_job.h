/* Runs a program as the ranks of an MPI job. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPI_JOB_H
#define MPI_JOB_H

#include <stdbool.h>
#include <stddef.h>

/** This machine has mpirun. */
bool mpi_job_possible(void);

/**
 * `mpirun -n ranks program args`, ended after a minute or two if it hangs. Returns mpirun's exit
 * status: 0 if all ranks ended with 0. out: what was printed on both streams, as far as it fits.
 *
 * args  as a shell reads them
 */
int mpi_job_run(const char *program, const char *args, unsigned ranks, char *out, size_t cap);

/** Before mpirun in a shell's command: Open MPI 4 and 5, as root too, and with more ranks than
 * processors. Other MPIs do not read these. Open MPI's plugins leak, and are unloaded before
 * AddressSanitizer could name them: ranks do not look for leaks. */
#define MPI_JOB_SETTINGS                                                                           \
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 "          \
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "                        \
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_mpi_yield_when_idle=1 "         \
    "ASAN_OPTIONS=detect_leaks=0 "

/** The path of this program, to run it again as ranks. */
void mpi_job_self(char *path, size_t cap);

#endif

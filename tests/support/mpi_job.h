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

/** The path of this program, to run it again as ranks. */
void mpi_job_self(char *path, size_t cap);

#endif

/* Start and end MPI in this process. As MPI's state is global, so is this module's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_MPI_WORLD_H
#define FEDDC_MPI_WORLD_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

/*
 * If the program has initialised MPI, the link uses it, and the program must call MPI_Finalize. If
 * not, the first call of feddc_mpi_begin initialises MPI, and MPI_Finalize is called once, when
 * the process exits: so a link can be opened again after a close. A process that exits while a
 * link is open does not finalize; mpirun then ends the other ranks.
 */

/** Initialise MPI if nobody has. Errors: FED_ESTATE MPI has ended in this process, or the program
 * has initialised it for one thread only; FED_ENOMEM; FED_EIO */
fed_status feddc_mpi_begin(fed_error *err) FED_CHECKED;

/** Make a communicator of all ranks, for the only link that a process may have open. Waits up to
 * patience_ms for the other ranks. Errors: FED_EBUSY, FED_ESTATE, FED_EVERSION, FED_ENOMEM,
 * FED_EIO */
fed_status feddc_mpi_join(uint32_t patience_ms, MPI_Comm *comm, fed_error *err) FED_CHECKED;

/** The link is closed. clean: all requests of the link are complete; else MPI may still use the
 * link's memory, and this process can open no other link. */
void feddc_mpi_leave(MPI_Comm *comm, bool clean);

/** Turn MPI's return code of a call into FED_OK, or into FED_EIO with MPI's error text. */
fed_status feddc_mpi_check(int code, const char *call, fed_error *err) FED_CHECKED;

#endif

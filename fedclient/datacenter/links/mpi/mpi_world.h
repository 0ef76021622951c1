/* MPI of this process: when it starts and ends. MPI itself is global, so this is too. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_MPI_WORLD_H
#define FEDDC_MPI_WORLD_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

/*
 * If the program has initialised MPI, that is used, and the program ends it. If not, the first call
 * of feddc_mpi_begin initialises MPI, and MPI_Finalize is called once, when the process exits: so a
 * link can be opened again after a close. A process that exits while a link is open does not
 * finalize; mpirun then ends the other ranks.
 */

/** Make MPI ready. Errors: FED_ESTATE MPI has ended in this process, or the program has initialised
 * it for one thread only */
fed_status feddc_mpi_begin(fed_error *err) FED_CHECKED;

/** A communicator of all ranks, for the one link that a process may have open. Waits up to
 * patience_ms for the other ranks. Errors: FED_EBUSY, FED_ESTATE, FED_EVERSION, FED_EIO */
fed_status feddc_mpi_join(uint32_t patience_ms, MPI_Comm *comm, fed_error *err) FED_CHECKED;

/** The link is closed. clean: nothing of it is under way any longer; else MPI still works with the
 * link's memory, and this process opens no other link. */
void feddc_mpi_leave(MPI_Comm *comm, bool clean);

/** FED_OK, or FED_EIO with MPI's own sentence. */
fed_status feddc_mpi_check(int code, const char *call, fed_error *err) FED_CHECKED;

#endif

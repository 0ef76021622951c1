/* Initialise and finalize MPI in this process, and make the communicator of a link. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/links/mpi/mpi_world.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/version.h"

enum { PATIENCE_MS = 30000, NAP_NS = 50000 };

/* The values that ranks exchange to check that they can read each other's messages. */
typedef struct hello {
    uint32_t order; /* 1, in this machine's byte order */
    char release[28];
} hello;

/* MPI can't cancel these two, and may use their memory after the link has given up. */
static MPI_Comm duplicate;
static const hello own = {.order = 1, .release = FED_VERSION};

static atomic_flag taken = ATOMIC_FLAG_INIT; /* a link is open, or was not closed cleanly */
static pid_t starter;                        /* the process that initialised MPI here; 0: none */

fed_status feddc_mpi_check(int code, const char *call, fed_error *err) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    if (code == MPI_SUCCESS) {
        return FED_OK;
    }
    MPI_Error_string(code, text, &len);
    return fed_fail(err, FED_EIO, "%s failed: %.200s", call, text);
}

static void end_with_process(void) {
    int ended = 0;
    if (getpid() == starter && !atomic_flag_test_and_set(&taken)) {
        MPI_Finalized(&ended);
        if (!ended) {
            MPI_Finalize();
        }
    }
}

fed_status feddc_mpi_begin(fed_error *err) {
    int begun = 0, ended = 0, level = MPI_THREAD_SINGLE;
    MPI_Finalized(&ended);
    if (ended) {
        return fed_fail(err, FED_ESTATE,
                        "MPI has ended in this process, and cannot start again: close the link "
                        "before MPI_Finalize");
    }
    MPI_Initialized(&begun);
    if (begun) {
        MPI_Query_thread(&level);
    } else {
        FED_TRY(feddc_mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level),
                                "MPI_Init_thread", err));
        starter = getpid();
        if (atexit(end_with_process) != 0) {
            return fed_fail(err, FED_ENOMEM, "out of memory to call MPI_Finalize at exit");
        }
    }
    return level >= MPI_THREAD_SERIALIZED
               ? FED_OK
               : fed_fail(err, FED_ESTATE,
                          "the link calls MPI from a thread of its own, and MPI was initialised "
                          "for one thread: give MPI_Init_thread MPI_THREAD_SERIALIZED");
}

static fed_status await(MPI_Request *request, int64_t until, fed_error *err) {
    int done = 0;
    for (;;) {
        FED_TRY(feddc_mpi_check(MPI_Test(request, &done, MPI_STATUS_IGNORE), "MPI_Test", err));
        if (done) {
            return FED_OK;
        }
        if (fed_clock_monotonic_ms() >= until) {
            return fed_fail(err, FED_EBUSY,
                            "some rank of the MPI job did not open its link in time: all ranks "
                            "must; MPI does not tell which");
        }
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

static fed_status greet(MPI_Comm comm, int64_t until, fed_error *err) {
    MPI_Request request = MPI_REQUEST_NULL;
    int size = 0;
    FED_TRY(feddc_mpi_check(MPI_Comm_size(comm, &size), "MPI_Comm_size", err));
    hello *all = calloc((size_t)size, sizeof *all);
    if (all == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for %d ranks", size);
    }
    fed_status status = feddc_mpi_check(MPI_Iallgather(&own, (int)sizeof own, MPI_BYTE, all,
                                                       (int)sizeof own, MPI_BYTE, comm, &request),
                                        "MPI_Iallgather", err);
    if (status != FED_OK) {
        free(all);
        return status;
    }
    FED_TRY(await(&request, until, err)); /* does not free `all`: MPI may still write to it */
    for (int r = 0; r < size && status == FED_OK; r++) {
        if (memcmp(&all[r], &own, sizeof own) != 0) {
            status = fed_fail(err, FED_EVERSION,
                              "rank %d runs release \"%.27s\" and this rank \"%s\", or its machine "
                              "orders bytes the other way: all ranks need the same program",
                              r, all[r].release, own.release);
        }
    }
    free(all);
    return status;
}

fed_status feddc_mpi_join(uint32_t patience_ms, MPI_Comm *comm, fed_error *err) {
    MPI_Request request = MPI_REQUEST_NULL;
    int64_t until = fed_clock_monotonic_ms() + (patience_ms != 0 ? patience_ms : PATIENCE_MS);
    if (atomic_flag_test_and_set(&taken)) {
        return fed_fail(err, FED_ESTATE,
                        "this process has an MPI link open, or one that could not be closed: a "
                        "process is one rank, so close its link before opening another");
    }
    fed_status status =
        feddc_mpi_check(MPI_Comm_idup(MPI_COMM_WORLD, &duplicate, &request), "MPI_Comm_idup", err);
    if (status == FED_OK) {
        status = await(&request, until, err);
    }
    if (status != FED_OK) {
        /* MPI_Comm_idup may still run and cannot be cancelled, so `taken` stays set */
        return status;
    }
    *comm = duplicate;
    status =
        feddc_mpi_check(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN), "MPI_Comm_set", err);
    if (status == FED_OK) {
        status = greet(*comm, until, err);
    }
    if (status != FED_OK) {
        feddc_mpi_leave(comm, status == FED_EVERSION);
    }
    return status;
}

void feddc_mpi_leave(MPI_Comm *comm, bool clean) {
    if (clean) {
        MPI_Comm_free(comm);
        atomic_flag_clear(&taken);
    }
}

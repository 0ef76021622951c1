/* What the clients of a simulation keep: the stores of all of them, in memory and one file. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_CLIENT_STORES_H
#define FEDSIM_CLIENT_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedclient/memory_store.h"

/*
 * Each client has a store of its own, which its platform shows; together they lie in memory and,
 * from where that ends, in one sparse file that is mapped, so that ten thousand residuals take
 * disk, and more memory only while there is some to spare. Of a model that many clients hold there
 * is one copy.
 *
 * The memory is the store: a value is there once put returns, and nothing is synced on the way. So
 * a run that is killed has lost its clients, and is begun again.
 *
 * Threads: clients are independent of each other; of one client, one call at a time.
 */
typedef struct sim_stores sim_stores;

/**
 * Open the stores of that many clients, numbered from 0. They take `memory` bytes of memory before
 * anything goes into the file.
 *    path    NULL: an unlinked temporary file, in TMPDIR or /tmp
 *    resume  go on with the file at `path`, as sim_stores_sync has left it, for as many clients;
 *            false: a new file, whatever was there
 * Errors: FED_EIO, FED_ENOMEM; to resume FED_ENOTFOUND, FED_EFORMAT not such a file, or damaged,
 * or of a run that was killed, FED_EVERSION another release's, FED_EINVAL of another number of
 * clients, FED_EBUSY another process has it. Owner: sim_stores_close. */
fed_status sim_stores_open(const char *path, uint32_t clients, bool resume, size_t memory,
                           sim_stores **stores, fed_error *err) FED_CHECKED;

/** Client k's platform, good until sim_stores_close; the caller may put other clocks in. The
 * platform lends what it stores, so no model is copied or hashed to be stored
 * (fedclient/memory_store.h). */
void sim_stores_platform(sim_stores *stores, uint32_t k, fedclient_platform *platform);

/** Client k's optimizer state: float32[floats], all 0 at first, and after each change of `floats`.
 * *state stays where it is until the state is asked for with another number. */
fed_status sim_stores_optimizer(sim_stores *stores, uint32_t k, size_t floats, float **state,
                                fed_error *err) FED_CHECKED;

/** How many different models are held now. */
size_t sim_stores_models(sim_stores *stores);

/** Write everything into the file, so that the run can be resumed from it. Nobody uses a store
 * meanwhile. The next change undoes that: then the file is one of a run that was killed. To ask for
 * an optimizer's state is a change too. Without a path nothing is done. FED_EIO, FED_ENOSPC. */
fed_status sim_stores_sync(sim_stores *stores, fed_error *err) FED_CHECKED;

/** Free everything. What was not synced can't be resumed. */
void sim_stores_close(sim_stores *stores);

#endif

/* The stores of all clients of a simulation, together in memory and in one file. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_CLIENT_STORES_H
#define FEDSIM_CLIENT_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedclient/memory_store.h"

/*
 * Each client has a store of its own, which it uses through its platform. All stores lie together
 * in memory and, when that is used up, in one sparse file that is mapped. So ten thousand residuals
 * fit on the disk, and use memory while there is some to spare. A model that many clients hold is
 * stored once.
 *
 * Nothing is synced to the disk before sim_stores_sync. So a run that is killed loses its clients,
 * and has to begin again.
 *
 * Different clients' stores may be used by different threads at once, a client's store only by one.
 */
typedef struct sim_stores sim_stores;

/**
 * Open one store for each of `clients` clients, numbered from 0. The stores use up to `memory`
 * bytes of memory before anything goes into the file. The caller closes them with sim_stores_close.
 *    path    NULL: an unlinked temporary file, in TMPDIR or /tmp
 *    resume  true: go on with the file at `path`, as sim_stores_sync has left it; false: make a new
 *            file, and overwrite an old one
 * Errors: FED_EIO, FED_ENOMEM, FED_ENOSPC; FED_EBUSY another process uses the file. When resuming,
 * also: FED_ENOTFOUND there is no file; FED_EFORMAT the file is not of stores, or damaged, or of a
 * run that was killed; FED_EVERSION it is of another release; FED_EINVAL of another number of
 * clients.
 */
fed_status sim_stores_open(const char *path, uint32_t clients, bool resume, size_t memory,
                           sim_stores **stores, fed_error *err) FED_CHECKED;

/** Make client k's platform, valid until sim_stores_close. The caller may replace its clocks. The
 * platform lends its memory (fedclient/memory_store.h), so a model is neither copied nor hashed to
 * be stored. */
void sim_stores_platform(sim_stores *stores, uint32_t k, fedclient_platform *platform);

/** Return client k's optimizer state in *state: float32[floats], all 0 at first and after each
 * change of `floats`. *state is valid until a call with another number of floats. */
fed_status sim_stores_optimizer(sim_stores *stores, uint32_t k, size_t floats, float **state,
                                fed_error *err) FED_CHECKED;

/** Return how many different models are stored now. */
size_t sim_stores_models(sim_stores *stores);

/** Write everything into the file, so that the run can be resumed from it. No store may be used
 * meanwhile. The next change in a store, or call of sim_stores_optimizer, makes the file useless
 * for resuming again. Stores without a path are not written. FED_EIO, FED_ENOSPC. */
fed_status sim_stores_sync(sim_stores *stores, fed_error *err) FED_CHECKED;

/** Free everything. What was not synced can't be resumed. */
void sim_stores_close(sim_stores *stores);

#endif

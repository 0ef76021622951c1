/* The file of the clients' stores: saved for a run that is resumed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_STORE_INDEX_H
#define FEDSIM_STORE_INDEX_H

#include "deploy/sim/stores/store_values.h"

/** Write everything into the file, so that it can be resumed from. FED_EIO, FED_ENOSPC. */
fed_status sim_index_save(sim_stores *stores, fed_error *err) FED_CHECKED;
/** Read what sim_index_save has left in the file. Errors: sim_stores_open. */
fed_status sim_index_load(sim_stores *stores, const char *path, fed_error *err) FED_CHECKED;
/** From now on nothing can be resumed from the file, even if the system dies at once. FED_EIO. */
fed_status sim_index_spoil(sim_stores *stores, fed_error *err) FED_CHECKED;

#endif

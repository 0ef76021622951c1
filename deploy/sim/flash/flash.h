/* What the devices of a simulation keep: the stores of all of them, in memory and one file. */
#ifndef FEDSIM_FLASH_H
#define FEDSIM_FLASH_H

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
typedef struct sim_flash sim_flash;

/**
 * Room for that many clients, numbered from 0, with that many bytes of memory before anything goes
 * into the file. path NULL: in an unlinked temporary file, in TMPDIR
 * or /tmp. Else in the file of that name: with resume, one that sim_flash_sync has left, for as
 * many clients; without, a new one, whatever was there. Errors: FED_EIO, FED_ENOMEM; to resume
 * FED_ENOTFOUND, FED_EFORMAT not such a file, or damaged, or of a run that was killed, FED_EVERSION
 * another release's, FED_EINVAL of another number of clients, FED_EBUSY another process has it.
 * Owner: sim_flash_close.
 */
fed_status sim_flash_open(const char *path, uint32_t clients, bool resume, size_t memory,
                          sim_flash **flash, fed_error *err) FED_CHECKED;

/** The ground that client k stands on; the caller may put other clocks in. It lends what it stores
 * and is not damaged, so no model is copied or hashed for being stored (fedclient/platform.h).
 * Good until sim_flash_close; any number of clients may be opened on it, one after the other. */
void sim_flash_platform(sim_flash *flash, uint32_t k, fedclient_platform *platform);

/** Client k's optimizer state: float32[floats], all 0 at first, and whenever that number is not the
 * one that it was. *state stays where it is until it is asked for with another number. */
fed_status sim_flash_optimizer(sim_flash *flash, uint32_t k, size_t floats, float **state,
                               fed_error *err) FED_CHECKED;

/** Different models that are held now. */
size_t sim_flash_models(sim_flash *flash);

/** Make the file one to resume from; while nobody uses a store. The next change, be it a value or
 * an optimizer's state that was asked for, makes it one of a killed run again. Without a path:
 * nothing to do. FED_EIO, FED_ENOSPC. */
fed_status sim_flash_sync(sim_flash *flash, fed_error *err) FED_CHECKED;

/** Let go of everything. What was not synced can't be resumed. */
void sim_flash_close(sim_flash *flash);

#endif

/* Lists the stores of this build, and finds the store that a coordinator's directory uses. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_H
#define FEDSERVER_STORES_H

#include "fedserver/stores/store.h"

/** The k-th store of stores.def, or NULL where k is too large. Store 0 is the default. */
const fedserver_store *fedserver_store_at(size_t k);

/** End a transaction: commit it where status is FED_OK, else roll it back and return status. */
fed_status fedserver_store_finish(const fedserver_store *store, void *db, fed_status status,
                                  fed_error *err) FED_CHECKED;

/** Find a device by the id of its row. FED_ENOTFOUND: there is none. */
fed_status fedserver_store_device(const fedserver_store *store, void *db, int64_t id,
                                  fedserver_device *device, fed_error *err) FED_CHECKED;

/** A store, and the place of its data, as `fedserver init --store` and the file `store` of the
 * coordinator's directory spell them. */
typedef struct fedserver_store_choice {
    const fedserver_store *store;
    char where[512]; /* "": the store lies in the coordinator's directory */
} fedserver_store_choice;

/** Fail with FED_ENOTFOUND if the directory has a CA's keys, although its store is gone: new keys
 * would shut out all devices for good. Keys that fedserver_store_mark has marked are no failure. */
fed_status fedserver_store_lost(const char *directory, fed_error *err) FED_CHECKED;

/** Mark the directory's keys as those of an init that has not ended: no device trusts them yet, so
 * the next init may replace them. */
fed_status fedserver_store_mark(const char *directory, fed_error *err) FED_CHECKED;
void fedserver_store_unmark(const char *directory);

/** Check that the place of a new store is free. FED_OK: it is. FED_EEXIST: a coordinator's store is
 * there already. Any other failure: the answer is unknown. */
fed_status fedserver_store_absent(const char *directory, const fedserver_store_choice *choice,
                                  fed_error *err) FED_CHECKED;

/** Read the file `store` of a coordinator's directory, and check that the store is there.
 * FED_ENOTFOUND: there is no store; the sentence says what to do. */
fed_status fedserver_store_present(const char *directory, fedserver_store_choice *choice,
                                   fed_error *err) FED_CHECKED;

/** Read the choice of a store from its text: "NAME", "NAME:WHERE", or a URL that begins with the
 * store's name or alias. NULL means the default store. FED_EINVAL: this build has no such store, or
 * WHERE is missing, or the store takes none. */
fed_status fedserver_store_parse(const char *text, fedserver_store_choice *choice,
                                 fed_error *err) FED_CHECKED;

/** Read the file `store` of a coordinator's directory. Without that file the store is the default
 * one: releases before 0.2.0 wrote no such file. */
fed_status fedserver_store_read(const char *directory, fedserver_store_choice *choice,
                                fed_error *err) FED_CHECKED;

/** Write the file `store` of a coordinator's directory. */
fed_status fedserver_store_write(const char *directory, const fedserver_store_choice *choice,
                                 fed_error *err) FED_CHECKED;

#endif

/* Which stores there are, and which one a coordinator's directory uses. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_H
#define FEDSERVER_STORES_H

#include "fedserver/stores/store.h"

/** The k-th store of stores.def, or NULL past the last; the first is the default. */
const fedserver_store *fedserver_store_at(size_t k);

/** End a transaction: commit it where status is FED_OK, else roll it back and return status. */
fed_status fedserver_store_finish(const fedserver_store *store, void *db, fed_status status,
                                  fed_error *err) FED_CHECKED;

/** Find a device by the id of its row. FED_ENOTFOUND: there is none. */
fed_status fedserver_store_device(const fedserver_store *store, void *db, int64_t id,
                                  fedserver_device *device, fed_error *err) FED_CHECKED;

/** A store, and where it lies: the text of `fedserver init --store`, and of the file DIR/store. */
typedef struct fedserver_store_choice {
    const fedserver_store *store;
    char where[512]; /* "": the store lies in the coordinator's directory */
} fedserver_store_choice;

/** FED_OK: there is no such store. FED_EEXIST: there is one. Any other failure: nobody can tell
 * now. */
fed_status fedserver_store_absent(const char *directory, const fedserver_store_choice *choice,
                                  fed_error *err) FED_CHECKED;

/** Read "NAME" or "NAME:WHERE", or a URL that begins with the name; NULL is the default.
 * FED_EINVAL: this build has no such store, or it takes no WHERE, or needs one. */
fed_status fedserver_store_parse(const char *text, fedserver_store_choice *choice,
                                 fed_error *err) FED_CHECKED;

/** What the directory's file `store` says. Without that file it is the default store: releases
 * before 0.2.0 wrote none. */
fed_status fedserver_store_read(const char *directory, fedserver_store_choice *choice,
                                fed_error *err) FED_CHECKED;

/** Write the directory's file `store`. */
fed_status fedserver_store_write(const char *directory, const fedserver_store_choice *choice,
                                 fed_error *err) FED_CHECKED;

#endif

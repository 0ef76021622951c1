/* Closes a connection to the store and opens a new one in a thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/reopening.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "fed/threads.h"

struct fedserver_reopening {
    const fedserver_store *store;
    const char *directory, *where;
    void *db; /* the old handle, until the thread has opened the new one */
    pthread_t thread;
    atomic_bool ended;
    fed_status status;
    fed_error err;
};

static void *reopen(void *user) {
    fedserver_reopening *r = user;
    r->store->close(r->db);
    r->status = r->store->open(r->directory, r->where, &r->db, &r->err);
    atomic_store(&r->ended, true);
    return NULL;
}

fed_status fedserver_reopening_begin(const fedserver_store *store, const char *directory,
                                     const char *where, void *old, fedserver_reopening **reopening,
                                     fed_error *err) {
    fedserver_reopening *r = calloc(1, sizeof *r);
    if (r == NULL) {
        store->close(old);
        return fed_fail(err, FED_ENOMEM, "out of memory for a new connection to the store");
    }
    r->store = store;
    r->directory = directory;
    r->where = where;
    r->db = old;
    if (!fed_thread_start(&r->thread, reopen, r)) {
        store->close(old);
        free(r);
        return fed_fail(err, FED_EIO,
                        "the system gives no thread that connects to the store: allow more threads "
                        "(ulimit -u; TasksMax)");
    }
    *reopening = r;
    return FED_OK;
}

bool fedserver_reopening_ended(const fedserver_reopening *reopening) {
    return atomic_load(&reopening->ended);
}

fed_status fedserver_reopening_end(fedserver_reopening *reopening, void **db, fed_error *err) {
    (void)pthread_join(reopening->thread, NULL);
    const fed_status status = reopening->status;
    if (status == FED_OK) {
        *db = reopening->db;
    } else {
        (void)fed_fail(err, status, "%s", reopening->err.text);
    }
    free(reopening);
    return status;
}

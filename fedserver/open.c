/* Opens a coordinator: puts the server, the routes and the store together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/open.h"

#include "fedserver/routes/router.h"
#include "fedserver/server.h"

fed_status fedserver_open_store(const char *directory, const fedserver_store *store,
                                const fed_log *log, fedserver **server, fed_error *err) {
    return fedserver_open_with(directory, store, &fedserver_router, log, server, err);
}

fed_status fedserver_open(const char *directory, const fed_log *log, fedserver **server,
                          fed_error *err) {
    return fedserver_open_store(directory, NULL, log, server, err);
}

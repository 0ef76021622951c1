/* What a coordinator remembers but does not store. A resumed simulation needs it, to continue
 * exactly where another process stopped. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_REMEMBERED_H
#define FEDSERVER_REMEMBERED_H

#include "fed/api.h"
#include "fedserver/fedserver.h"

FED_API_BEGIN

/*
 * Not promised, so not stored: which devices came lately, which of them may have a free slot of the
 * round, and the downloads that were made. After a restart the first devices to come are served,
 * until the coordinator has learned that again.
 */

/** Write it after the last commit. */
fed_status fedserver_remembered_write(const fedserver *server, fed_writer *w) FED_CHECKED;

/** Read it between the first begin and the first request. The bytes must come from the same
 * release on a machine of the same kind. FED_EFORMAT: the bytes are not from this coordinator. */
fed_status fedserver_remembered_read(fedserver *server, fed_reader *r, fed_error *err) FED_CHECKED;

FED_API_END

#endif

/* What a coordinator remembers but does not store, for simulations that are resumed exactly. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_REMEMBERED_H
#define FEDSERVER_REMEMBERED_H

#include "fed/api.h"
#include "fedserver/fedserver.h"

FED_API_BEGIN

/* The coordinator remembers which devices came lately, which of them may have a free slot of the
 * round, and the answers to downloads that it has made. No device depends on these facts, so they
 * are not stored. After a restart, the coordinator begins without them. */

/** Append what the coordinator remembers to w. Call it after the last fedserver_commit. */
fed_status fedserver_remembered_write(const fedserver *server, fed_writer *w) FED_CHECKED;

/** Restore what fedserver_remembered_write wrote. Call it between the first fedserver_begin and
 * the first request. The bytes must come from the same release on a machine of the same kind.
 * FED_EFORMAT: the bytes are not from this coordinator. */
fed_status fedserver_remembered_read(fedserver *server, fed_reader *r, fed_error *err) FED_CHECKED;

FED_API_END

#endif

/* Slices of shared bytes: for the coordinator's own use. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_BLOB_H
#define FEDSERVER_BLOB_H

#include "fedserver/fedserver.h"

/** Bytes [offset, offset + len) of `whole`, without a copy. The slice holds a reference to
 * `whole`. NULL: no memory. */
fedserver_blob *fedserver_blob_slice(fedserver_blob *whole, size_t offset, size_t len);

#endif

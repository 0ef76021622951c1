/* Slices of shared bytes: for the coordinator's own use. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_BLOB_H
#define FEDSERVER_BLOB_H

#include "fedserver/fedserver.h"

/** Bytes [offset, offset + len) of `whole`, without a copy. The slice holds a reference to
 * `whole`. NULL: no memory. */
fedserver_blob *fedserver_blob_slice(fedserver_blob *whole, size_t offset, size_t len);

/** The bytes of a file, mapped: all processes share them. The file may be deleted meanwhile, but
 * must not shrink. Errors: those of fed_file_map. */
fed_status fedserver_blob_map(const char *path, fedserver_blob **blob, fed_error *err) FED_CHECKED;

#endif

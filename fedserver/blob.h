/* Shared bytes, the part that only the coordinator itself uses. */
#ifndef FEDSERVER_BLOB_H
#define FEDSERVER_BLOB_H

#include "fedserver/fedserver.h"

/** The bytes of `whole` from `offset` on, without a copy: holds a share of it. NULL: no memory. */
fedserver_blob *fedserver_blob_suffix(fedserver_blob *whole, size_t offset);

#endif

/* The bytes of a data file: mapped, unpacked, or the caller's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_FILE_BYTES_H
#define FEDTRAIN_FILE_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"

FED_API_BEGIN

/** Bytes, and how they are given back. */
typedef struct fedtrain_bytes {
    enum { FEDTRAIN_BORROWED = 0, FEDTRAIN_HEAP, FEDTRAIN_MAPPED } owner;
    const uint8_t *data;
    size_t len;
} fedtrain_bytes;

FED_API_END

#endif

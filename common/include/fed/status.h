/* Status codes: the one error type of every library in this project. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_STATUS_H
#define FED_STATUS_H

#include "fed/api.h"

FED_API_BEGIN

/**
 * The result of a call. 0 is success. Values never change, because logs and reports have them: only
 * append new ones.
 *
 * Most functions that return a fed_status are warn_unused_result. After a failure its outputs are
 * unchanged, unless its own comment says otherwise.
 */
typedef enum fed_status {
    FED_OK = 0,
    FED_EINVAL = 1,      /* an argument is not allowed */
    FED_EFORMAT = 2,     /* bytes or text are not in the expected format */
    FED_ENOSPC = 3,      /* the destination buffer, or the disk, is full */
    FED_ENOMEM = 4,      /* memory ran out */
    FED_EIO = 5,         /* a file, socket, database or GPU failed */
    FED_ENOTFOUND = 6,   /* no such file, row, name or key */
    FED_EEXIST = 7,      /* the file, row or name exists already */
    FED_EAUTH = 8,       /* identity not proved, or action not allowed */
    FED_ETIMEOUT = 9,    /* no progress within the limit */
    FED_ENET = 10,       /* the peer can't be reached, or the connection broke */
    FED_ESTATE = 11,     /* valid, but not in this state */
    FED_ENONFINITE = 12, /* NaN or infinity among the values */
    FED_ERANGE = 13,     /* a number outside its documented range */
    FED_EVERSION = 14,   /* a format or protocol version that this build does not know */
    FED_EBUSY = 15,      /* in use; trying again later may work */
    FED_ECANCELED = 16,  /* stopped on request */
    FED_EDECLINED = 17   /* the task does not fit this device */
} fed_status;

#if defined(__GNUC__)
#define FED_CHECKED            __attribute__((warn_unused_result))
#define FED_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define FED_CHECKED
#define FED_PRINTF(fmt, first)
#endif

/** Return the name of a status, such as "FED_EFORMAT"; "FED_?" for other values. Static, never
 * NULL. */
const char *fed_status_name(fed_status status);

/** Return a few plain words for a person, such as "malformed data". Static, never NULL. */
const char *fed_status_text(fed_status status);

/** Evaluate expr. If it fails, return its status from the calling function. */
#define FED_TRY(expr)                                                                              \
    do {                                                                                           \
        fed_status fed_try_ = (expr);                                                              \
        if (fed_try_ != FED_OK) {                                                                  \
            return fed_try_;                                                                       \
        }                                                                                          \
    } while (0)

/** Return status from the calling function unless cond holds. For checking input. */
#define FED_REQUIRE(cond, status)                                                                  \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            return (status);                                                                       \
        }                                                                                          \
    } while (0)

FED_API_END

#endif

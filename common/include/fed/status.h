/* Status codes: the one error type of every library in this project. */
#ifndef FED_STATUS_H
#define FED_STATUS_H

#include "fed/api.h"

FED_API_BEGIN

/**
 * What a call answered. 0 is success. Values are pinned (they travel in logs and reports): append
 * only.
 *
 * Every function that returns a fed_status is warn_unused_result, and leaves its outputs untouched
 * on failure unless its own comment says otherwise.
 */
typedef enum fed_status {
    FED_OK = 0,
    FED_EINVAL = 1,      /* the caller's argument makes no sense */
    FED_EFORMAT = 2,     /* bytes or text that are not what they claim to be */
    FED_ENOSPC = 3,      /* the destination buffer, or the disk, is full */
    FED_ENOMEM = 4,      /* memory ran out */
    FED_EIO = 5,         /* a file, socket or database failed */
    FED_ENOTFOUND = 6,   /* no such file, row, name or key */
    FED_EEXIST = 7,      /* it is there already */
    FED_EAUTH = 8,       /* not who, or not allowed */
    FED_ETIMEOUT = 9,    /* no progress within the limit */
    FED_ENET = 10,       /* the peer can't be reached, or the line broke */
    FED_ESTATE = 11,     /* valid, but not now */
    FED_ENONFINITE = 12, /* NaN or infinity among the values */
    FED_ERANGE = 13,     /* a number outside its documented range */
    FED_EVERSION = 14,   /* a format or protocol version that this build does not speak */
    FED_EBUSY = 15,      /* someone else holds it; trying again later may work */
    FED_ECANCELED = 16,  /* stopped on request */
    FED_EDECLINED = 17   /* a task that does not fit this device; another may */
} fed_status;

#if defined(__GNUC__)
#define FED_CHECKED            __attribute__((warn_unused_result))
#define FED_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define FED_CHECKED
#define FED_PRINTF(fmt, first)
#endif

/** "FED_EFORMAT"; "FED_?" for a value that is none of the above. Static, never NULL. */
const char *fed_status_name(fed_status status);

/** A few plain words for a person, such as "malformed data". Static, never NULL. */
const char *fed_status_text(fed_status status);

/** Hand a failure to our own caller. */
#define FED_TRY(expr)                                                                              \
    do {                                                                                           \
        fed_status fed_try_ = (expr);                                                              \
        if (fed_try_ != FED_OK) {                                                                  \
            return fed_try_;                                                                       \
        }                                                                                          \
    } while (0)

/** Refuse input: unless cond holds, return the status. */
#define FED_REQUIRE(cond, status)                                                                  \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            return (status);                                                                       \
        }                                                                                          \
    } while (0)

FED_API_END

#endif

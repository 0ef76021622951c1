/* Which bytes of an answer a request wants: the Range and If-Range headers (RFC 9110, 14
 * and 13.1.5). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_BYTE_RANGE_H
#define FEDSERVER_BYTE_RANGE_H

#include <stdint.h>

typedef enum fedserver_range_kind {
    FEDSERVER_RANGE_WHOLE =
        0,                    /* no range, or none that is understood: answer 200 with everything */
    FEDSERVER_RANGE_PART = 1, /* 206 */
    FEDSERVER_RANGE_NONE = 2  /* 416: the range begins after the end */
} fedserver_range_kind;

enum { FEDSERVER_TAG_TEXT = 19 }; /* an entity tag with its quotes, and the NUL */

/** A strong entity tag: 16 hex digits in quotes. */
void fedserver_tag_write(uint64_t tag, char dst[FEDSERVER_TAG_TEXT]);

/**
 * range     the header's value: "bytes=5-", "bytes=5-9" or "bytes=-5"; NULL: none. One range only:
 *           a list of them is not understood, which the standard allows
 * if_range  the other's: the range is meant for the answer of that tag only; NULL: none
 * total     bytes of the answer, tag its entity tag
 * first, len  set for PART: inside of total, len > 0
 */
fedserver_range_kind fedserver_range_read(const char *range, const char *if_range, uint64_t total,
                                          uint64_t tag, uint64_t *first, uint64_t *len);

#endif

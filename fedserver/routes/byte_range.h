/* Finds the bytes that a request wants: Range (RFC 9110, section 14.2) and If-Range (section
 * 13.1.5). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_BYTE_RANGE_H
#define FEDSERVER_BYTE_RANGE_H

#include <stdint.h>

typedef enum fedserver_range_kind {
    FEDSERVER_RANGE_WHOLE = 0, /* answer 200 with all bytes */
    FEDSERVER_RANGE_PART = 1,  /* answer 206 with a part */
    FEDSERVER_RANGE_NONE = 2   /* answer 416: the answer has none of the range's bytes */
} fedserver_range_kind;

enum { FEDSERVER_TAG_TEXT = 19 }; /* bytes of an entity tag with its quotes and the NUL */

/** Write a strong entity tag: 16 hex digits in quotes. */
void fedserver_tag_write(uint64_t tag, char dst[FEDSERVER_TAG_TEXT]);

/**
 * Find the bytes of an answer that a request wants.
 *
 * range       value of the header Range: "bytes=5-", "bytes=5-9" or "bytes=-5"; NULL: none. A list
 *             of ranges is not understood, which the standard allows
 * if_range    value of the header If-Range: the range holds only for the answer of that tag; NULL:
 *             none
 * total, tag  bytes of the answer, and its entity tag
 * first, len  set with FEDSERVER_RANGE_PART: inside of total, len > 0
 */
fedserver_range_kind fedserver_range_read(const char *range, const char *if_range, uint64_t total,
                                          uint64_t tag, uint64_t *first, uint64_t *len);

#endif

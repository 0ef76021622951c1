/* Memory in front of a page without access rights: an access past its end crashes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_GUARDED_H
#define FED_TEST_GUARDED_H

#include <stddef.h>
#include <stdint.h>

typedef struct guarded {
    uint8_t *data; /* may be unaligned */
    size_t len;
    void *pages;
    size_t pages_len;
} guarded;

/** Return len bytes copied from src; NULL: zeros. Free them with guarded_free. */
guarded guarded_copy(const void *src, size_t len);
void guarded_free(guarded *g);

#endif

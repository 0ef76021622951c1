/* Memory before a page that may not be accessed: a read or write past its end crashes, also in a
 * release build. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_GUARDED_H
#define FED_TEST_GUARDED_H

#include <stddef.h>
#include <stdint.h>

typedef struct guarded {
    uint8_t *data; /* len bytes; not aligned */
    size_t len;
    void *pages;
    size_t pages_len;
} guarded;

/** Return len bytes copied from src, or zeros if src is NULL. Free them with guarded_free. */
guarded guarded_copy(const void *src, size_t len);
void guarded_free(guarded *g);

#endif

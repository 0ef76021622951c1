/* Memory in front of a page without access rights. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "guarded.h"

#include "fed_test.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

guarded guarded_copy(const void *src, size_t len) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t room = (len + page - 1) / page * page;
    guarded g = {.len = len, .pages_len = room + page};
    g.pages = mmap(NULL, g.pages_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.pages != MAP_FAILED);
    assert_int_equal(mprotect((uint8_t *)g.pages + room, page, PROT_NONE), 0);
    g.data = (uint8_t *)g.pages + (room - len);
    if (src != NULL && len > 0) {
        memcpy(g.data, src, len);
    }
    return g;
}

void guarded_free(guarded *g) {
    assert_int_equal(munmap(g->pages, g->pages_len), 0);
    *g = (guarded){.len = 0};
}

/*
 * Golden patches: vectors/patches/NAME.txt. Files are added, but never changed. decode.py, which
 * shares no code with the library, reads them, too.
 *
 * A file has comments (#) and the words from, to and patch. After from and to, eight hexadecimal
 * digits are the bits of a value; from can also have "none", for a snapshot. After patch, two
 * digits are a byte. "COUNT*" before an item repeats it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedcodec/patch.h"
#include "vector_file.h"

enum { VALUES = 70000, BYTES = 4 * VALUES };

typedef struct vector {
    char name[VECTOR_NAME];
    vector_words from, none, to, patch; /* none.named: the patch is a snapshot */
} vector;

static void check_vector(const vector *v) {
    static float from[VALUES], to[VALUES];
    static uint8_t patch[BYTES];
    const size_t n = v->to.len;
    assert_true(n <= VALUES && v->patch.len <= BYTES);
    assert_true(v->none.named ? v->from.len == 0 : v->from.len == n);
    memset(from, 0, sizeof from);
    memcpy(from, v->from.word, v->from.len * sizeof *from);
    memcpy(to, v->to.word, n * sizeof *to);
    vector_bytes(v->name, &v->patch, patch);
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok(fedcodec_patch_write(v->none.named ? NULL : from, to, n, &w));
    if (w.len != v->patch.len || memcmp(w.data, patch, w.len) != 0) {
        fail_msg("%s: the library now writes this patch with other bytes", v->name);
    }
    assert_fed_ok(fedcodec_patch_apply(patch, v->patch.len, from, n));
    assert_memory_equal(from, to, n * sizeof *to);
    fed_writer_free(&w);
}

FED_TEST(old_patches_are_read_and_written_as_they_always_were) {
    static vector v;
    const vector_field fields[] = {{.name = "from", .words = &v.from},
                                   {.name = "none", .words = &v.none},
                                   {.name = "to", .words = &v.to},
                                   {.name = "patch", .words = &v.patch}};
    vector_files files = vector_files_open(FED_SOURCE_DIR "/tests/vectors/patches");
    size_t count = 0;
    for (; vector_files_next(&files, fields, 4, v.name); count++) {
        check_vector(&v);
    }
    assert_true(count >= 6);
}

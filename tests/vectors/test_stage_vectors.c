/*
 * Golden bytes of the second stages: vectors/stages/NAME.txt, made by an independent implementation
 * of docs/codec-formats.md, or by a zstd program. Files are added, but never changed.
 *
 * A file has comments (#) and the words stage, plain and packed. stage is followed by the stage's
 * name, the others by bytes as two hexadecimal digits. "COUNT*" before a byte repeats it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "codecs/stage.h"
#include "vector_file.h"

enum { BYTES = 65536 };

static const fedcodec_stage *stage_named(const char *name) {
    for (size_t k = 0; fedcodec_stage_at(k) != NULL; k++) {
        if (strcmp(fedcodec_stage_at(k)->name, name) == 0) {
            return fedcodec_stage_at(k);
        }
    }
    assert_string_equal(name, "zstd"); /* a build may lack only zstd */
    return NULL;
}

static void check_vector(const char *name, const char *stage, const vector_words *plain,
                         const vector_words *packed) {
    static uint8_t from[BYTES], wanted[BYTES], dst[BYTES];
    const fedcodec_stage *s = stage_named(stage);
    if (s == NULL) {
        return;
    }
    assert_true(plain->len <= BYTES && packed->len <= BYTES);
    vector_bytes(name, plain, from);
    vector_bytes(name, packed, wanted);
    size_t len = s->pack(from, plain->len, dst, sizeof dst);
    bool is_same = len == packed->len && memcmp(dst, wanted, len) == 0;
    if (!is_same && strcmp(stage, "zstd") != 0) { /* each release of zstd may write other bytes */
        fail_msg("%s: the stage now packs these bytes in another way", name);
    }
    assert_fed_ok(s->unpack(wanted, packed->len, dst, plain->len));
    assert_memory_equal(dst, from, plain->len);
}

FED_TEST(old_bytes_unpack_and_pack_as_they_always_did) {
    static vector_words plain, packed;
    char name[VECTOR_NAME], stage[32];
    const vector_field fields[] = {{"stage", NULL, stage, sizeof stage},
                                   {.name = "plain", .words = &plain},
                                   {.name = "packed", .words = &packed}};
    vector_files files = vector_files_open(FED_SOURCE_DIR "/tests/vectors/stages");
    size_t count = 0;
    for (; vector_files_next(&files, fields, 3, name); count++) {
        check_vector(name, stage, &plain, &packed);
    }
    assert_true(count >= 17);
}

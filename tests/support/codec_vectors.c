/* Golden messages of codecs, read from files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec_vectors.h"

#include "fed_test.h"

void assert_vector_floats(const codec_vector *v, const char *what, const float *x,
                          const vector_words *wanted) {
    for (size_t i = 0; i < wanted->len; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        if (bits != wanted->word[i]) {
            fail_msg("%s: the bits of %s[%zu] are %08x instead of %08x", v->name, what, i, bits,
                     wanted->word[i]);
        }
    }
}

size_t codec_vectors_each(const char *folder, void (*check)(const codec_vector *v)) {
    static codec_vector v;
    const vector_field fields[] = {
        {"spec", NULL, v.spec, sizeof v.spec},    {.name = "small", .words = &v.small},
        {.name = "tensors", .words = &v.tensors}, {.name = "statistics", .words = &v.statistics},
        {.name = "input", .words = &v.input},     {.name = "message", .words = &v.message},
        {.name = "decoded", .words = &v.decoded}, {.name = "residual", .words = &v.residual}};
    vector_files files = vector_files_open(folder);
    size_t count = 0;
    for (; vector_files_next(&files, fields, sizeof fields / sizeof fields[0], v.name); count++) {
        check(&v);
    }
    return count;
}

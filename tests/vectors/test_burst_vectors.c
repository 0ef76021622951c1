/* Golden bursts, vectors/bursts: encoded, decoded and rounded, on each unit of vector instructions.
 * bursts.py made them. Files are never changed: a card must read what an older card sends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <stdbool.h>

#include "codecs/registry.h"
#include "fed/file.h"
#include "fedcodec/bursts.h"

enum { MOST = 4096, TEXT = 1 << 20 };

typedef struct list {
    uint32_t word[9 * MOST / 2];
    size_t len;
} list;

static bool read_list(const char *name, const char *kind, list *l) {
    char path[1024];
    uint8_t *text = NULL;
    size_t len;
    snprintf(path, sizeof path, "%s/tests/vectors/bursts/%s.%s", FED_SOURCE_DIR, name, kind);
    fed_status status = fed_file_read(path, TEXT, &text, &len, NULL);
    if (status == FED_ENOTFOUND) {
        return false;
    }
    assert_fed_ok(status);
    char *rest = NULL;
    l->len = 0;
    for (char *word = strtok_r((char *)text, " \n", &rest); word != NULL;
         word = strtok_r(NULL, " \n", &rest)) {
        char *end;
        assert_true(l->len < sizeof l->word / sizeof l->word[0]);
        l->word[l->len++] = (uint32_t)strtoul(word, &end, 16);
        assert_int_equal(*end, '\0');
    }
    free(text);
    return true;
}

static size_t read_bursts(const char *name, uint8_t *bursts) {
    static list l;
    assert_true(read_list(name, "bursts", &l));
    for (size_t i = 0; i < l.len; i++) {
        bursts[i] = (uint8_t)l.word[i];
    }
    return l.len;
}

static const fedcodec_burst_coder *on_unit(size_t k) {
    const fedcodec_unit *unit = fedcodec_unit_at(k);
    return unit == NULL ? NULL : unit->codecs[FEDCODEC_INDEX_inceptionn]->bursts;
}

static void assert_words(const char *name, const uint32_t *words, const list *wanted) {
    for (size_t i = 0; i < wanted->len; i++) {
        if (words[i] != wanted->word[i]) {
            fail_msg("%s: value %zu is %08x instead of %08x", name, i, words[i], wanted->word[i]);
        }
    }
}

static uint8_t bursts[9 * MOST / 2], encoded[9 * MOST / 2];
static list values, decoded;
static uint32_t y[MOST];

FED_TEST(a_nic_sends_what_the_document_says) {
    size_t found = 0;
    for (int e = 1; e <= 15; e++) {
        char name[8];
        snprintf(name, sizeof name, "e%d", e);
        if (!read_list(name, "values", &values)) {
            continue;
        }
        found++;
        assert_true(read_list(name, "decoded", &decoded) && values.len <= MOST);
        const size_t n = values.len, wanted = read_bursts(name, bursts);
        for (size_t u = 0; on_unit(u) != NULL; u++) {
            size_t len = 0;
            assert_int_equal(on_unit(u)->encode(e, values.word, n, encoded, sizeof encoded, &len),
                             n);
            assert_int_equal(len, wanted);
            assert_memory_equal(encoded, bursts, len);
            assert_fed_ok(on_unit(u)->decode(bursts, len, y, n));
            assert_words(name, y, &decoded);
            on_unit(u)->round(e, (const float *)values.word, (float *)y, n);
            assert_words(name, y, &decoded);
        }
    }
    assert_int_equal(found, 4);
}

FED_TEST(a_nic_takes_what_no_encoder_makes) {
    const size_t len = read_bursts("any", bursts);
    assert_true(read_list("any", "decoded", &decoded) && decoded.len == 2000);
    for (size_t u = 0; on_unit(u) != NULL; u++) {
        assert_fed_ok(on_unit(u)->decode(bursts, len, y, decoded.len));
        assert_words("any", y, &decoded);
    }
}

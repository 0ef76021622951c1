/* Text data: tokens, units, speakers, parts, and the vocabulary that numbers the tokens. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedtrain/text.h"

static const char play[] = "a prologue\n"
                           "\n"
                           "Tom:\n"
                           "one two\n"
                           "no name:\n"
                           "\n"
                           "First Citizen: \r\n"
                           "two\n"
                           "\n"
                           "Tom:\n"
                           "two three";

static int setup(void **state) {
    (void)fed_test_dir_make(state);
    fed_test_put(fed_test_dir, "play.txt", play, strlen(play));
    return 0;
}

static fedtrain_text open_text(const char *name, const char *part,
                               const fedtrain_vocabulary *words) {
    fedtrain_text text;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_text_open(name, fed_test_dir, part, words, &text, &err));
    return text;
}

static void put(const char *name, const char *text) {
    fed_test_put(fed_test_dir, name, text, strlen(text));
}

/* Check the tokens of a part. wanted: the words, each followed by a vertical bar. */
static void assert_tokens(const fedtrain_text *text, const uint32_t *token, size_t n,
                          const char *wanted) {
    char got[2000] = "";
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *word = fedtrain_vocabulary_word(text->words, token[i], &len);
        at += (size_t)snprintf(got + at, sizeof got - at, "%.*s|", (int)len, word);
    }
    assert_string_equal(got, wanted);
}

FED_TEST(test_words_are_numbered_by_how_often_they_come) {
    put("ptb.train.txt", " b a  c\tb \n a b <unk>\n\nd");
    fedtrain_text text = open_text("ptb", "train", NULL);
    static const char *const order[] = {"<eos>", "b", "a", "<unk>", "c", "d"};
    assert_tokens(&text, text.token, text.count, "b|a|c|b|<eos>|a|b|<unk>|<eos>|<eos>|d|<eos>|");
    assert_int_equal(fedtrain_vocabulary_size(text.words), 6);
    for (uint32_t id = 0; id < 6; id++) {
        assert_int_equal(fedtrain_vocabulary_find(text.words, order[id], strlen(order[id])), id);
    }
    assert_int_equal(fedtrain_vocabulary_find(text.words, "zzz", 3), 3);
    fedtrain_text_free(&text);
    assert_null(text.token);
}

FED_TEST(test_rare_words_make_place_for_unk) {
    put("t.txt", "b b b a a c\n");
    fedtrain_text text = open_text("words:vocabulary=3", "t", NULL);
    assert_int_equal(fedtrain_vocabulary_size(text.words), 3);
    assert_tokens(&text, text.token, text.count, "b|b|b|a|a|<unk>|<unk>|");
    assert_int_equal(text.token[5], 2);
    fedtrain_text_free(&text);
    text = open_text("words:vocabulary=9", "t", NULL);
    assert_int_equal(fedtrain_vocabulary_size(text.words), 5); /* with <unk> */
    fedtrain_text_free(&text);
}

FED_TEST(test_another_part_uses_the_vocabulary_of_the_first) {
    put("train.txt", "a b\n");
    put("test.txt", "b c\n");
    fedtrain_text train = open_text("words", "train", NULL);
    fedtrain_text test = open_text("words", "test", train.words);
    assert_tokens(&test, test.token, test.count, "b|<unk>|<eos>|");
    assert_ptr_equal(test.words, train.words);
    fedtrain_text_free(&test);
    fedtrain_text_free(&train);
}

FED_TEST(test_characters_are_bytes) {
    put("t.txt", "ab b\n\xc3\xa4\n");
    fedtrain_text text = open_text("chars", "t", NULL);
    assert_tokens(&text, text.token, text.count, "a|b| |b|\n|\xc3|\xa4|\n|");
    assert_int_equal(fedtrain_vocabulary_size(text.words), 7);
    assert_int_equal(fedtrain_vocabulary_find(text.words, "\n", 1), 0);
    assert_int_equal(fedtrain_vocabulary_find(text.words, "?", 1), 6);
    fedtrain_text_free(&text);
}

FED_TEST(test_units_are_lines_where_nobody_speaks) {
    put("t.txt", "a b\n\nc\nsaid:\nd");
    fedtrain_text text = open_text("words", "t", NULL);
    static const size_t unit[] = {0, 3, 4, 6, 8, 10};
    assert_int_equal(text.units, 5);
    assert_memory_equal(text.unit, unit, sizeof unit);
    assert_null(text.group);
    assert_int_equal(text.groups, 0);
    fedtrain_text_free(&text);
}

FED_TEST(test_units_are_speeches_and_groups_their_speakers) {
    fedtrain_text text = open_text("words", "play", NULL);
    static const uint32_t group[] = {0, 1, 2, 1};
    static const char *const speech[] = {
        "a|prologue|<eos>|<eos>|", "Tom:|<eos>|one|two|<eos>|no|name:|<eos>|<eos>|",
        "First|Citizen:|<eos>|two|<eos>|<eos>|", "Tom:|<eos>|two|three|<eos>|"};
    assert_int_equal(text.units, 4);
    assert_int_equal(text.groups, 3);
    assert_memory_equal(text.group, group, sizeof group);
    for (size_t u = 0; u < 4; u++) {
        assert_tokens(&text, text.token + text.unit[u], text.unit[u + 1] - text.unit[u], speech[u]);
    }
    assert_int_equal(text.unit[4], text.count);
    fedtrain_text_free(&text);
}

FED_TEST(test_a_client_joins_its_units) {
    fedtrain_text text = open_text("words", "play", NULL);
    const uint32_t unit[] = {3, 0};
    uint32_t *token = NULL;
    size_t count = 77;
    assert_fed_ok(fedtrain_text_join(&text, unit, 2, &token, &count));
    assert_tokens(&text, token, count, "Tom:|<eos>|two|three|<eos>|a|prologue|<eos>|<eos>|");
    free(token);
    assert_fed_ok(fedtrain_text_join(&text, unit, 0, &token, &count));
    assert_int_equal(count, 0);
    free(token);
    fedtrain_text_free(&text);
}

/* The cut is after nine tenths of the bytes; nine of these ten speeches begin before it. */
FED_TEST(test_shakespeare_is_cut_after_nine_tenths) {
    char text[300] = "";
    for (size_t i = 0; i < 10; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%c:\nhum\n\n", (char)('A' + i));
    }
    put("shakespeare.txt", text);
    fedtrain_text train = open_text("shakespeare", "train", NULL);
    fedtrain_text test = open_text("shakespeare", "test", train.words);
    assert_int_equal(train.units, 9);
    assert_int_equal(train.groups, 9);
    assert_int_equal(train.count + test.count, strlen(text));
    assert_int_equal(test.groups, 1);
    assert_tokens(&test, test.token, test.count, "J|:|\n|h|u|m|\n|\n|");
    fedtrain_text_free(&test);
    fedtrain_text_free(&train);
}

static void assert_refused(const char *name, const char *part, fed_status wanted,
                           const char *words) {
    fedtrain_text text = {.count = 77};
    fed_error err = {0};
    assert_fed_status(fedtrain_text_open(name, fed_test_dir, part, NULL, &text, &err), wanted);
    assert_fed_says(err, words);
    assert_int_equal(text.count, 77);
}

FED_TEST(test_unknown_names_parts_and_options_are_refused) {
    assert_refused("word", "train", FED_EINVAL, "unknown text \"word\": write ptb, ");
    assert_refused("", "train", FED_EINVAL, "unknown text");
    assert_refused("words:size=3", "play", FED_EINVAL, ":vocabulary=N");
    assert_refused("words:vocabulary=", "play", FED_EINVAL, ":vocabulary=N");
    assert_refused("words:vocabulary=1", "play", FED_EINVAL, "from 2 to");
    assert_refused("words:vocabulary=3x", "play", FED_EINVAL, ":vocabulary=N");
    assert_refused("shakespeare", "valid", FED_EINVAL, "write train or test");
    assert_refused("words", "../play", FED_EINVAL, "can't be a part");
    assert_refused("words", "none", FED_ENOTFOUND, "none.txt");
}

FED_TEST(test_an_empty_text_is_refused) {
    put("t.txt", "");
    put("blank.txt", "  ");
    assert_refused("words", "t", FED_EFORMAT, "t.txt: there is no text");
    assert_refused("chars", "t", FED_EFORMAT, "t.txt: there is no text");
    assert_refused("words", "blank", FED_EFORMAT, "there is no text");
}

/* More words than the first hash table holds, some of them prefixes of others. */
FED_TEST(test_thousands_of_words_keep_apart) {
    enum { WORDS = 5000 };
    char *text = malloc(WORDS * 8);
    assert_non_null(text);
    size_t at = 0;
    for (int i = 0; i < WORDS; i++) {
        at += (size_t)sprintf(text + at, "%x%c", (unsigned)i, i % 10 == 9 ? '\n' : ' ');
    }
    fed_test_put(fed_test_dir, "t.txt", text, at);
    fedtrain_text read = open_text("words", "t", NULL);
    assert_int_equal(fedtrain_vocabulary_size(read.words), WORDS + 2);
    for (uint32_t i = 0; i < WORDS; i++) {
        char word[16];
        int len = snprintf(word, sizeof word, "%x", i);
        assert_int_equal(fedtrain_vocabulary_find(read.words, word, (size_t)len),
                         read.token[i + i / 10]);
    }
    fedtrain_text_free(&read);
    free(text);
}

FED_TEST(test_the_names_can_be_listed) {
    assert_string_equal(fedtrain_text_name(0), "ptb");
    assert_string_equal(fedtrain_text_name(3), "chars");
    assert_null(fedtrain_text_name(4));
}

int main(void) {
    return fed_cases_run_each(setup, fed_test_dir_remove);
}

/* Data sets of pictures or text by their names, and a client's share of one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fedtrain/data.h"

static int setup(void **state) {
    static const char table[] = "1,2,0\n3,4,1\n5,6,1\n7,8,0\n";
    (void)fed_test_dir_make(state);
    fed_test_put(fed_test_dir, "train.csv", table, sizeof table - 1);
    fed_test_put(fed_test_dir, "train.txt", "b a a\na b\na\n", 12);
    fed_test_put(fed_test_dir, "test.txt", "c b a\n", 6);
    return 0;
}

static fedtrain_data open_data(const char *name, const char *part) {
    fedtrain_data data;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_data_open(name, fed_test_dir, part, "train", &data, &err));
    return data;
}

static fedtrain_share take_share(const fedtrain_data *data, uint32_t clients, uint32_t k) {
    fedtrain_partition all;
    fedtrain_share share;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_data_split(data, FEDTRAIN_SPLIT_IID, clients, 1, &all, &err));
    assert_fed_ok_err(fedtrain_share_take(data, &all, k, &share, &err));
    fedtrain_partition_free(&all);
    return share;
}

FED_TEST(a_name_says_whether_it_is_samples_or_a_text) {
    fedtrain_data table = open_data("csv:label=last", "train"), text = open_data("words", "train");
    assert_false(table.is_text);
    assert_int_equal(table.set.count, 4);
    assert_true(text.is_text);
    assert_int_equal(text.text.count, 9); /* six words and three ends of lines */
    fedtrain_data_free(&table);
    fedtrain_data_free(&text);
}

FED_TEST(another_part_of_a_text_has_the_words_of_the_training_part) {
    fedtrain_data train = open_data("words", "train"), test = open_data("words", "test");
    const fedtrain_vocabulary *words = test.text.words;
    assert_int_equal(fedtrain_vocabulary_size(words), fedtrain_vocabulary_size(train.text.words));
    /* The word c is not in the training part. */
    assert_int_equal(test.text.token[0], fedtrain_vocabulary_find(words, "<unk>", 5));
    assert_int_equal(test.text.token[1], fedtrain_vocabulary_find(train.text.words, "b", 1));
    fedtrain_data_free(&train);
    assert_int_equal(fedtrain_vocabulary_find(words, "a", 1), test.text.token[2]);
    fedtrain_data_free(&test);
}

FED_TEST(shares_are_samples_or_tokens_and_together_all) {
    static const char *const names[] = {"csv", "words"};
    static const size_t sizes[] = {4, 9};
    for (size_t i = 0; i < 2; i++) {
        fedtrain_data data = open_data(names[i], "train");
        size_t together = 0;
        for (uint32_t k = 0; k < 3; k++) {
            fedtrain_share share = take_share(&data, 3, k);
            fedtrain_job job = {.steps = 7};
            fedtrain_job_use(&job, &data, &share);
            assert_true((job.token != NULL) == data.is_text);
            assert_int_equal(share.size, data.is_text ? job.token_count : job.shard->count);
            assert_int_equal(job.steps, 7);
            together += share.size;
            fedtrain_share_free(&share);
        }
        assert_int_equal(together, sizes[i]);
        fedtrain_data_free(&data);
    }
}

/* Every sample is trained on or held back, and none of them both. */
static void check_parted(const fedtrain_share *share, const fedtrain_share *held) {
    unsigned seen[10] = {0};
    for (size_t i = 0; i < share->shard.count; i++) {
        seen[share->shard.index[i]]++;
    }
    for (size_t i = 0; i < held->shard.count; i++) {
        seen[held->shard.index[i]]++;
    }
    for (size_t i = 0; i < share->shard.count + held->shard.count; i++) {
        assert_int_equal(seen[i], 1);
    }
}

FED_TEST(what_is_held_back_is_not_trained_on) {
    static const struct {
        double fraction;
        size_t held;
    } cases[] = {{0, 0}, {0.1, 1}, {0.5, 2}, {0.9, 3}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fedtrain_data data = open_data("csv", "train");
        fedtrain_share share = take_share(&data, 1, 0), held;
        fed_error err = {0};
        assert_fed_ok_err(fedtrain_share_hold(&share, cases[k].fraction, 7, &held, &err));
        assert_int_equal(held.size, cases[k].held);
        assert_int_equal(held.shard.count, cases[k].held);
        assert_int_equal(share.size, 4 - cases[k].held);
        check_parted(&share, &held);
        fedtrain_share_free(&held);
        fedtrain_share_free(&share);
        fedtrain_data_free(&data);
    }
}

FED_TEST(the_end_of_a_text_is_held_back) {
    fedtrain_data data = open_data("words", "train");
    fedtrain_share share = take_share(&data, 1, 0), held;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_share_hold(&share, 0.01, 7, &held, &err));
    assert_int_equal(held.token_count, 2);
    assert_int_equal(share.token_count, 7);
    assert_int_equal(share.size, 7);
    assert_memory_equal(held.token, share.token + 7, 2 * sizeof *held.token);
    fedtrain_share_free(&held);
    fedtrain_share_free(&share);
    fedtrain_data_free(&data);
}

FED_TEST(a_share_of_one_sample_holds_nothing_back) {
    fedtrain_data data = open_data("csv", "train");
    fedtrain_share share = take_share(&data, 4, 0), held;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_share_hold(&share, 0.5, 7, &held, &err));
    assert_int_equal(share.size, 1);
    assert_int_equal(held.size, 0);
    fedtrain_share_free(&held);
    fedtrain_share_free(&share);
    fedtrain_data_free(&data);
}

FED_TEST(who_is_no_client_has_no_share) {
    fedtrain_data data = open_data("csv", "train");
    fedtrain_partition all;
    fedtrain_share share;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_data_split(&data, FEDTRAIN_SPLIT_IID, 2, 1, &all, &err));
    assert_fed_status(fedtrain_share_take(&data, &all, 2, &share, &err), FED_EINVAL);
    assert_fed_says(err, "no client 2 among 2");
    fedtrain_partition_free(&all);
    fedtrain_data_free(&data);
}

int main(void) {
    return fed_cases_run(setup, fed_test_dir_remove);
}

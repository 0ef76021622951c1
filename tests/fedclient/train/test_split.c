/* Splits: every sample with exactly one client, the same for the same seed, and what each promises.
 */
#include "fed_test.h"

#include "fedtrain/dataset.h"

enum { SAMPLES = 1003, CLASSES = 10 };

static uint8_t label[SAMPLES];
static fedtrain_dataset set = {.count = SAMPLES, .classes = CLASSES, .label = label};

static int setup(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        label[i] = (uint8_t)(i * 7 % CLASSES);
    }
    return 0;
}

static fedtrain_shard take(fedtrain_split split, uint32_t clients, uint32_t k, uint64_t seed) {
    fedtrain_shard shard;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_shard_take(&set, split, clients, k, seed, &shard, &err));
    return shard;
}

/* Each sample has one owner, and no client much more than another. */
static void check_partition(fedtrain_split split, uint32_t clients) {
    uint8_t owned[SAMPLES] = {0};
    size_t least = SAMPLES, most = 0;
    for (uint32_t k = 0; k < clients; k++) {
        fedtrain_shard shard = take(split, clients, k, 5);
        for (size_t i = 0; i < shard.count; i++) {
            assert_true(shard.index[i] < SAMPLES);
            owned[shard.index[i]]++;
        }
        least = shard.count < least ? shard.count : least;
        most = shard.count > most ? shard.count : most;
        fedtrain_shard_free(&shard);
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        assert_int_equal(owned[i], 1);
    }
    assert_true(most - least <= (split == FEDTRAIN_SPLIT_IID ? 1 : 2));
}

static void test_each_sample_goes_to_exactly_one_client(void **state) {
    (void)state;
    static const uint32_t clients[] = {1, 2, 7, 100, 501};
    for (size_t i = 0; i < 5; i++) {
        check_partition(FEDTRAIN_SPLIT_IID, clients[i]);
        check_partition(FEDTRAIN_SPLIT_TWO_CLASS, clients[i]);
    }
}

static size_t classes_in(const fedtrain_shard *shard) {
    uint8_t seen[CLASSES] = {0};
    size_t classes = 0;
    for (size_t i = 0; i < shard->count; i++) {
        classes += seen[label[shard->index[i]]]++ == 0;
    }
    return classes;
}

/* A piece is shorter than a class, so it touches two at most; most lie inside one. */
static void test_two_class_clients_see_few_classes(void **state) {
    (void)state;
    size_t with_two = 0;
    for (uint32_t k = 0; k < 50; k++) {
        fedtrain_shard shard = take(FEDTRAIN_SPLIT_TWO_CLASS, 50, k, 1);
        assert_true(classes_in(&shard) <= 4);
        with_two += classes_in(&shard) <= 2;
        fedtrain_shard_free(&shard);
    }
    assert_true(with_two > 25);
}

static void test_iid_clients_see_many_classes(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 10; k++) {
        fedtrain_shard shard = take(FEDTRAIN_SPLIT_IID, 10, k, 1);
        assert_int_equal(classes_in(&shard), CLASSES);
        fedtrain_shard_free(&shard);
    }
}

static void test_the_seed_alone_decides(void **state) {
    (void)state;
    for (int split = FEDTRAIN_SPLIT_IID; split <= FEDTRAIN_SPLIT_TWO_CLASS; split++) {
        fedtrain_shard a = take((fedtrain_split)split, 9, 4, 77);
        fedtrain_shard b = take((fedtrain_split)split, 9, 4, 77);
        fedtrain_shard c = take((fedtrain_split)split, 9, 4, 78);
        assert_int_equal(a.count, b.count);
        assert_memory_equal(a.index, b.index, a.count * sizeof *a.index);
        assert_true(a.count != c.count || memcmp(a.index, c.index, a.count * sizeof *a.index) != 0);
        fedtrain_shard_free(&a);
        fedtrain_shard_free(&b);
        fedtrain_shard_free(&c);
    }
}

static void assert_refused(uint32_t clients, uint32_t k) {
    fedtrain_shard shard;
    fed_error err = {0};
    assert_fed_status(
        fedtrain_shard_take(&set, FEDTRAIN_SPLIT_TWO_CLASS, clients, k, 1, &shard, &err),
        FED_EINVAL);
    assert_true(err.text[0] != '\0');
}

static void test_impossible_shares_are_refused(void **state) {
    (void)state;
    assert_refused(0, 0);
    assert_refused(5, 5);
    assert_refused(SAMPLES / 2 + 1, 0);
}

static void test_names_are_known_and_others_refused(void **state) {
    (void)state;
    fedtrain_split split;
    fed_error err = {0};
    assert_fed_ok(fedtrain_split_parse("iid", &split, &err));
    assert_int_equal(split, FEDTRAIN_SPLIT_IID);
    assert_fed_ok(fedtrain_split_parse("two-class", &split, &err));
    assert_int_equal(split, FEDTRAIN_SPLIT_TWO_CLASS);
    assert_fed_status(fedtrain_split_parse("IID", &split, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "two-class"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_sample_goes_to_exactly_one_client),
        cmocka_unit_test(test_two_class_clients_see_few_classes),
        cmocka_unit_test(test_iid_clients_see_many_classes),
        cmocka_unit_test(test_the_seed_alone_decides),
        cmocka_unit_test(test_impossible_shares_are_refused),
        cmocka_unit_test(test_names_are_known_and_others_refused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

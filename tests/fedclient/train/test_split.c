/* Splits: each sample belongs to exactly one client, and the same seed gives the same split. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/hash.h"
#include "fedtrain/split.h"

enum { SAMPLES = 1003, CLASSES = 10 };

static uint8_t label[SAMPLES];
static fedtrain_dataset set = {.count = SAMPLES, .classes = CLASSES, .label = label};

static const fedtrain_split by_mix = {.kind = FEDTRAIN_BY_DIRICHLET, .alpha = 0.3};
static const fedtrain_split by_quantity = {.kind = FEDTRAIN_BY_QUANTITY, .alpha = 0.3};
static const fedtrain_split by_group = {.kind = FEDTRAIN_BY_GROUP};

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

static fedtrain_partition divide(fedtrain_split split, uint32_t clients, uint64_t seed) {
    fedtrain_partition all;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_dataset_split(&set, split, clients, seed, &all, &err));
    return all;
}

static void check_partition(fedtrain_split split, uint32_t clients, size_t spread) {
    uint8_t owned[SAMPLES] = {0};
    size_t least = SAMPLES, most = 0;
    fedtrain_partition all = divide(split, clients, 5);
    assert_int_equal(all.start[0], 0);
    assert_int_equal(all.start[clients], SAMPLES);
    for (uint32_t k = 0; k < clients; k++) {
        fedtrain_shard shard = fedtrain_partition_shard(&all, k);
        for (size_t i = 0; i < shard.count; i++) {
            assert_true(shard.index[i] < SAMPLES);
            owned[shard.index[i]]++;
        }
        least = shard.count < least ? shard.count : least;
        most = shard.count > most ? shard.count : most;
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        assert_int_equal(owned[i], 1);
    }
    assert_true(most - least <= spread);
    fedtrain_partition_free(&all);
}

FED_TEST(test_each_sample_goes_to_exactly_one_client) {
    static const uint32_t clients[] = {1, 2, 7, 100, 501};
    static const double alphas[] = {1e-3, 0.1, 1, 1e3};
    for (size_t i = 0; i < 5; i++) {
        check_partition(FEDTRAIN_SPLIT_IID, clients[i], 1);
        check_partition(FEDTRAIN_SPLIT_TWO_CLASS, clients[i], 2);
        check_partition(by_quantity, clients[i], SAMPLES);
        for (size_t a = 0; a < 4; a++) {
            check_partition((fedtrain_split){.kind = FEDTRAIN_BY_DIRICHLET, .alpha = alphas[a]},
                            clients[i], 1);
        }
    }
    for (uint32_t k = 1; k <= CLASSES; k++) {
        check_partition((fedtrain_split){.kind = FEDTRAIN_BY_CLASSES, .k = k}, 100, k);
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

/* A client gets two pieces, each shorter than a class: samples of at most four classes, usually
 * two. */
FED_TEST(test_two_class_clients_see_few_classes) {
    size_t with_two = 0;
    for (uint32_t k = 0; k < 50; k++) {
        fedtrain_shard shard = take(FEDTRAIN_SPLIT_TWO_CLASS, 50, k, 1);
        assert_true(classes_in(&shard) <= 4);
        with_two += classes_in(&shard) <= 2;
        fedtrain_shard_free(&shard);
    }
    assert_true(with_two > 25);
}

FED_TEST(test_iid_clients_see_many_classes) {
    for (uint32_t k = 0; k < 10; k++) {
        fedtrain_shard shard = take(FEDTRAIN_SPLIT_IID, 10, k, 1);
        assert_int_equal(classes_in(&shard), CLASSES);
        fedtrain_shard_free(&shard);
    }
}

/* Return the mean over clients of the sum of squared class shares: 1 if each client has one class,
 * 1 / 10 if all have the same mix. */
static double concentration(const uint8_t *labels, const fedtrain_partition *all) {
    double sum = 0;
    for (uint32_t k = 0; k < all->clients; k++) {
        fedtrain_shard shard = fedtrain_partition_shard(all, k);
        double of_class[CLASSES] = {0};
        for (size_t i = 0; i < shard.count; i++) {
            of_class[labels[shard.index[i]]] += 1.0 / (double)shard.count;
        }
        for (size_t c = 0; c < CLASSES; c++) {
            sum += of_class[c] * of_class[c];
        }
    }
    return sum / all->clients;
}

/* The expected mean for Dirichlet's distribution is (alpha + 1) / (10 alpha + 1). It is lower when
 * a class runs out, and a little higher because shares are whole samples. */
FED_TEST(test_alpha_says_how_unequal_the_mixes_are) {
    static const double alphas[] = {0.01, 0.1, 0.5, 2, 100};
    static uint8_t labels[20000];
    for (size_t i = 0; i < sizeof labels; i++) {
        labels[i] = (uint8_t)(i % CLASSES);
    }
    const fedtrain_dataset many = {.count = sizeof labels, .classes = CLASSES, .label = labels};
    for (size_t i = 0; i < 5; i++) {
        const fedtrain_split split = {.kind = FEDTRAIN_BY_DIRICHLET, .alpha = alphas[i]};
        double wanted = (alphas[i] + 1) / (10 * alphas[i] + 1);
        fedtrain_partition all;
        fed_error err = {0};
        assert_fed_ok_err(fedtrain_dataset_split(&many, split, 200, 3, &all, &err));
        double got = concentration(labels, &all);
        assert_true(got > 0.8 * wanted && got < 1.15 * wanted);
        fedtrain_partition_free(&all);
    }
}

/* The expected share of the largest tenth of 200 clients falls with alpha: from nearly all to a
 * little more than a tenth. Each client has a sample. */
FED_TEST(test_alpha_says_how_unequal_the_sizes_are) {
    static const struct {
        double alpha, least, most;
    } cases[] = {{0.01, 0.9, 1}, {0.5, 0.33, 0.54}, {5, 0.15, 0.22}, {1000, 0.1, 0.12}};
    static uint8_t labels[20000];
    const fedtrain_dataset many = {.count = sizeof labels, .classes = CLASSES, .label = labels};
    for (size_t i = 0; i < 4; i++) {
        const fedtrain_split split = {.kind = FEDTRAIN_BY_QUANTITY, .alpha = cases[i].alpha};
        fedtrain_partition all;
        fed_error err = {0};
        assert_fed_ok_err(fedtrain_dataset_split(&many, split, 200, 3, &all, &err));
        size_t sizes[200], top = 0;
        for (uint32_t k = 0; k < 200; k++) {
            size_t at = k;
            const size_t size = fedtrain_partition_shard(&all, k).count;
            assert_true(size >= 1);
            for (; at > 0 && sizes[at - 1] < size; at--) {
                sizes[at] = sizes[at - 1];
            }
            sizes[at] = size;
        }
        for (size_t k = 0; k < 20; k++) {
            top += sizes[k];
        }
        assert_true((double)top >= cases[i].least * sizeof labels);
        assert_true((double)top <= cases[i].most * sizeof labels);
        fedtrain_partition_free(&all);
    }
}

/* Give runs of 1 to 12 samples to 12 groups in turn. */
static void make_groups(uint32_t *group, size_t n) {
    for (size_t i = 0, at = 0; at < n; i++) {
        for (size_t j = 0; j <= i % 12 && at < n; j++) {
            group[at++] = (uint32_t)(i % 12);
        }
    }
}

FED_TEST(test_a_group_stays_together) {
    uint32_t group[400];
    make_groups(group, 400);
    size_t unit[401] = {0};
    const fedtrain_text text = {.units = 400, .unit = unit, .group = group, .groups = 12};
    for (uint32_t clients = 1; clients <= 12; clients++) {
        fedtrain_partition all;
        fed_error err = {0};
        uint32_t owner[12], met[12] = {0}, total = 0;
        assert_fed_ok_err(fedtrain_text_split(&text, by_group, clients, 1, &all, &err));
        for (uint32_t k = 0; k < clients; k++) {
            fedtrain_shard shard = fedtrain_partition_shard(&all, k);
            uint32_t groups = 0;
            for (size_t i = 0; i < shard.count; i++) {
                uint32_t g = group[shard.index[i]];
                groups += met[g] == 0;
                assert_true(met[g]++ == 0 || owner[g] == k);
                owner[g] = k;
                assert_true(i == 0 || shard.index[i] > shard.index[i - 1]);
            }
            assert_true(groups == 12 / clients || groups == 12 / clients + 1);
            total += (uint32_t)shard.count;
        }
        assert_int_equal(total, 400);
        fedtrain_partition_free(&all);
    }
}

FED_TEST(test_a_text_dealt_by_chance_stays_in_order) {
    size_t unit[401] = {0};
    const fedtrain_text text = {.units = 400, .unit = unit};
    fedtrain_partition all;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_text_split(&text, FEDTRAIN_SPLIT_IID, 3, 1, &all, &err));
    for (uint32_t k = 0; k < 3; k++) {
        fedtrain_shard shard = fedtrain_partition_shard(&all, k);
        for (size_t i = 1; i < shard.count; i++) {
            assert_true(shard.index[i] > shard.index[i - 1]);
        }
    }
    fedtrain_partition_free(&all);
    assert_fed_status(fedtrain_text_split(&text, by_mix, 3, 1, &all, &err), FED_EINVAL);
    assert_fed_says(err, "the data has no classes");
    assert_fed_status(fedtrain_text_split(&text, by_group, 3, 1, &all, &err), FED_EINVAL);
    assert_fed_says(err, "names no groups");
}

FED_TEST(test_the_seed_alone_decides) {
    const fedtrain_split splits[] = {FEDTRAIN_SPLIT_IID, FEDTRAIN_SPLIT_TWO_CLASS, by_mix,
                                     by_quantity};
    for (size_t s = 0; s < 4; s++) {
        fedtrain_partition a = divide(splits[s], 9, 77), b = divide(splits[s], 9, 77);
        fedtrain_partition c = divide(splits[s], 9, 78);
        assert_memory_equal(a.start, b.start, 10 * sizeof *a.start);
        assert_memory_equal(a.index, b.index, SAMPLES * sizeof *a.index);
        assert_memory_not_equal(a.index, c.index, SAMPLES * sizeof *a.index);
        fedtrain_partition_free(&a);
        fedtrain_partition_free(&b);
        fedtrain_partition_free(&c);
    }
}

FED_TEST(test_one_shard_is_a_piece_of_the_partition) {
    fedtrain_partition all = divide(by_mix, 9, 7);
    for (uint32_t k = 0; k < 9; k++) {
        fedtrain_shard view = fedtrain_partition_shard(&all, k), own = take(by_mix, 9, k, 7);
        assert_int_equal(own.count, view.count);
        assert_memory_equal(own.index, view.index, view.count * sizeof *own.index);
        fedtrain_shard_free(&own);
    }
    fedtrain_partition_free(&all);
}

/* Each device splits the same data for itself, so these results must never change. */
FED_TEST(test_known_answers) {
    const struct {
        fedtrain_split split;
        uint64_t digest;
    } known[] = {{FEDTRAIN_SPLIT_IID, 0x90160c06fc669e97},
                 {FEDTRAIN_SPLIT_TWO_CLASS, 0xfc5ffa2ec3f26b7b},
                 {{.kind = FEDTRAIN_BY_CLASSES, .k = 3}, 0x817e1fb5dc8804e9},
                 {{.kind = FEDTRAIN_BY_DIRICHLET, .alpha = 0.1}, 0x357f326fcd71ec24},
                 {{.kind = FEDTRAIN_BY_DIRICHLET, .alpha = 10}, 0xbf7d92c6c01f580a}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fedtrain_partition all = divide(known[i].split, 7, 5);
        uint8_t bytes[4 * SAMPLES];
        for (size_t j = 0; j < SAMPLES; j++) {
            for (size_t b = 0; b < 4; b++) {
                bytes[4 * j + b] = (uint8_t)(all.index[j] >> 8 * b);
            }
        }
        assert_int_equal(fed_digest_bytes(bytes, sizeof bytes), known[i].digest);
        fedtrain_partition_free(&all);
    }
}

static void assert_refused(fedtrain_split split, uint32_t clients, const char *words) {
    fedtrain_partition all;
    fed_error err = {0};
    assert_fed_status(fedtrain_dataset_split(&set, split, clients, 1, &all, &err), FED_EINVAL);
    assert_fed_says(err, words);
}

FED_TEST(test_impossible_shares_are_refused) {
    fedtrain_shard shard;
    fed_error err = {0};
    assert_refused(FEDTRAIN_SPLIT_IID, 0, "no clients");
    assert_refused(FEDTRAIN_SPLIT_IID, SAMPLES + 1, "1004 clients can't share 1003 samples");
    assert_refused(by_mix, SAMPLES + 1, "each needs 1 at least");
    assert_refused(by_quantity, SAMPLES + 1, "each needs 1 at least");
    assert_refused(FEDTRAIN_SPLIT_TWO_CLASS, SAMPLES / 2 + 1, "each needs 2 at least");
    assert_refused((fedtrain_split){.kind = FEDTRAIN_BY_CLASSES, .k = 11}, 2,
                   "the data's 10 classes");
    assert_refused(by_group, 2, "names no groups");
    assert_fed_status(fedtrain_shard_take(&set, FEDTRAIN_SPLIT_IID, 5, 5, 1, &shard, &err),
                      FED_EINVAL);
    assert_fed_says(err, "no client 5 among 5");
}

static void check_spec(const char *spec, int kind, uint32_t k, double alpha) {
    fedtrain_split split;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_split_parse(spec, &split, &err));
    assert_int_equal(split.kind, kind);
    assert_int_equal(split.k, k);
    assert_true(split.alpha == alpha);
}

FED_TEST(test_specs_are_understood_and_others_refused) {
    check_spec("iid", FEDTRAIN_BY_CHANCE, 0, 0);
    check_spec("two-class", FEDTRAIN_BY_CLASSES, 2, 0);
    check_spec("classes:k=5", FEDTRAIN_BY_CLASSES, 5, 0);
    check_spec("dirichlet:alpha=0.25", FEDTRAIN_BY_DIRICHLET, 0, 0.25);
    check_spec("quantity:alpha=2", FEDTRAIN_BY_QUANTITY, 0, 2);
    check_spec("group", FEDTRAIN_BY_GROUP, 0, 0);
    static const struct {
        const char *spec, *words;
    } wrong[] = {{"IID", "unknown split \"IID\": write iid, classes:k=2"},
                 {"", "unknown split"},
                 {"iid ", "unknown split"},
                 {"classes", "unknown split"},
                 {"classes:k=", "k is a whole number"},
                 {"classes:k=2x", "k is a whole number"},
                 {"classes:k=0", "k is a whole number from 1 to 256"},
                 {"classes:k=2.5", "k is a whole number"},
                 {"classes:k=257", "k is a whole number"},
                 {"dirichlet:alpha=0", "alpha is a number from 0.001 to 1000"},
                 {"quantity:alpha=0", "alpha is a number from 0.001 to 1000"},
                 {"quantity", "unknown split"},
                 {"dirichlet:alpha=nan", "alpha is a number"},
                 {"dirichlet:alpha=1e4", "alpha is a number"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fedtrain_split split;
        fed_error err = {0};
        assert_fed_status(fedtrain_split_parse(wrong[i].spec, &split, &err), FED_EINVAL);
        assert_fed_says(err, wrong[i].words);
    }
}

int main(void) {
    return fed_cases_run(setup, NULL);
}

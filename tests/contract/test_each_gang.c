/* Each collective, rule and codec that fit trains on each link, to the same bits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "fedcodec/codec.h"
#include "worker_case.h"

static char directory[200];
static worker_data data;

static const char *const collectives[] = {"owners", "owners:aggregators=1", "ring", "gather",
                                          "tree:group=2"};
static const char *const coded[] = {"bitsgd", "local:n=2", "cdsgd:n=2,k=3"};
static const char *const plain[] = {"ssgd", "odsgd"};

static worker_case case_of(const char *collective, const char *sync) {
    return (worker_case){.data = &data,
                         .model = "input 784 | dense 12 | relu | dense 10",
                         .collective = collective,
                         .sync = sync,
                         .optimizer = "momentum:lr=0.02",
                         .workers = 4,
                         .batch = 4,
                         .run = {8}};
}

/* The codec is refused by this collective, which other tests see to. */
static bool is_refused(const char *collective, const char *codec) {
    const bool recodes = strcmp(collective, "ring") == 0 || strncmp(collective, "tree", 4) == 0;
    return recodes && feddc_codec_expands(codec);
}

static void check(worker_case *c) {
    uint64_t threads = 0, tcp = 0;
    c->link = "threads";
    free(worker_case_values(c, NULL, &threads));
    c->link = "tcp";
    free(worker_case_values(c, NULL, &tcp));
    if (threads != tcp) {
        fail_msg("%s %s %s: tcp ends with other bits than threads", c->collective, c->sync,
                 c->codec != NULL ? c->codec : "");
    }
}

static void each_codec_on_each_collective_by_each_rule(void **state) {
    (void)state;
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        const char *codec = fedcodec_name(fedcodec_at(k));
        for (size_t l = 0; l < sizeof collectives / sizeof collectives[0]; l++) {
            for (size_t s = 0; s < sizeof coded / sizeof coded[0]; s++) {
                worker_case c = case_of(collectives[l], coded[s]);
                c.codec = codec;
                if (!is_refused(collectives[l], codec)) {
                    check(&c);
                }
            }
        }
    }
}

static void each_codec_for_pulls(void **state) {
    (void)state;
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        for (size_t l = 0; l < 2; l++) {
            worker_case c = case_of(collectives[l], "bitsgd");
            c.codec = "int8";
            c.pull = fedcodec_name(fedcodec_at(k));
            check(&c);
        }
    }
}

static void rules_of_float32_on_each_collective(void **state) {
    (void)state;
    for (size_t l = 0; l < sizeof collectives / sizeof collectives[0]; l++) {
        for (size_t s = 0; s < sizeof plain / sizeof plain[0]; s++) {
            worker_case c = case_of(collectives[l], plain[s]);
            check(&c);
        }
    }
}

static int set_up(void **state) {
    (void)state;
    fed_test_tmpdir(directory, sizeof directory);
    worker_data_open(&data, directory, 200, 40);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    worker_data_close(&data);
    fed_test_rmdir(directory);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_of_float32_on_each_collective),
        cmocka_unit_test(each_codec_on_each_collective_by_each_rule),
        cmocka_unit_test(each_codec_for_pulls),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* Workers find out whether the NICs that their options name really exist. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "nic_link.h"
#include "worker_case.h"

enum { WORKERS = 4 };

static worker_data data;
static worker_member member[WORKER_CASE_RANKS];

static worker_case case_of(const char *collective, const char *nic, nic_plan *nics) {
    return (worker_case){.data = &data,
                         .link = nics == NULL && strncmp(nic, "packet", 6) == 0 ? "tcp" : NULL,
                         .nics = nics,
                         .model = "input 784 | dense 24 | relu | dense 10",
                         .collective = collective,
                         .sync = "bitsgd",
                         .nic = nic,
                         .optimizer = "momentum:lr=0.02",
                         .workers = WORKERS,
                         .batch = 4,
                         .run = {3}};
}

static const char *const collectives[] = {"owners", "owners:aggregators=1", "ring", "tree:group=2"};
enum { COLLECTIVES = sizeof collectives / sizeof collectives[0] };

static uint64_t digest_of(const char *collective, const char *nic, nic_plan *nics,
                          const char *remark) {
    const worker_case c = case_of(collective, nic, nics);
    worker_case_run(&c, member);
    for (uint32_t r = 0; r < WORKERS; r++) {
        const char *wanted = r == 0 ? remark : "";
        if (member[r].status != FED_OK || strstr(member[r].remark, wanted) == NULL ||
            (wanted[0] == '\0' && member[r].remark[0] != '\0')) {
            fail_msg("%s, %s, rank %u: %s, \"%s\"", collective, nic, r, member[r].err.text,
                     member[r].remark);
        }
    }
    const uint64_t digest = member[0].tally[0].digest;
    worker_case_free(member);
    return digest;
}

FED_TEST(nics_train_to_the_bits_of_inline_and_are_not_remarked) {
    for (size_t k = 0; k < COLLECTIVES; k++) {
        nic_plan nics = {.inner = feddc_link_named("threads"), .e = 10};
        const uint64_t with_nics = digest_of(collectives[k], "packet", &nics, "");
        assert_true(with_nics == digest_of(collectives[k], "inline", NULL, ""));
        assert_true(with_nics != digest_of(collectives[k], "inline:e=5", NULL, ""));
    }
}

FED_TEST(a_worker_group_without_nics_trains_and_says_so) {
    for (size_t k = 0; k < COLLECTIVES; k++) {
        (void)digest_of(collectives[k], "packet", NULL, "compresses what rank 0 sends");
    }
    /* With gather, all ranks round what they send, so the values do not depend on the NICs. */
    const uint64_t gather = digest_of("gather", "packet", NULL, "");
    assert_true(gather == digest_of("gather", "inline", NULL, ""));
}

FED_TEST(a_rank_without_a_nic_is_named) {
    for (size_t k = 0; k < COLLECTIVES; k++) {
        nic_plan nics = {.inner = feddc_link_named("threads"), .e = 10, .bare = 2};
        (void)digest_of(collectives[k], "packet", &nics, "compresses what rank 2 sends");
    }
}

FED_TEST(nics_with_another_bound_are_refused) {
    static const int bounds[] = {1, 5, 8, 12, 15};
    for (size_t k = 0; k < 5 * COLLECTIVES; k++) {
        nic_plan nics = {.inner = feddc_link_named("threads"), .e = bounds[k / COLLECTIVES]};
        const worker_case c = case_of(collectives[k % COLLECTIVES], "packet:e=10", &nics);
        worker_case_run(&c, member);
        for (uint32_t r = 0; r < WORKERS; r++) {
            assert_fed_status(member[r].status, FED_ESTATE);
            assert_fed_says(member[r].err, "the same bound");
        }
        worker_case_free(member);
    }
}

static int set_up(void **state) {
    (void)fed_test_dir_make(state);
    worker_data_open(&data, fed_test_dir, 200, 40);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    worker_data_close(&data);
    fed_test_rmdir(fed_test_dir);
    return 0;
}

int main(void) {
    return fed_cases_run(set_up, tear_down);
}

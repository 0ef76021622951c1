/* If a worker's network connection fails, the verdict must name the worker, and the others must go
 * on. Skipped without network namespaces. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: unshare */
#include <sched.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/rng.h"
#include "fed_cases.h"
#include "group_case.h"

enum { WORKERS = 4, SKIPPED = 77, LIMIT_MS = 20000 };

static bool shell(const char *command) {
    return system(command) == 0; /* NOLINT: the command holds only our own text */
}

static bool wait_until(const atomic_uint *flag) {
    for (int k = 0; k < LIMIT_MS && atomic_load(flag) == 0; k++) {
        fed_sleep_ms(1);
    }
    return atomic_load(flag) != 0;
}

static void enter(worker_group_board *board, uint32_t worker) {
    if (!wait_until(&board->line) || worker + 1 != atomic_load(&board->line)) {
        return;
    }
    bool good = unshare(CLONE_NEWNET) == 0;
    atomic_store(&board->entered, 1);
    good = good && wait_until(&board->wired) &&
           shell("ip link set lo up && ip address add 10.77.1.2/24 dev feddc1 && "
                 "ip link set feddc1 up && ip route add 10.77.0.1 via 10.77.1.1");
    if (!good) {
        _exit(WORKER_GROUP_WRONG);
    }
}

static uint32_t next_victim;

static void wire(const group_case *g) {
    char command[300];
    atomic_store(&g->board->line, next_victim + 1);
    assert_true(wait_until(&g->board->entered));
    (void)snprintf(command, sizeof command,
                   "ip link add feddc0 type veth peer name feddc1 && "
                   "ip link set feddc1 netns %ld && "
                   "ip address add 10.77.1.1/24 dev feddc0 && ip link set feddc0 up",
                   (long)g->pid[next_victim]);
    assert_true(shell(command));
    atomic_store(&g->board->wired, 1);
}

FED_TEST(one_is_cut_off_and_the_others_go_on) {
    const char *wanted = getenv("FED_WORKER_GROUP_RUNS");
    uint32_t count = wanted != NULL ? (uint32_t)strtoul(wanted, NULL, 10) : 2;
    int64_t longest = 0;
    fed_rng rng;
    fed_rng_init(&rng, 77, 0, 0);
    for (uint32_t k = 0; k < count; k++) {
        group_case g = {.listens = "10.77.0.1:0", .enter = enter, .wire = wire};
        next_victim = fed_rng_below(&rng, WORKERS);
        uint32_t victim = next_victim;
        group_case_start(&g, WORKERS, 2);
        int64_t cut = fed_clock_monotonic_ms();
        assert_true(shell("ip link set feddc0 down"));
        group_case_await(&g, 1);
        assert_int_equal(g.verdict[0].worker, victim);
        assert_int_equal(g.verdict[0].fate, FEDDC_CUT_OFF);
        longest = g.verdict_ms[0] - cut > longest ? g.verdict_ms[0] - cut : longest;
        group_case_await_steps(&g, 2, 1, victim);
        assert_true(shell("ip link set feddc0 up"));
        assert_int_equal(group_case_finish(&g), FEDDC_DONE);
        group_case_end(&g);
        for (uint32_t i = 0; i < WORKERS; i++) {
            if (i != victim) {
                assert_int_equal(g.code[i], WORKER_GROUP_FINISHED);
            }
        }
        assert_true(g.code[victim] == WORKER_GROUP_LEFT_OUT ||
                    g.code[victim] == WORKER_GROUP_ALONE);
        (void)shell("ip link delete feddc0 2>/dev/null");
        if (k == 0) {
            print_message("%s\n", g.verdict[0].text);
        }
    }
    print_message("the verdict on a cut-off worker took at most %lld ms in %u runs\n",
                  (long long)longest, count);
}

int main(void) {
    if (unshare(CLONE_NEWNET) != 0 ||
        !shell("ip link set lo up && ip address add 10.77.0.1/32 dev lo && "
               "ip link add feddc0 type veth peer name feddc1 && "
               "ip link delete feddc0")) {
        fputs("skipped: the system lets this test make no network namespaces\n", stderr);
        return SKIPPED;
    }
    return fed_cases_run(NULL, NULL);
}

/* Tests of the failing disk with two threads: a power cut by one thread ends both. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed_cases.h"
#include "tests/support/faults/fault_disk.h"

enum { RUNS = 40, BALLAST = 1 << 20 };

typedef struct world {
    char directory[300], counter[320];
    fault_plan *plan;
    int said[2]; /* pipe */
} world;

static atomic_uint stored;

static void *cut_soon(void *user) {
    (void)user;
    while (atomic_load(&stored) < 3) {
    }
    fault_disk_cut();
    return NULL;
}

static void count_for_ever(const world *w) {
    pthread_t other;
    const int fd = open(w->counter, O_WRONLY);
    if (fd < 0 || pthread_create(&other, NULL, cut_soon, NULL) != 0) {
        _exit(1);
    }
    for (uint32_t k = 1;; k++) {
        if (pwrite(fd, &k, sizeof k, 0) != sizeof k || fsync(fd) != 0 ||
            write(w->said[1], &k, sizeof k) != sizeof k) {
            _exit(1);
        }
        atomic_store(&stored, k);
    }
}

static uint32_t count_until_cut(world *w, fault_kind kind, uint64_t seed) {
    uint32_t k = 0, last = 0;
    int how = 0;
    *w->plan = (fault_plan){.kind = kind, .seed = seed};
    assert_int_equal(pipe(w->said), 0);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fed_test_die_with_parent();
        close(w->said[0]);
        fault_disk_watch(w->directory, w->plan);
        count_for_ever(w);
    }
    close(w->said[1]);
    while (read(w->said[0], &k, sizeof k) == sizeof k) {
        last = k;
    }
    close(w->said[0]);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    return last;
}

static uint32_t found(const world *w) {
    uint32_t k = 0;
    const int fd = open(w->counter, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, &k, sizeof k), sizeof k);
    close(fd);
    return k;
}

static void try_cuts(fault_kind kind) {
    static const uint8_t ballast[BALLAST]; /* a large file, so that the cut takes a while */
    world w = {.plan = fault_shared_new(sizeof *w.plan)};
    assert_non_null(w.plan);
    fed_test_tmpdir(w.directory, sizeof w.directory);
    snprintf(w.counter, sizeof w.counter, "%s/counter", w.directory);
    fed_test_put(w.directory, "counter", ballast, sizeof ballast);
    for (uint64_t run = 0; run < RUNS; run++) {
        const uint32_t said = count_until_cut(&w, kind, run), now = found(&w);
        assert_true(said >= 3);
        assert_true(now >= said); /* the last number may be stored and not yet reported */
        assert_true(now <= said + 1);
    }
    fault_shared_free(w.plan, sizeof *w.plan);
    fed_test_rmdir(w.directory);
}

FED_TEST(what_another_thread_has_synced_outlives_a_cut) {
    try_cuts(FAULT_POWER);
    try_cuts(FAULT_POWER_TORN);
}

/* Returns how many of the child's writes fail for want of space. */
static int writes_that_fail(const char *directory, const char *file, fault_plan *plan) {
    int how = 0;
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int failed = 0;
        const int fd = open(file, O_WRONLY);
        fed_test_die_with_parent();
        fault_disk_watch(directory, plan);
        for (int k = 0; k < 3 * FAULT_FULL_CALLS; k++) {
            failed += pwrite(fd, "", 1, 0) == -1 && errno == ENOSPC;
        }
        _exit(failed);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

FED_TEST(a_full_disk_fails_as_many_calls_as_its_header_says) {
    char directory[300], file[320];
    fault_plan *plan = fault_shared_new(sizeof *plan);
    assert_non_null(plan);
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(file, sizeof file, "%s/file", directory);
    fed_test_put(directory, "file", "", 1);
    *plan = (fault_plan){.kind = FAULT_FULL, .at = 3};
    assert_int_equal(writes_that_fail(directory, file, plan), FAULT_FULL_CALLS);
    fault_shared_free(plan, sizeof *plan);
    fed_test_rmdir(directory);
}

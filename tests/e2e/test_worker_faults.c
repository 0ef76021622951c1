/* Workers are killed, stopped and cut off. The verdict must name the lost worker, and the others
 * must train to the end. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: unshare */
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/rng.h"
#include "fed_digits.h"
#include "fed_test.h"
#include "feddc/exchange.h"
#include "feddc/link.h"
#include "mpi_job.h"

enum { WORKERS = 4, STEPS = FED_TEST_SIZE(8000, 2000), LIMIT_MS = 90000, LIFE_S = 1800 };

static char directory[200];
static fed_rng rng;

#define FEDWORKER                                                                                  \
    FED_BIN_DIR "/fedworker train --model 'input 784 | dense 16 | relu | dense 10' --data . "      \
                "--batch 8 --optimizer momentum:lr=0.02 --summary out.json "                       \
                "--steps " FED_TEST_SIZE("8000", "2000") " "
#define TRAIN "exec " FEDWORKER

static pid_t start(const char *command, const char *output) {
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", directory, output);
    (void)unlink(path);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int file = chdir(directory) == 0 ? open(output, O_CREAT | O_WRONLY | O_TRUNC, 0600) : -1;
        if (file >= 0 && dup2(file, 1) == 1 && dup2(file, 2) == 2) {
            (void)alarm(LIFE_S);
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        }
        _exit(127);
    }
    return pid;
}

static void read_output(const char *output, char *text, size_t cap) {
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", directory, output);
    FILE *file = fopen(path, "r");
    size_t len = file != NULL ? fread(text, 1, cap - 1, file) : 0;
    text[len] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
}

static bool has_ended(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

/* Wait until the output contains these words. Returns the time taken in ms. */
static int64_t await_words(pid_t pid, const char *output, const char *words) {
    char text[8192] = "";
    int64_t began = fed_clock_monotonic_ms(), now = began;
    bool ended = false;
    while (strstr(text, words) == NULL) {
        if (now - began > LIMIT_MS || ended) {
            fail_msg("\"%s\" is not in the output: %s", words, text);
        }
        fed_sleep_ms(5);
        ended = has_ended(pid);
        read_output(output, text, sizeof text);
        now = fed_clock_monotonic_ms();
    }
    return now - began;
}

static uint32_t epochs(const char *output) {
    char text[8192];
    uint32_t count = 0;
    read_output(output, text, sizeof text);
    for (const char *at = text; (at = strstr(at, "epoch ")) != NULL; at++) {
        count++;
    }
    return count;
}

static void await_epoch(pid_t pid, const char *output, uint32_t count) {
    for (int k = 0; k < LIMIT_MS / 5 && epochs(output) < count && !has_ended(pid); k++) {
        fed_sleep_ms(5);
    }
    assert_true(epochs(output) >= count);
}

static int await_end(pid_t pid, const char *output) {
    int status = 0;
    uint32_t before = epochs(output);
    for (int k = 0; k < LIMIT_MS / 5; k++) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        fed_sleep_ms(5);
        const uint32_t now = epochs(output);
        k = now != before ? 0 : k;
        before = now;
    }
    char text[8192];
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    read_output(output, text, sizeof text);
    fail_msg("the process did not end in time; its output: %s", text);
    return -1;
}

static pid_t child_of(pid_t parent, uint32_t k) {
    char path[64], text[400] = "", *at = text;
    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)parent, (long)parent);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    (void)!fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    long pid = 0;
    for (uint32_t i = 0; i <= k; i++) {
        pid = strtol(at, &at, 10);
    }
    assert_true(pid > 1);
    return (pid_t)pid;
}

static void assert_trained(void) {
    char path[300];
    json_error_t why;
    (void)snprintf(path, sizeof path, "%s/out.json", directory);
    json_t *root = json_load_file(path, 0, &why);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "steps")), STEPS);
    assert_true(json_number_value(json_object_get(root, "test_accuracy")) > 0.9);
    json_decref(root);
    (void)unlink(path);
}

static void lose_one(int number, const char *fate, const char *options) {
    char command[800], words[100];
    (void)snprintf(command, sizeof command, TRAIN "--link tcp --workers 4 --min 2 %s", options);
    pid_t pid = start(command, "out.txt");
    (void)await_words(pid, "out.txt", "epoch 1,");
    pid_t victim = child_of(pid, fed_rng_below(&rng, WORKERS));
    fed_sleep_ms(fed_rng_below(&rng, 200));
    assert_int_equal(kill(victim, number), 0);
    (void)snprintf(words, sizeof words, "pid %ld) %s", (long)victim, fate);
    print_message("%s named in %lld ms, ", fate, (long long)await_words(pid, "out.txt", words));
    int64_t named = fed_clock_monotonic_ms();
    await_epoch(pid, "out.txt", epochs("out.txt") + 1);
    print_message("next epoch's end after %lld ms\n",
                  (long long)(fed_clock_monotonic_ms() - named));
    assert_int_equal(await_end(pid, "out.txt"), 0);
    assert_trained();
}

static bool has_collective(const char *name) {
    for (size_t k = 0; feddc_collective_name(k) != NULL; k++) {
        if (strcmp(feddc_collective_name(k), name) == 0) {
            return true;
        }
    }
    return false;
}

static void one_is_killed(void **state) {
    (void)state;
    lose_one(SIGKILL, "died", "");
    lose_one(SIGKILL, "died", has_collective("ring") ? "--collective ring" : "");
    lose_one(SIGKILL, "died", "--sync bitsgd --codec 3lc --pull 3lc");
    const char *more = getenv("FED_WORKER_GROUP_RUNS");
    for (unsigned long k = 3; more != NULL && k < strtoul(more, NULL, 10); k++) {
        lose_one(SIGKILL, "died", "");
    }
}

static void one_is_stopped(void **state) {
    (void)state;
    lose_one(SIGSTOP, "was stopped", "");
}

static void too_few_left_end_with_the_verdict(void **state) {
    (void)state;
    char words[100];
    pid_t pid = start(TRAIN "--link tcp --workers 2 --min 2", "out.txt");
    (void)await_words(pid, "out.txt", "epoch 1,");
    pid_t victim = child_of(pid, fed_rng_below(&rng, 2));
    assert_int_equal(kill(victim, SIGKILL), 0);
    (void)snprintf(words, sizeof words, "pid %ld) died", (long)victim);
    (void)await_words(pid, "out.txt", words);
    assert_int_equal(await_end(pid, "out.txt"), 1);
}

static bool shell(const char *command) {
    return system(command) == 0; /* NOLINT: the command holds only our own text */
}

static bool leave_network(void) {
    return unshare(CLONE_NEWNET) == 0 &&
           shell("ip link set lo up && ip address add 10.77.0.1/32 dev lo && "
                 "nsenter -t $$ -n true && ip link add feddc0 type veth peer name feddc1 && "
                 "ip link delete feddc0");
}

/* Start a process in a network namespace at the far end of feddc0. It runs until it is killed, or
 * for LIFE_S seconds. */
static pid_t open_network(void) {
    int ready[2];
    char byte = 0, command[400];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        byte = unshare(CLONE_NEWNET) == 0;
        (void)!write(ready[1], &byte, 1);
        (void)alarm(LIFE_S);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    (void)snprintf(command, sizeof command,
                   "ip link add feddc0 type veth peer name feddc1 && ip link set feddc1 netns "
                   "%ld && ip address add 10.77.1.1/24 dev feddc0 && ip link set feddc0 up && "
                   "nsenter -t %ld -n sh -c 'ip link set lo up && ip address add 10.77.1.2/24 "
                   "dev feddc1 && ip link set feddc1 up && ip route add 10.77.0.1 via 10.77.1.1'",
                   (long)pid, (long)pid);
    assert_true(shell(command));
    return pid;
}

static void a_line_goes_down(void **state) {
    (void)state;
    if (!leave_network()) {
        skip();
    }
    char command[900];
    pid_t far = open_network();
    pid_t near = start(TRAIN "--link tcp --workers 4 --here 3 --min 2 --listen 10.77.0.1:4077 "
                             "--secret-file secret",
                       "out.txt");
    for (int k = 0; k < LIMIT_MS / 5 && access(directory, F_OK) == 0; k++) {
        char path[300];
        (void)snprintf(path, sizeof path, "%s/secret", directory);
        if (access(path, R_OK) == 0) {
            break;
        }
        fed_sleep_ms(5);
    }
    (void)snprintf(command, sizeof command,
                   "exec nsenter -t %ld -n sh -c \"" TRAIN "--link tcp --workers 4 --here 1 "
                   "--join 10.77.0.1:4077 --secret-file secret\"",
                   (long)far);
    pid_t cut = start(command, "far.txt");
    (void)await_words(near, "out.txt", "epoch 1,");
    assert_true(shell("ip link set feddc0 down"));
    print_message("was cut off named in %lld ms\n",
                  (long long)await_words(near, "out.txt", "was cut off"));
    assert_int_equal(await_end(near, "out.txt"), 0);
    assert_trained();
    assert_int_equal(await_end(cut, "far.txt"), 1);
    (void)kill(far, SIGKILL);
    (void)waitpid(far, NULL, 0);
    (void)shell("ip link delete feddc0 2>/dev/null");
}

static void lose_one_of_mpi(int number, const char *fate) {
    pid_t pid = start("rm -f c.safetensors*; exec env " MPI_JOB_SETTINGS FED_BIN_DIR
                      "/fedworker launch --min 2 -- mpirun -n 3 " FEDWORKER
                      "--link mpi --checkpoint c.safetensors --every 500",
                      "out.txt");
    (void)await_words(pid, "out.txt", "epoch 1,");
    pid_t victim = child_of(child_of(pid, 0), fed_rng_below(&rng, 3));
    char words[100];
    assert_int_equal(kill(victim, number), 0);
    (void)snprintf(words, sizeof words, "pid %ld) %s", (long)victim, fate);
    print_message("%s named in %lld ms, ", fate, (long long)await_words(pid, "out.txt", words));
    print_message("the job was started again after %lld ms\n",
                  (long long)await_words(pid, "out.txt", "again with 2 workers"));
    assert_int_equal(await_end(pid, "out.txt"), 0);
    assert_trained();
}

static void need_mpirun(void) {
    if (feddc_link_named("mpi") == NULL || !mpi_job_possible()) {
        skip();
    }
}

/* Without fedworker launch, rank 0 has the failure detector. */
static void mpirun_alone_ends_with_the_verdict(void **state) {
    (void)state;
    need_mpirun();
    pid_t pid =
        start("exec env " MPI_JOB_SETTINGS "mpirun -n 3 " FEDWORKER "--link mpi", "out.txt");
    char words[100];
    (void)await_words(pid, "out.txt", "epoch 1,");
    pid_t victim = child_of(pid, 1 + fed_rng_below(&rng, 2));
    assert_int_equal(kill(victim, SIGSTOP), 0);
    (void)snprintf(words, sizeof words, "pid %ld) was stopped", (long)victim);
    print_message("named in %lld ms\n", (long long)await_words(pid, "out.txt", words));
    assert_int_not_equal(await_end(pid, "out.txt"), 0);
    (void)kill(victim, SIGKILL);
}

static void a_job_of_mpi_starts_again(void **state) {
    (void)state;
    need_mpirun();
    lose_one_of_mpi(SIGKILL, "died");
    lose_one_of_mpi(SIGSTOP, "was stopped");
}

static int make_data(void **state) {
    (void)state;
    fed_rng_init(&rng, 4711, 0, 0);
    fed_test_tmpdir(directory, sizeof directory);
    fed_digits_write(directory, 8000, 200);
    return 0;
}

static int remove_data(void **state) {
    (void)state;
    fed_test_rmdir(directory);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_killed),
        cmocka_unit_test(one_is_stopped),
        cmocka_unit_test(too_few_left_end_with_the_verdict),
        cmocka_unit_test(mpirun_alone_ends_with_the_verdict),
        cmocka_unit_test(a_job_of_mpi_starts_again),
        cmocka_unit_test(a_line_goes_down), /* last, because it changes the network namespace */
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}

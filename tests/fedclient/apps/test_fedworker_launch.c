/* `fedworker launch`: a job whose worker fails is started again without that worker. This program
 * is also the job: in place of mpirun it starts ranks, which only join the failure detector. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_cases.h"
#include "fedclient/apps/fedworker_commands.h"
#include "feddc/control.h"

enum { RANKS = 3, VICTIM = 1, STEPS = 150 };

static void on_over(void *user, const char *why) {
    (void)user;
    (void)why;
    _exit(1); /* an MPI rank ends like this, as its main thread may hang */
}

/* What rank VICTIM does during the first try. Returns false if the rank goes on. */
static bool misfortune(const char *how) {
    if (strcmp(how, "kill") == 0) {
        raise(SIGKILL);
    } else if (strcmp(how, "stop") == 0) {
        raise(SIGSTOP);
    }
    return strcmp(how, "give-up") == 0;
}

static int rank_main(uint32_t rank, const char *how) {
    feddc_watch_options options = {.rank = rank, .over = on_over};
    char address[128];
    uint8_t secret[FEDDC_SECRET];
    feddc_watch *watch = NULL;
    const feddc_worker_group *group = NULL;
    fed_error err = {0};
    if (!fedworker_launched(address, secret)) {
        return 8;
    }
    options.address = address;
    options.secret = secret;
    if (feddc_watch_open(&options, &watch, &err) != FED_OK ||
        feddc_watch_next(watch, 0, NULL, &group, &err) != FED_OK) {
        return 7;
    }
    bool fails = rank == VICTIM && group->place.size == RANKS;
    for (uint32_t step = 0; step < STEPS || (group->place.size == RANKS && !fails); step++) {
        feddc_watch_at(watch, FEDDC_BACKWARD, step);
        fed_sleep_ms(2);
        if (fails && step == STEPS - 1 && misfortune(how)) {
            feddc_watch_close(watch, "no data");
            return 6;
        }
    }
    feddc_watch_close(watch, NULL);
    return 0;
}

/* Start the ranks and wait for them, ignoring SIGTERM. */
static int job_main(uint32_t ranks, const char *how, const char *last) {
    if (ranks < RANKS && strcmp(last, "--resume") != 0) {
        return 9;
    }
    (void)signal(SIGTERM, SIG_IGN);
    for (uint32_t r = 0; r < ranks; r++) {
        if (fork() == 0) {
            (void)alarm(60);
            _exit(rank_main(r, how));
        }
    }
    int worst = 0, status = 0;
    while (wait(&status) > 0) {
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        worst = code > worst ? code : worst;
    }
    return worst;
}

static fed_status launch(const char *min, const char *how, int *code, fed_error *err) {
    char *words[16] = {"launch"};
    int count = 1;
    char own[] = "/proc/self/exe", ranks[] = "3";
    if (min != NULL) {
        words[count++] = "--min";
        words[count++] = (char *)(uintptr_t)min;
    }
    char *const rest[] = {
        "--", own, "job", "-n", ranks, (char *)(uintptr_t)how, "train", "--checkpoint", "file"};
    for (size_t k = 0; k < sizeof rest / sizeof rest[0]; k++) {
        words[count++] = rest[k];
    }
    optind = 0;
    return fedworker_launch(count, words, code, err);
}

FED_TEST(a_job_goes_on_without_the_one_that_died) {
    fed_error err = {0};
    int code = -1;
    assert_fed_ok_err(launch("2", "kill", &code, &err));
    assert_int_equal(code, 0);
}

FED_TEST(a_stopped_worker_and_a_deaf_mpirun_are_ended) {
    fed_error err = {0};
    int code = -1;
    assert_fed_ok_err(launch("2", "stop", &code, &err));
    assert_int_equal(code, 0);
}

FED_TEST(without_min_the_verdict_is_the_end) {
    fed_error err = {0};
    int code = -1;
    assert_fed_status(launch(NULL, "kill", &code, &err), FED_EIO);
    assert_fed_says(err, "worker 1 (host ");
    assert_fed_says(err, ") died at step ");
    assert_int_equal(code, 128 + SIGKILL);
}

FED_TEST(a_worker_that_gives_up_is_not_tried_again) {
    fed_error err = {0};
    int code = -1;
    assert_fed_status(launch("1", "give-up", &code, &err), FED_EIO);
    assert_fed_says(err, "gave up");
    assert_fed_says(err, "no data");
}

static fed_status launch_words(char **words, int *code, fed_error *err) {
    int count = 0;
    while (words[count] != NULL) {
        count++;
    }
    optind = 0;
    return fedworker_launch(count, words, code, err);
}

FED_TEST(a_job_that_ends_before_it_joins_is_not_tried_again) {
    fed_error err = {0};
    int code = -1;
    char *words[] = {"launch", "--min", "1", "--", "sh", "-c", "exit 3", "-n", "2", NULL};
    assert_fed_ok_err(launch_words(words, &code, &err));
    assert_int_equal(code, 3);
}

FED_TEST(the_detector_has_its_earlier_name_too) {
    fed_error err = {0};
    static const char *const names[] = {"--detector", "--judge"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        int code = -1;
        char name[16], address[] = "nowhere";
        strcpy(name, names[k]);
        char *words[] = {"launch", name, address, "--", "sh", "-c", "exit 3", "-n", "2", NULL};
        assert_fed_status(launch_words(words, &code, &err), FED_EINVAL);
        assert_fed_says(err, "nowhere");
    }
}

FED_TEST(a_wrong_command_line_is_refused) {
    fed_error err = {0};
    int code = -1;
    char *none[] = {"launch", "--min", "2", NULL};
    assert_fed_status(launch_words(none, &code, &err), FED_EINVAL);
    assert_fed_says(err, "needs a command");
    char *number[] = {"launch", "--", "mpirun", "fedworker", "train", "-n", "4", NULL};
    assert_fed_status(launch_words(number, &code, &err), FED_EINVAL);
    assert_fed_says(err, "has no possible number of ranks");
    char *more[] = {"launch", "--min", "5", "--", "mpirun", "-n", "4", "fedworker", NULL};
    assert_fed_status(launch_words(more, &code, &err), FED_EINVAL);
    assert_fed_says(err, "--min 5 is more than the 4 ranks");
    char *absent[] = {"launch", "--", "/no/such/program", "-n", "4", "x", NULL};
    assert_fed_status(launch_words(absent, &code, &err), FED_EINVAL);
    assert_fed_says(err, "can't be started");
}

FED_TEST(who_was_not_launched_has_no_detector) {
    char address[128];
    uint8_t secret[FEDDC_SECRET];
    assert_int_equal(unsetenv("FEDWORKER_SECRET"), 0);
    assert_false(fedworker_launched(address, secret));
    assert_int_equal(setenv("FEDWORKER_DETECTOR", "h:1", 1), 0);
    assert_int_equal(setenv("FEDWORKER_SECRET", "abcd", 1), 0);
    assert_false(fedworker_launched(address, secret));
}

int main(int argc, char **argv) {
    if (argc > 4 && strcmp(argv[1], "job") == 0) {
        return job_main((uint32_t)strtoul(argv[3], NULL, 10), argv[4], argv[argc - 1]);
    }
    return fed_cases_run(NULL, NULL);
}

/* Programs write their files to a link, a pipe or a full device. A link's target is written, and a
 * special file is not replaced by a plain file. Other tests run programs whose messages nobody
 * reads. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* mknod */
#include "fed_cases.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_digits.h"
#include "fed_operator.h"
#include "fedserver/operator.h"

static char out[8192];

/* A program and its arguments; "@" stands for the output's name. */
typedef struct writer {
    const char *program, *words;
    bool once;
} writer;

#define TRAIN "train --model lr --data . --steps 2 --batch 4 "

static const writer writers[] = {
    {"fedcodec", "encode --codec float32 values.safetensors @", false},
    {"fedcodec", "decode values.fed @", false},
    {"fedcodec", "decode --like values.safetensors values.fed @", false},
    {"fedtrain", TRAIN "--checkpoint @", true},
    {"fedtrain", TRAIN "--csv @", false},
    {"fedtrain", "export --weights values.safetensors --model lr @", false},
    {"fedworker", TRAIN "--summary @", false},
    {"fedworker", TRAIN "--trace @", false},
    {"fedworker", TRAIN "--checkpoint @", true},
    {"fedsim", "report run --out @", false},
    {"fedserver", "export --dir coordinator @", false},
};
enum { WRITERS = sizeof writers / sizeof writers[0] };

static int run(const writer *w, const char *name) {
    char words[1024];
    const char *at = strchr(w->words, '@');
    snprintf(words, sizeof words, "%.*s%s%s", (int)(at - w->words), w->words, name, at + 1);
    return fed_test_run(fed_test_dir, w->program, words, out, sizeof out);
}

static const char *in_dir(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", fed_test_dir, name);
    return path;
}

static void must(const char *program, const char *words) {
    if (fed_test_run(fed_test_dir, program, words, out, sizeof out) != 0) {
        fail_msg("%s %s: %s", program, words, out);
    }
}

static void blame(const writer *w, const char *kind, const char *what) {
    fail_msg("%s %s with %s: %s; it printed: %s", w->program, w->words, kind, what, out);
}

static mode_t kind_of(const char *name) {
    struct stat info;
    return lstat(in_dir(name), &info) == 0 ? info.st_mode & S_IFMT : 0;
}

static off_t size_of(const char *name) {
    struct stat info;
    return stat(in_dir(name), &info) == 0 ? info.st_size : -1;
}

static void serve_a_task(void) {
    char home[300];
    fed_error err = {0};
    fedserver *server = NULL;
    snprintf(home, sizeof home, "%s/coordinator", fed_test_dir);
    assert_fed_ok_err(fedserver_init(home, NULL, &err));
    fed_operator_task(home, fed_test_dir,
                      "{\"model\": \"lr\", \"codec_up\": \"float32\", \"rounds\": 1,"
                      " \"cohort\": 1}");
    assert_fed_ok_err(fedserver_open(home, NULL, &server, &err));
    int64_t next_ms = 0;
    assert_fed_ok_err(fedserver_begin(server, &err));
    assert_fed_ok_err(fedserver_tick(server, 1, &next_ms, &err));
    assert_fed_ok_err(fedserver_commit(server, &err));
    fedserver_close(server);
}

static int make_inputs(void **state) {
    assert_int_equal(fed_test_dir_make(state), 0);
    fed_digits_write(fed_test_dir, 40, 10);
    must("fedtrain", TRAIN "--checkpoint values.safetensors --optimizer sgd");
    must("fedcodec", "encode --codec float32 values.safetensors values.fed");
    must("fedsim", "run model=lr data=. rounds=1 clients=2 cohort=2 local_steps=1 --out run");
    serve_a_task();
    return 0;
}

FED_TEST(an_output_that_is_a_link_is_its_target) {
    for (size_t k = 0; k < WRITERS; k++) {
        for (int present = 0; present <= !writers[k].once; present++) {
            assert_int_equal(symlink("target.safetensors", in_dir("link.safetensors")), 0);
            if (present) {
                fed_test_put(fed_test_dir, "target.safetensors", "", 0);
            }
            if (run(&writers[k], "link.safetensors") != 0) {
                blame(&writers[k], "a link", "it failed");
            }
            if (kind_of("link.safetensors") != S_IFLNK) {
                blame(&writers[k], "a link", "the link is gone");
            }
            if (kind_of("target.safetensors") != S_IFREG || size_of("target.safetensors") < 1) {
                blame(&writers[k], "a link", "the target is not written");
            }
            assert_int_equal(unlink(in_dir("link.safetensors")), 0);
            assert_int_equal(unlink(in_dir("target.safetensors")), 0);
        }
    }
}

FED_TEST(an_output_that_is_a_pipe_is_written) {
    for (size_t k = 0; k < WRITERS; k++) {
        char some[4096];
        assert_int_equal(mkfifo(in_dir("pipe.safetensors"), 0600), 0);
        const int reader = open(in_dir("pipe.safetensors"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        assert_true(fcntl(reader, F_SETPIPE_SZ, 1 << 20) >= 1 << 20);
        const int status = run(&writers[k], "pipe.safetensors");
        const ssize_t got = read(reader, some, sizeof some);
        close(reader);
        if (status != 0 || kind_of("pipe.safetensors") != S_IFIFO || got < 1) {
            blame(&writers[k], "a pipe", status != 0 ? "it failed" : "the pipe got nothing");
        }
        assert_int_equal(unlink(in_dir("pipe.safetensors")), 0);
    }
}

FED_TEST(a_full_device_stays_a_device) {
    if (geteuid() != 0 || mknod(in_dir("full.safetensors"), S_IFCHR | 0600, makedev(1, 7)) != 0) {
        skip();
    }
    const int fd = open(in_dir("full.safetensors"), O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        skip();
    }
    close(fd);
    for (size_t k = 0; k < WRITERS; k++) {
        if (run(&writers[k], "full.safetensors") != 1 || strstr(out, "full.safetensors") == NULL) {
            blame(&writers[k], "a full device", "it did not fail with the device's name");
        }
        if (kind_of("full.safetensors") != S_IFCHR) {
            blame(&writers[k], "a full device", "the device is gone");
        }
    }
}

static pid_t start_unheard(const char *program, const char *words) {
    char command[1024];
    int ends[2];
    snprintf(command, sizeof command, "cd '%s' && exec " FED_BIN_DIR "/%s %s", fed_test_dir,
             program, words);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fed_test_die_with_parent();
        (void)signal(SIGPIPE, SIG_DFL);
        if (dup2(ends[1], 1) >= 0 && dup2(ends[1], 2) >= 0) {
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        }
        _exit(127);
    }
    close(ends[1]);
    return pid;
}

static void ends_by_itself(const char *program, const char *words) {
    int how = 0;
    const pid_t pid = start_unheard(program, words);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    if (!WIFEXITED(how) || WEXITSTATUS(how) > 2) {
        fail_msg("%s %s with messages that nobody reads: it ended with %s %d", program, words,
                 WIFEXITED(how) ? "status" : "signal",
                 WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how));
    }
}

FED_TEST(messages_that_nobody_reads_end_no_program) {
    static const char *const programs[] = {"fedcodec",  "fedtrain", "fedworker", "fedsim",
                                           "fedserver", "fednic",   "fedclientd"};
    for (size_t k = 0; k < sizeof programs / sizeof programs[0]; k++) {
        ends_by_itself(programs[k], "--help");
    }
    ends_by_itself("fedtrain", TRAIN "--checkpoint unheard.safetensors");
    assert_true(size_of("unheard.safetensors") > 0);
    ends_by_itself("fedserver", "tasks --dir coordinator");
}

FED_TEST(a_coordinator_whose_log_nobody_reads_serves_on) {
    enum { PATIENCE_MS = 300000, POLL_MS = 20 };
    const int64_t end_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    int how = 0;
    const pid_t pid =
        start_unheard("fedserver", "run --dir coordinator --front-port 0 --devices-port 0");
    while (fed_test_run(fed_test_dir, "fedserver", "health --dir coordinator", out, sizeof out) !=
           0) {
        if (waitpid(pid, &how, WNOHANG) == pid || fed_clock_monotonic_ms() > end_ms) {
            fail_msg("the coordinator does not serve (wait status %d)", how);
        }
        fed_sleep_ms(POLL_MS);
    }
    must("fedserver", "token --dir coordinator");
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

int main(void) {
    return fed_cases_run(make_inputs, fed_test_dir_remove);
}

/* Sets up two hosts with offload NICs and a bad line, as network namespaces (nic_world.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: setns */
#include "nic_world.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_test.h"

enum { LINE = NIC_HOSTS, START_MS = 10000, END_MS = 10000 };

static bool shell(const char *command) {
    return system(command) == 0; /* NOLINT: the command has no text from outside */
}

bool nic_world_possible(const char **why) {
    char command[200];
    (void)snprintf(command, sizeof command,
                   "ip netns add fedtry%d 2>/dev/null && ip netns delete fedtry%d", (int)getpid(),
                   (int)getpid());
    *why = NULL;
    if (geteuid() != 0) {
        *why = "only root makes network namespaces";
    } else if (access("/dev/net/tun", R_OK | W_OK) != 0) {
        *why = "there is no /dev/net/tun";
    } else if (!shell(command)) {
        *why = "`ip netns add` does not work";
    } else if (access(FED_BIN_DIR "/fednic", X_OK) != 0) {
        *why = "fednic is not built";
    }
    return *why == NULL;
}

static void enter(const char *space) {
    char path[100];
    (void)snprintf(path, sizeof path, "/run/netns/%s", space);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && setns(fd, CLONE_NEWNET) == 0);
    close(fd);
}

static void leave(const nic_world *w) {
    assert_int_equal(setns(w->home, CLONE_NEWNET), 0);
}

int nic_world_socket(const nic_world *w, int host, int family, int type, int protocol) {
    enter(w->space[host]);
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    leave(w);
    assert_true(fd >= 0);
    return fd;
}

void nic_world_shell(const nic_world *w, int host, const char *command) {
    char text[600];
    (void)snprintf(text, sizeof text, "ip netns exec %s sh -c '%s'", w->space[host], command);
    if (!shell(text)) {
        fail_msg("the command failed: %s", text);
    }
}

static void log_path(const nic_world *w, int host, char *path, size_t cap) {
    (void)snprintf(path, cap, "%s/nic%d.log", w->directory, host);
}

static bool says_ready(const char *path) {
    char command[500];
    (void)snprintf(command, sizeof command, "grep -qs ready %s", path);
    return shell(command);
}

static void start_nic(nic_world *w, int host) {
    char path[400];
    char control[400];
    log_path(w, host, path, sizeof path);
    (void)snprintf(control, sizeof control, "%s/nic%d.sock", w->directory, host);
    (void)unlink(path);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        enter(w->space[host]);
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (fd >= 0 && dup2(fd, 1) == 1 && dup2(fd, 2) == 2) {
            execl(FED_BIN_DIR "/fednic", "fednic", "--tun", "nic0", "--wire", "eth0", "--bound",
                  "2^-10", "--control", control, (char *)NULL);
        }
        _exit(127);
    }
    w->nic[host] = pid;
    int64_t until = fed_clock_monotonic_ms() + START_MS;
    while (!says_ready(path)) {
        if (waitpid(pid, NULL, WNOHANG) != 0 || fed_clock_monotonic_ms() > until) {
            w->nic[host] = 0;
            fail_msg("the fednic of host %d did not start; its log is %s", host, path);
        }
        fed_sleep_ms(10);
    }
}

static void give_addresses(const nic_world *w, int host) {
    char command[400];
    const char *device = w->device[host];
    (void)snprintf(command, sizeof command,
                   "ip address add 10.79.0.%d/24 dev %s && ip address add fd79::%d/64 dev %s nodad "
                   "&& ip link set %s up",
                   host + 1, device, host + 1, device, device);
    nic_world_shell(w, host, command);
}

/* End a host's NIC. Returns NULL, or a sentence about what was wrong. */
static const char *end_nic(nic_world *w, int host) {
    int code = 0;
    pid_t pid = w->nic[host];
    w->nic[host] = 0;
    if (pid == 0) {
        return NULL;
    }
    if (waitpid(pid, &code, WNOHANG) != 0) {
        return "a fednic ended before the test stopped it";
    }
    kill(pid, SIGTERM);
    int64_t until = fed_clock_monotonic_ms() + END_MS;
    while (waitpid(pid, &code, WNOHANG) == 0) {
        if (fed_clock_monotonic_ms() > until) {
            kill(pid, SIGKILL);
            (void)waitpid(pid, &code, 0);
            return "a fednic did not end after SIGTERM";
        }
        fed_sleep_ms(5);
    }
    return code == 0 ? NULL : "a fednic ended with an error after SIGTERM";
}

static void must_be_good(const nic_world *w, const char *wrong) {
    char command[500];
    if (wrong != NULL) {
        (void)snprintf(command, sizeof command, "cat %s/*.log >&2", w->directory);
        (void)shell(command);
        fail_msg("%s", wrong);
    }
}

void nic_world_stats(const nic_world *w, int host, char *text, size_t cap) {
    char args[400];
    (void)snprintf(args, sizeof args, "--stats --control nic%d.sock", host);
    assert_int_equal(fed_test_run(w->directory, "fednic", args, text, cap), 0);
}

void nic_world_restart_nic(nic_world *w, int host) {
    must_be_good(w, end_nic(w, host));
    start_nic(w, host);
    give_addresses(w, host);
}

void nic_world_kill_nic(nic_world *w, int host) {
    kill(w->nic[host], SIGKILL);
    (void)waitpid(w->nic[host], NULL, 0);
    start_nic(w, host);
}

static void *run_line(void *arg) {
    nic_world *w = arg;
    bad_line_run(&w->line, w->wires, &w->stop);
    return NULL;
}

void nic_world_line_sockets(const nic_world *w, int sockets[NIC_HOSTS]) {
    fed_error err = {0};
    enter(w->space[LINE]);
    sockets[0] = bad_line_socket("end0", &err);
    sockets[1] = bad_line_socket("end1", &err);
    leave(w);
    if (sockets[0] < 0 || sockets[1] < 0) {
        fail_msg("%s", err.text);
    }
}

static void open_line(nic_world *w) {
    fed_error err = {0};
    assert_fed_ok_err(bad_line_open(&w->line, &w->rates, 22, NULL, NULL, &err));
    nic_world_line_sockets(w, w->wires);
    assert_int_equal(pthread_create(&w->thread, NULL, run_line, w), 0);
    w->runs = true;
}

static void open_spaces(nic_world *w) {
    static const char letters[] = "abm";
    char command[300];
    for (int k = 0; k <= LINE; k++) {
        (void)snprintf(w->space[k], sizeof w->space[k], "fednic%d%c", (int)getpid(), letters[k]);
        (void)snprintf(command, sizeof command, "ip netns add %s", w->space[k]);
        assert_true(shell(command));
        nic_world_shell(w, k, "ip link set lo up");
    }
    nic_world_shell(w, LINE,
                    "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 "
                    "net.ipv6.conf.default.disable_ipv6=1");
    for (int k = 0; k < NIC_HOSTS; k++) {
        (void)snprintf(command, sizeof command,
                       "ip link add eth0 netns %s type veth peer name end%d netns %s", w->space[k],
                       k, w->space[LINE]);
        assert_true(shell(command));
        (void)snprintf(command, sizeof command, "ip link set end%d mtu 1600 up", k);
        nic_world_shell(w, LINE, command);
        nic_world_shell(w, k, "ip link set eth0 up");
    }
}

void nic_world_open(nic_world *w, bool card0, bool card1) {
    memset(w, 0, sizeof *w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    w->home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    assert_true(w->home >= 0);
    open_spaces(w);
    nic_world_calm(w);
    for (int k = 0; k < NIC_HOSTS; k++) {
        bool nic = k == 0 ? card0 : card1;
        w->device[k] = nic ? "nic0" : "eth0";
        if (nic) {
            start_nic(w, k);
        }
        give_addresses(w, k);
    }
    open_line(w);
}

void nic_world_calm(nic_world *w) {
    for (int k = 0; k < BAD_KINDS; k++) {
        atomic_store(&w->rates.chance[k], 0);
    }
    atomic_store(&w->rates.least, 1);
    atomic_store(&w->rates.most, 1400);
    atomic_store(&w->rates.hold_frames, 8);
    atomic_store(&w->rates.hold_ms, 20);
    atomic_store(&w->rates.delay_ms, 5);
    atomic_store(&w->rates.tos, 0);
    atomic_store(&w->rates.packets, false);
}

static void remove_spaces(const nic_world *w) {
    char command[100];
    for (int k = 0; k <= LINE; k++) {
        (void)snprintf(command, sizeof command, "ip netns delete %s", w->space[k]);
        (void)shell(command);
    }
}

void nic_world_close(nic_world *w) {
    atomic_store(&w->stop, true);
    if (w->runs) {
        (void)pthread_join(w->thread, NULL);
        close(w->wires[0]);
        close(w->wires[1]);
        bad_line_close(&w->line);
    }
    const char *wrong[] = {end_nic(w, 0), end_nic(w, 1)};
    remove_spaces(w);
    close(w->home);
    must_be_good(w, wrong[0] != NULL ? wrong[0] : wrong[1]);
    fed_test_rmdir(w->directory);
}

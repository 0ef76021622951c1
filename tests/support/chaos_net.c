/* Links of limited rate: a network namespace for the run, and a second one, joined by a pair of
 * virtual network cards that limit the rate. Both namespaces end with the processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: unshare, setns */
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos.h"
#include "fed_test.h"

/* Rate of the link for one device, when all devices use it at the same time. */
enum { DOWN_KBIT = 256, UP_KBIT = 96 };

static bool put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) {
        close(fd);
    }
    return done;
}

/** Move this process to a new network namespace. It needs root, or becomes root in a new user
 * namespace. */
static bool leave_network(void) {
    char users[40], groups[40];
    snprintf(users, sizeof users, "0 %u 1", (unsigned)geteuid());
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getegid());
    if (unshare(CLONE_NEWNET) == 0) {
        return true;
    }
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && put("/proc/self/setgroups", "deny") &&
           put("/proc/self/uid_map", users) && put("/proc/self/gid_map", groups);
}

static bool raise_loopback(void) {
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return up;
}

__attribute__((format(printf, 1, 2))) static bool shell(const char *format, ...) {
    char command[600];
    va_list rest;
    va_start(rest, format);
    vsnprintf(command, sizeof command, format, rest);
    va_end(rest);
    return system(command) == 0; /* NOLINT: the command has no text from outside */
}

/** Open a network namespace that holds one end of the pair, and lasts while a process has the
 * descriptor. Returns -1 if that is not possible. */
static int open_far(void) {
    int ready[2], fd = -1;
    char byte = 0, path[40];
    if (pipe(ready) != 0) {
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        fed_test_die_with_parent();
        byte = unshare(CLONE_NEWNET) == 0;
        (void)!write(ready[1], &byte, 1);
        for (;;) {
            pause();
        }
    }
    close(ready[1]);
    if (pid > 0 && read(ready[0], &byte, 1) == 1 && byte != 0) {
        snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
        bool linked = shell("ip link add near type veth peer name far netns %d 2>&-", (int)pid);
        fd = linked ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    }
    close(ready[0]);
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    return fd;
}

static bool raise_nic(const char *card, const char *address, unsigned kbit) {
    return shell("{ ip addr add %s/24 dev %s && ip link set %s up &&"
                 " tc qdisc add dev %s root tbf rate %ukbit burst 16kb latency 500ms; } 2>&-",
                 address, card, card, card, kbit);
}

static bool raise_far(int fd, unsigned kbit) {
    pid_t pid = fork();
    if (pid == 0) {
        _exit(setns(fd, CLONE_NEWNET) == 0 && raise_nic("far", "10.99.0.2", kbit) ? 0 : 1);
    }
    int how = 0;
    return pid > 0 && waitpid(pid, &how, 0) == pid && how == 0;
}

void chaos_net_open(chaos_run *run, unsigned devices) {
    run->far = -1;
    if (!leave_network()) {
        printf("  links have no rate limit: this process may not make a network namespace\n");
        return;
    }
    if (!raise_loopback()) {
        perror("chaos: can't set up the loopback interface");
        exit(1); /* a failure is final: this process cannot return to its first network */
    }
    run->far = open_far();
    if (run->far < 0 || !raise_nic("near", CHAOS_NEAR, DOWN_KBIT * devices) ||
        !raise_far(run->far, UP_KBIT * devices)) {
        printf("  links have no rate limit: ip or tc can't set one up here\n");
        run->far = -1;
    }
}

bool chaos_net_is_far(const chaos_run *run, unsigned k) {
    return run->far >= 0 && k % CHAOS_FAR_EVERY == 0;
}

void chaos_net_enter(const chaos_run *run) {
    if (setns(run->far, CLONE_NEWNET) != 0) {
        perror("chaos: can't enter the far network namespace");
        _exit(1);
    }
}

unsigned long chaos_net_held_back(const chaos_run *run, unsigned long *bytes) {
    unsigned long held = 0;
    bool limited = false;
    *bytes = 0;
    FILE *told = run->far >= 0 ? popen("tc -s qdisc show dev near", "r") : NULL; /* NOLINT */
    char line[200];
    while (told != NULL && fgets(line, sizeof line, told) != NULL) {
        limited = limited || strstr(line, "qdisc tbf") == line;
        if (limited) {
            (void)sscanf(line, " Sent %lu bytes %*u pkt (dropped %*u, overlimits %lu", bytes,
                         &held);
        }
    }
    if (told != NULL) {
        (void)pclose(told);
    }
    return held;
}

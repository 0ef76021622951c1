/* Tells by a thread of its own whether the rounds' process is alive. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/front/liveness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/threads.h"

enum { BACKLOG = 16 };

struct fedserver_liveness {
    int listening, end; /* end: an eventfd that tells the thread to end */
    pthread_t thread;
    bool runs;
    _Atomic int64_t noted_ms;
};

/* The address of alive.sock. A path by a descriptor is short enough for every directory. */
static struct sockaddr_un address_in(int directory) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/alive.sock", directory);
    return address;
}

static int open_directory(const char *directory) {
    return open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void close_fd(int *fd) {
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* -- at the rounds' process -- */

static void *answer(void *user) {
    fedserver_liveness *l = user;
    struct pollfd wakers[] = {{.fd = l->listening, .events = POLLIN},
                              {.fd = l->end, .events = POLLIN}};
    while (wakers[1].revents == 0) {
        const int ready = poll(wakers, 2, -1);
        const int fd = ready > 0 && wakers[0].revents != 0 ? accept(l->listening, NULL, NULL) : -1;
        const int64_t busy_ms = fed_clock_monotonic_ms() - atomic_load(&l->noted_ms);
        const char life =
            busy_ms < FEDSERVER_BUSY_MOST_MS ? FEDSERVER_LIFE_WELL : FEDSERVER_LIFE_STUCK;
        if (fd >= 0) {
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
            (void)!send(fd, &life, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            close(fd);
        }
    }
    return NULL;
}

/* Listen in place of a socket that an earlier process may have left. */
static bool start(fedserver_liveness *l, const char *directory) {
    int at = open_directory(directory);
    const struct sockaddr_un address = address_in(at);
    (void)unlink(address.sun_path);
    l->end = eventfd(0, EFD_CLOEXEC);
    l->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool listens =
        at >= 0 && l->end >= 0 && l->listening >= 0 &&
        bind(l->listening, (const struct sockaddr *)&address, sizeof address) == 0 &&
        listen(l->listening, BACKLOG) == 0;
    l->runs = listens && fed_thread_start(&l->thread, answer, l);
    close_fd(&at);
    return l->runs;
}

fed_status fedserver_liveness_open(const char *directory, fedserver_liveness **made,
                                   fed_error *err) {
    fedserver_liveness *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the health check");
    }
    l->listening = l->end = -1;
    atomic_store(&l->noted_ms, fed_clock_monotonic_ms());
    if (!start(l, directory)) {
        const char *why = strerror(errno);
        fedserver_liveness_close(l);
        return fed_fail(err, FED_EIO,
                        "the health check can't start on alive.sock in the coordinator's "
                        "directory %s: %s",
                        directory, why);
    }
    *made = l;
    return FED_OK;
}

void fedserver_liveness_note(fedserver_liveness *liveness, int64_t monotonic_ms) {
    if (liveness != NULL) {
        atomic_store(&liveness->noted_ms, monotonic_ms);
    }
}

void fedserver_liveness_close(fedserver_liveness *liveness) {
    const uint64_t once = 1;
    if (liveness == NULL) {
        return;
    }
    if (liveness->runs) {
        (void)!write(liveness->end, &once, sizeof once);
        (void)pthread_join(liveness->thread, NULL);
    }
    close_fd(&liveness->listening);
    close_fd(&liveness->end);
    free(liveness);
}

/* -- whoever asks -- */

void fedserver_life_forget(fedserver_life_question *question) {
    close_fd(&question->fd);
}

/* Returns false if nobody listens. Where the socket's queue is full, the process does not answer,
 * so its answer is only not known. */
static bool connect_to(fedserver_life_question *question, const char *directory) {
    int at = open_directory(directory);
    const struct sockaddr_un address = address_in(at);
    question->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool connected =
        at >= 0 && question->fd >= 0 &&
        connect(question->fd, (const struct sockaddr *)&address, sizeof address) == 0;
    const bool full = !connected && errno == EAGAIN;
    close_fd(&at);
    if (!connected) {
        close_fd(&question->fd);
    }
    return connected || full;
}

/* Take the answer, if it is there. */
static void take(fedserver_life_question *question) {
    char life = 0;
    const ssize_t got = recv(question->fd, &life, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    question->life = got == 1 && life == FEDSERVER_LIFE_WELL    ? FEDSERVER_LIFE_WELL
                     : got == 1 && life == FEDSERVER_LIFE_STUCK ? FEDSERVER_LIFE_STUCK
                                                                : FEDSERVER_LIFE_ABSENT;
    question->told_ms = question->asked_ms;
    close_fd(&question->fd);
}

fedserver_life fedserver_life_ask(fedserver_life_question *question, const char *directory,
                                  int64_t came_ms, int64_t now_ms) {
    if (question->fd >= 0) {
        take(question);
    }
    if (question->life != FEDSERVER_LIFE_UNKNOWN && question->told_ms >= came_ms) {
        return question->life;
    }
    if (question->fd < 0) {
        question->asked_ms = now_ms;
        if (!connect_to(question, directory)) {
            return FEDSERVER_LIFE_ABSENT;
        }
    }
    return FEDSERVER_LIFE_UNKNOWN;
}

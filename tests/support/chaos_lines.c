/* Bad links: a proxy that breaks, slows and stalls connections; and senders that never finish. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chaos.h"
#include "fed/clock.h"
#include "fed/rng.h"

enum { LINES = 2048, ROOM = 16384, TICK_MS = 10, BACKLOG = 512 };

typedef struct lane {
    int from, to;
    uint8_t bytes[ROOM];
    size_t at, len;
    bool ended; /* the side `from` has closed its half */
} lane;

typedef struct proxy_line {
    bool used, connected;
    lane up, down;
    int64_t credit;                   /* bytes that a slow connection may still pass in this tick */
    int64_t rate;                     /* bytes per tick; 0: no limit */
    int64_t left;                     /* bytes until the connection breaks; negative: never */
    int64_t stalls_at, resumes_at_ms; /* the connection stalls after so many bytes;
                                         resumes_at_ms: when the stall ends, set at its start */
    int64_t passed;
} proxy_line;

static int socket_new(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static struct sockaddr_in loopback(unsigned port) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static int listen_anywhere(atomic_uint *port) {
    int fd = socket_new();
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        perror("chaos: the proxy can't listen");
        _exit(1);
    }
    *port = ntohs(at.sin_port);
    return fd;
}

static void draw_fate(const chaos_run *run, proxy_line *l, fed_rng *dice) {
    chaos_board *board = run->board;
    l->left = -1;
    l->stalls_at = -1;
    board->lines++;
    if (board->storm == 0) {
        return;
    }
    switch (fed_rng_below(dice, 8)) {
    case 0:
    case 1: /* break after few or many bytes */
        l->left = 1 + (int64_t)fed_rng_below(dice, 40000);
        board->broken_lines++;
        break;
    case 2:
        l->rate = 100 + (int64_t)fed_rng_below(dice, 2000);
        board->slow_lines++;
        break;
    case 3:
        l->stalls_at = (int64_t)fed_rng_below(dice, 20000);
        board->stalled_lines++;
        break;
    default:
        break;
    }
}

static void close_line(proxy_line *l, bool rudely) {
    if (rudely) { /* send a reset, as a router that has forgotten the connection does */
        const struct linger now = {.l_onoff = 1};
        (void)setsockopt(l->up.from, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        (void)setsockopt(l->up.to, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    close(l->up.from);
    close(l->up.to);
    l->used = false;
}

static void accept_line(const chaos_run *run, int listener, unsigned target, proxy_line *lines,
                        fed_rng *dice) {
    int fd = accept(listener, NULL, NULL);
    size_t k = 0;
    while (k < LINES && lines[k].used) {
        k++;
    }
    if (fd < 0 || k == LINES) {
        close(fd);
        return;
    }
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    proxy_line *l = &lines[k];
    *l = (proxy_line){.used = true, .up = {.from = fd}, .down = {.to = fd}};
    l->up.to = l->down.from = socket_new();
    const struct sockaddr_in at = loopback(target);
    draw_fate(run, l, dice);
    if (connect(l->up.to, (const struct sockaddr *)&at, sizeof at) != 0 && errno != EINPROGRESS) {
        close_line(l, true);
    }
}

static size_t allowed(proxy_line *l, size_t wanted) {
    int64_t most = (int64_t)wanted;
    if (l->rate > 0 && most > l->credit) {
        most = l->credit;
    }
    if (l->left >= 0 && most > l->left) {
        most = l->left;
    }
    if (l->stalls_at >= 0 && l->passed >= l->stalls_at &&
        fed_clock_monotonic_ms() < l->resumes_at_ms) {
        most = 0;
    }
    return (size_t)most;
}

static void note_passed(proxy_line *l, size_t n, fed_rng *dice) {
    l->passed += (int64_t)n;
    l->credit -= (int64_t)n;
    l->left -= l->left >= 0 ? (int64_t)n : 0;
    if (l->stalls_at >= 0 && l->passed >= l->stalls_at && l->resumes_at_ms == 0) {
        l->resumes_at_ms = fed_clock_monotonic_ms() + 500 + fed_rng_below(dice, 3000);
    }
}

static bool pump(proxy_line *l, lane *w, short from_events, fed_rng *dice) {
    if (w->len == 0 && (from_events & (POLLIN | POLLHUP | POLLERR)) != 0) {
        ssize_t got = recv(w->from, w->bytes, sizeof w->bytes, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) {
            return false;
        }
        w->at = 0;
        w->len = got > 0 ? (size_t)got : 0;
    }
    size_t n = allowed(l, w->len);
    if (n == 0) {
        return l->left != 0;
    }
    ssize_t put = send(w->to, w->bytes + w->at, n, MSG_NOSIGNAL);
    if (put < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN;
    }
    w->at += (size_t)put;
    w->len -= (size_t)put;
    note_passed(l, (size_t)put, dice);
    return l->left != 0;
}

static short wants(const lane *in, const lane *out) {
    return (short)((in->len == 0 ? POLLIN : 0) | (out->len > 0 ? POLLOUT : 0));
}

static void turn_lines(proxy_line *lines, struct pollfd *polls, const size_t *which, size_t count,
                       fed_rng *dice) {
    for (size_t k = 0; k < count; k++) {
        proxy_line *l = &lines[which[k]];
        bool goes_on = pump(l, &l->up, polls[2 * k].revents, dice) &&
                       pump(l, &l->down, polls[2 * k + 1].revents, dice);
        if (!goes_on) {
            close_line(l, l->left == 0);
        }
    }
}

void chaos_proxy(const chaos_run *run) {
    chaos_board *board = run->board;
    proxy_line *lines = calloc(LINES, sizeof *lines);
    struct pollfd *polls = calloc(2 + 2 * LINES, sizeof *polls);
    size_t *which = calloc(LINES, sizeof *which);
    fed_rng dice;
    if (lines == NULL || polls == NULL || which == NULL) {
        _exit(1);
    }
    fed_rng_init(&dice, run->seed, 1, 0);
    polls[0] = (struct pollfd){.fd = listen_anywhere(&board->proxy_front), .events = POLLIN};
    polls[1] = (struct pollfd){.fd = listen_anywhere(&board->proxy_devices), .events = POLLIN};
    int64_t ticked_ms = fed_clock_monotonic_ms();
    while (board->over == 0) {
        size_t count = 0;
        bool tick = fed_clock_monotonic_ms() - ticked_ms >= TICK_MS, waiting = false;
        ticked_ms += tick ? TICK_MS : 0;
        for (size_t k = 0; k < LINES; k++) {
            proxy_line *l = &lines[k];
            if (!l->used) {
                continue;
            }
            l->credit = tick && l->rate > 0 ? l->rate : l->credit;
            /* Do not poll a connection that may pass no bytes now; the next tick tries it again. */
            bool held = allowed(l, 1) == 0;
            waiting |= held || l->rate > 0;
            polls[2 + 2 * count] =
                (struct pollfd){.fd = held ? -1 : l->up.from, .events = wants(&l->up, &l->down)};
            polls[3 + 2 * count] =
                (struct pollfd){.fd = held ? -1 : l->up.to, .events = wants(&l->down, &l->up)};
            which[count++] = k;
        }
        (void)poll(polls, 2 + 2 * count, waiting ? TICK_MS : 100);
        turn_lines(lines, polls + 2, which, count, &dice);
        for (int k = 0; k < 2; k++) {
            if ((polls[k].revents & POLLIN) != 0) {
                accept_line(run, polls[k].fd, k == 0 ? board->front : board->devices, lines, &dice);
            }
        }
    }
    _exit(0);
}

void chaos_loris(const chaos_run *run, unsigned connections) {
    /* the head of a TLS record that announces 16 KB */
    static const uint8_t hello[] = {0x16, 0x03, 0x01, 0x40, 0x00, 0x01, 0x00, 0x3f, 0xfc, 0x03};
    chaos_board *board = run->board;
    int *fd = calloc(connections, sizeof *fd);
    size_t *sent = calloc(connections, sizeof *sent);
    if (fd == NULL || sent == NULL) {
        _exit(1);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    for (unsigned k = 0; board->over == 0; k = (k + 1) % connections) {
        if (fd[k] == 0) {
            const struct sockaddr_in at =
                loopback(k % 2 == 0 ? (unsigned)board->front : (unsigned)board->devices);
            fd[k] = socket_new();
            sent[k] = 0;
            (void)connect(fd[k], (const struct sockaddr *)&at, sizeof at);
            board->loris++;
        }
        uint8_t byte = sent[k] < sizeof hello ? hello[sent[k]] : 0;
        if (send(fd[k], &byte, 1, MSG_NOSIGNAL) == 1) {
            sent[k]++;
        } else if (errno != EAGAIN && errno != ENOTCONN) {
            close(fd[k]);
            fd[k] = 0;
        }
        fed_sleep_ms(200 / connections + 1);
    }
    _exit(0);
}

/* The control socket: the NIC answers requests for its report, and a client asks. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: accept4 */
#include "fedclient/datacenter/nic/packet/report_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { LIMIT_MS = 2000, TICK_MS = 500, ASK_SECONDS = 5, WORD = 16 };

typedef struct client {
    int fd; /* -1: none */
    int64_t until_ms;
    char word[WORD];
    size_t got;
    fed_writer text;
    size_t sent;
} client;

struct fednic_reports {
    int listener;
    struct sockaddr_un at;
    client clients[FEDNIC_CLIENTS];
};

static fed_status address(const char *path, struct sockaddr_un *at, fed_error *err) {
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at->sun_path) {
        return fed_fail(
            err, FED_EINVAL,
            "the path of a control socket (--control) has at most %zu characters: %.200s",
            sizeof at->sun_path - 1, path);
    }
    memcpy(at->sun_path, path, strlen(path));
    return FED_OK;
}

static int make_socket(int flags) {
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

/* Remove the socket file of a killed NIC. Fail if a running NIC answers there. */
static fed_status clear_away(const struct sockaddr_un *at, fed_error *err) {
    const int fd = make_socket(SOCK_NONBLOCK);
    const bool answers =
        fd >= 0 && (connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 || errno == EAGAIN);
    const int why = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (answers) {
        return fed_fail(err, FED_EBUSY,
                        "another fednic answers at %s: end it, or give another --control",
                        at->sun_path);
    }
    if (why == ECONNREFUSED) {
        (void)unlink(at->sun_path);
    }
    return FED_OK;
}

fed_status fednic_reports_open(const char *path, fednic_reports **reports, fed_error *err) {
    struct sockaddr_un at;
    FED_TRY(address(path, &at, err));
    FED_TRY(clear_away(&at, err));
    fednic_reports *r = calloc(1, sizeof *r);
    FED_REQUIRE(r != NULL, FED_ENOMEM);
    r->at = at;
    for (int k = 0; k < FEDNIC_CLIENTS; k++) {
        r->clients[k].fd = -1;
    }
    r->listener = make_socket(SOCK_NONBLOCK);
    /* fchmod sets the mode of the file that bind makes */
    if (r->listener < 0 || fchmod(r->listener, 0600) != 0 ||
        bind(r->listener, (const struct sockaddr *)&at, sizeof at) != 0 ||
        listen(r->listener, FEDNIC_CLIENTS) != 0) {
        const fed_status status =
            fed_fail(err, FED_EIO, "can't make the control socket %s (--control): %s", path,
                     strerror(errno));
        if (r->listener >= 0) {
            close(r->listener);
        }
        free(r);
        return status;
    }
    *reports = r;
    return FED_OK;
}

static void drop(client *c) {
    close(c->fd);
    fed_writer_free(&c->text);
    c->fd = -1;
}

void fednic_reports_close(fednic_reports *reports) {
    if (reports == NULL) {
        return;
    }
    for (int k = 0; k < FEDNIC_CLIENTS; k++) {
        if (reports->clients[k].fd >= 0) {
            drop(&reports->clients[k]);
        }
    }
    close(reports->listener);
    (void)unlink(reports->at.sun_path);
    free(reports);
}

int fednic_reports_poll(const fednic_reports *reports, struct pollfd *polls) {
    int limit = -1;
    polls[FEDNIC_CLIENTS] = (struct pollfd){.fd = reports->listener, .events = POLLIN};
    for (int k = 0; k < FEDNIC_CLIENTS; k++) {
        const client *c = &reports->clients[k];
        polls[k] = (struct pollfd){.fd = c->fd, .events = c->text.len > 0 ? POLLOUT : POLLIN};
        limit = c->fd >= 0 ? TICK_MS : limit;
    }
    return limit;
}

static void welcome(fednic_reports *reports, int64_t now_ms) {
    const int fd = accept4(reports->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    for (int k = 0; k < FEDNIC_CLIENTS && fd >= 0; k++) {
        client *c = &reports->clients[k];
        if (c->fd < 0) {
            *c = (client){.fd = fd, .until_ms = now_ms + LIMIT_MS};
            fed_writer_growing(&c->text);
            return;
        }
    }
    if (fd >= 0) {
        close(fd); /* too many clients at once */
    }
}

/* A request is one word and a line end. Return whether the request is complete. */
static bool listen_to(client *c, fednic_format *format) {
    const ssize_t got = read(c->fd, c->word + c->got, sizeof c->word - c->got);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            drop(c);
        }
        return false;
    }
    c->got += (size_t)got;
    if (memchr(c->word, '\n', c->got) == NULL) {
        if (c->got == sizeof c->word) {
            drop(c);
        }
        return false;
    }
    *format = c->word[0] == 'p' ? FEDNIC_PROMETHEUS : FEDNIC_TABLE;
    return true;
}

static void answer(client *c) {
    const ssize_t sent =
        send(c->fd, c->text.data + c->sent, c->text.len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    c->sent += sent > 0 ? (size_t)sent : 0;
    if (c->sent == c->text.len || (sent < 0 && errno != EAGAIN && errno != EINTR)) {
        drop(c);
    }
}

void fednic_reports_serve(fednic_reports *reports, const struct pollfd *polls, int64_t now_ms,
                          fednic_report_now *report, void *user) {
    for (int k = 0; k < FEDNIC_CLIENTS; k++) {
        client *c = &reports->clients[k];
        fednic_format format = FEDNIC_TABLE;
        if (c->fd >= 0 && polls[k].revents != 0) {
            if (c->text.len == 0 && listen_to(c, &format)) {
                report(user, format, &c->text);
            }
            if (c->fd >= 0 && c->text.len > 0) {
                answer(c);
            }
        }
        if (c->fd >= 0 && (now_ms > c->until_ms || c->text.status != FED_OK)) {
            drop(c);
        }
    }
    if (polls[FEDNIC_CLIENTS].revents != 0) {
        welcome(reports, now_ms);
    }
}

static fed_status reach(int fd, const struct sockaddr_un *at, fed_error *err) {
    const struct timeval limit = {.tv_sec = ASK_SECONDS};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) {
        return fed_fail(err, FED_EIO, "can't set a time limit on the control socket: %s",
                        strerror(errno));
    }
    if (connect(fd, (const struct sockaddr *)at, sizeof *at) == 0) {
        return FED_OK;
    }
    if (errno == ENOENT || errno == ECONNREFUSED) {
        return fed_fail(err, FED_ENOTFOUND,
                        "no fednic answers at %s: start it, or give the --tun or --control that it "
                        "was started with",
                        at->sun_path);
    }
    return errno == EACCES
               ? fed_fail(err, FED_EAUTH, "%s belongs to another user: ask as root", at->sun_path)
               : fed_fail(err, FED_EIO, "%s: %s", at->sun_path, strerror(errno));
}

static fed_status listen_to_nic(int fd, fednic_format format, fed_writer *text, fed_error *err) {
    static const char *const words[] = {"table\n", "prometheus\n"};
    char part[4096];
    const size_t before = text->len;
    ssize_t got = send(fd, words[format], strlen(words[format]), MSG_NOSIGNAL);
    while (got > 0) {
        got = read(fd, part, sizeof part);
        if (got > 0) {
            fed_write_bytes(text, part, (size_t)got);
        }
    }
    if (got < 0 && errno == EAGAIN) {
        return fed_fail(
            err, FED_ETIMEOUT,
            "fednic did not answer on its control socket in %d seconds: its process may be stopped",
            ASK_SECONDS);
    }
    if (got < 0 || text->len == before) {
        return fed_fail(err, FED_EIO,
                        "fednic gave no answer on its control socket: too many programs may ask at "
                        "once, try again");
    }
    return text->status;
}

fed_status fednic_ask(const char *control, fednic_format format, fed_writer *text, fed_error *err) {
    struct sockaddr_un at;
    FED_TRY(address(control, &at, err));
    const int fd = make_socket(0);
    if (fd < 0) {
        return fed_fail(err, FED_EIO, "can't make a socket to ask fednic: %s", strerror(errno));
    }
    fed_status status = reach(fd, &at, err);
    status = status == FED_OK ? listen_to_nic(fd, format, text, err) : status;
    close(fd);
    return status;
}

/* Forwards connections, and breaks or stops them when a test asks for it (cut_lines.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cut_lines.h"

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
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fed_port.h"
#include "fed_test.h"

enum { PAIRS = 256, ROOM = 32768, BACKLOG = 128, TURN_MS = 10 };

/* The parser's state for a stream of messages to PostgreSQL. */
typedef struct reading {
    bool started;    /* false until the first message after encryption requests */
    uint8_t head[8]; /* head of the current message */
    size_t have;
    uint32_t left; /* bytes of the message that are still to come */
    bool counted;  /* the statement that begins here was counted in deed_in */
    bool last;     /* the deed happens at the end of the current message */
} reading;

typedef struct lane {
    uint8_t bytes[ROOM];
    size_t at, len;
} lane;

typedef struct pair {
    bool used;
    unsigned line;
    int near, far;
    uint64_t carried;
    lane up, down;
    reading reading;
} pair;

struct cut_forwarder {
    cut_lines *lines;
    int doors[CUT_LINES];
    pair pairs[PAIRS];
    struct pollfd polls[CUT_LINES + 2 * PAIRS];
};

typedef union address {
    struct sockaddr any;
    struct sockaddr_un local;
    struct sockaddr_in net;
} address;

static address read_address(const char *text, socklen_t *len) {
    address a = {.any = {.sa_family = AF_UNIX}};
    char host[CUT_ADDRESS];
    const char *colon = strrchr(text, ':');
    if (text[0] == '/') {
        memcpy(a.local.sun_path, text, strlen(text) + 1);
        *len = sizeof a.local;
        return a;
    }
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    a.net = (struct sockaddr_in){.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10))};
    (void)inet_pton(AF_INET, host, &a.net.sin_addr);
    *len = sizeof a.net;
    return a;
}

static int socket_to(const char *text, address *a, socklen_t *len) {
    *a = read_address(text, len);
    return socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int open_door(const char *text) {
    address a;
    socklen_t len;
    const int on = 1;
    const int fd = socket_to(text, &a, &len);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, &a.any, len) != 0 || listen(fd, BACKLOG) != 0) {
        fail_msg("can't listen on %s for a line: %s", text, strerror(errno));
    }
    if (text[0] == '/') {
        assert_int_equal(chmod(text, 0777), 0);
    }
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* Close both sides. shutdown is needed because other processes may have inherited the sockets. */
static void hang_up(pair *p) {
    (void)shutdown(p->near, SHUT_RDWR);
    (void)shutdown(p->far, SHUT_RDWR);
    close(p->near);
    close(p->far);
    p->used = false;
}

static pair *free_pair(pair *pairs) {
    for (unsigned k = 0; k < PAIRS; k++) {
        if (!pairs[k].used) {
            return &pairs[k];
        }
    }
    return NULL;
}

static void let_in(cut_forwarder *f, unsigned k) {
    address a;
    socklen_t len;
    const int near = accept(f->doors[k], NULL, NULL);
    if (near < 0) {
        return;
    }
    pair *p = free_pair(f->pairs);
    const int far = socket_to(f->lines->line[k].to, &a, &len);
    if (f->lines->line[k].state == CUT_OFF || p == NULL || connect(far, &a.any, len) != 0) {
        close(near);
        close(far);
        return;
    }
    (void)fcntl(near, F_SETFL, O_NONBLOCK);
    (void)fcntl(near, F_SETFD, FD_CLOEXEC);
    (void)fcntl(far, F_SETFL, O_NONBLOCK);
    f->lines->dialled++;
    p->used = true;
    p->carried = 0;
    p->line = k;
    p->near = near;
    p->far = far;
    p->up.at = p->up.len = p->down.at = p->down.len = 0;
    p->reading = (reading){.have = 0};
}

static bool counts_down(cut_line *line) {
    unsigned left = line->deed_in;
    line->statements++;
    return left > 0 && atomic_compare_exchange_strong(&line->deed_in, &left, left - 1) && left == 1;
}

static uint32_t number(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Take a complete head. Before its first message, a connection may ask for encryption by special
 * codes. */
static void take_head(reading *r) {
    enum { QUESTION = 80877103, LAST_QUESTION = 80877104 };
    if (r->started) {
        r->left = number(r->head + 1) - 4;
    } else {
        const uint32_t code = number(r->head + 4);
        r->left = number(r->head) - 8;
        r->started = code < QUESTION || code > LAST_QUESTION;
    }
    r->have = 0;
}

/* Return how many of these bytes may pass before the deed. *due: the deed happens after them. A
 * statement is an Execute or Query message. */
static size_t before_deed(cut_line *line, reading *r, const uint8_t *bytes, size_t len, bool *due) {
    for (size_t at = 0; at < len;) {
        if (r->left > 0) {
            const size_t step = len - at < r->left ? len - at : r->left;
            at += step;
            r->left -= (uint32_t)step;
        } else {
            const bool statement =
                r->started && r->have == 0 && !r->counted && (bytes[at] == 'E' || bytes[at] == 'Q');
            if (statement && counts_down(line)) {
                *due = r->counted = line->deed_is_after == 0;
                r->last = !*due;
            }
            if (*due) {
                return at;
            }
            r->counted = false;
            r->head[r->have++] = bytes[at++];
            if (r->have == (r->started ? 5 : 8)) {
                take_head(r);
            }
        }
        if (r->last && r->left == 0 && r->have == 0) {
            r->last = false;
            *due = true;
            return at;
        }
    }
    return len;
}

static void do_deed(cut_forwarder *f, unsigned k) {
    cut_line *line = &f->lines->line[k];
    line->deeds++;
    if (line->deed != CUT_BREAKS && line->victim > 0) {
        (void)kill(line->victim, line->deed == CUT_KILLS ? SIGKILL : SIGSTOP);
    } else if (line->deed == CUT_BREAKS) {
        line->state = CUT_OFF;
    }
    for (unsigned i = 0; i < PAIRS && line->deed != CUT_STOPS; i++) {
        if (f->pairs[i].used && f->pairs[i].line == k) {
            hang_up(&f->pairs[i]);
        }
    }
}

static bool fill(lane *l, int from) {
    if (l->len > 0) {
        return true;
    }
    const ssize_t got = recv(from, l->bytes, sizeof l->bytes, 0);
    l->at = 0;
    l->len = got > 0 ? (size_t)got : 0;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool drain(cut_lines *lines, pair *p, lane *l, int to) {
    const uint64_t left = lines->break_bytes > 0 ? lines->break_bytes - p->carried : UINT64_MAX;
    const size_t may = l->len < left ? l->len : (size_t)left;
    const ssize_t put = may > 0 ? send(to, l->bytes + l->at, may, MSG_NOSIGNAL) : 0;
    if (put < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    l->at += (size_t)put;
    l->len -= (size_t)put;
    *(l == &p->up ? &lines->up_bytes : &lines->down_bytes) += (uint64_t)put;
    p->carried += (uint64_t)put;
    lines->breaks += (uint64_t)put == left;
    return (uint64_t)put < left;
}

static void drain_all(cut_lines *lines, pair *p) {
    for (int k = 0; k < 100 && p->up.len > 0 && drain(lines, p, &p->up, p->far); k++) {
        struct pollfd room = {.fd = p->far, .events = POLLOUT};
        (void)poll(&room, 1, TURN_MS);
    }
}

/* Look for the deed's statement in new bytes, and do the deed there. Returns false if the deed has
 * ended the connection. */
static bool pass_statements(cut_forwarder *f, pair *p) {
    cut_line *line = &f->lines->line[p->line];
    lane *up = &p->up;
    bool due = false;
    const size_t pass = before_deed(line, &p->reading, up->bytes, up->len, &due);
    if (!due) {
        return true;
    }
    const size_t rest = up->len - pass;
    up->len = pass;
    drain_all(f->lines, p);
    do_deed(f, p->line);
    due = false;
    (void)before_deed(line, &p->reading, up->bytes + pass, rest, &due);
    up->at = pass;
    up->len = rest;
    return line->deed == CUT_STOPS;
}

static void turn(cut_forwarder *f, pair *p) {
    cut_lines *lines = f->lines;
    const bool fresh = p->up.len == 0;
    bool goes_on = fill(&p->up, p->near);
    if (fresh && p->up.len > 0 && lines->line[p->line].to[0] == '/') {
        goes_on = pass_statements(f, p) && goes_on;
    }
    const bool idle = p->down.len == 0;
    goes_on = goes_on && p->used && drain(lines, p, &p->up, p->far) && fill(&p->down, p->far);
    if (idle && goes_on && p->down.len > 0 && lines->line[p->line].to[0] != '/' &&
        counts_down(&lines->line[p->line])) {
        do_deed(f, p->line);
        goes_on = p->used;
    }
    goes_on = goes_on && drain(lines, p, &p->down, p->near);
    if (!goes_on && p->used) {
        hang_up(p);
    }
}

static size_t watch(cut_forwarder *f) {
    cut_lines *lines = f->lines;
    struct pollfd *polls = f->polls;
    size_t n = 0;
    for (unsigned k = 0; k < lines->count; k++) {
        const bool open = lines->line[k].state != CUT_HOLE;
        polls[n++] = (struct pollfd){.fd = open ? f->doors[k] : -1, .events = POLLIN};
    }
    for (unsigned k = 0; k < PAIRS; k++) {
        pair *p = &f->pairs[k];
        if (p->used && lines->line[p->line].state == CUT_OFF) {
            hang_up(p);
        }
        const bool on = p->used && lines->line[p->line].state == CUT_OPEN;
        const int up = (p->up.len == 0 ? POLLIN : 0) | (p->down.len > 0 ? POLLOUT : 0);
        const int down = (p->down.len == 0 ? POLLIN : 0) | (p->up.len > 0 ? POLLOUT : 0);
        polls[n++] = (struct pollfd){.fd = on ? p->near : -1, .events = (short)up};
        polls[n++] = (struct pollfd){.fd = on ? p->far : -1, .events = (short)down};
    }
    return n;
}

void cut_lines_poll(cut_forwarder *f, int wait_ms) {
    (void)poll(f->polls, watch(f), wait_ms);
    for (unsigned k = 0; k < PAIRS; k++) {
        const struct pollfd *of = f->polls + f->lines->count + 2 * (size_t)k;
        if (f->pairs[k].used && (of[0].revents | of[1].revents) != 0) {
            turn(f, &f->pairs[k]);
        }
    }
    for (unsigned k = 0; k < f->lines->count; k++) {
        if (f->polls[k].revents != 0) {
            let_in(f, k);
        }
    }
}

unsigned cut_lines_add(cut_lines *lines, const char *from, const char *to) {
    assert_true(lines->count < CUT_LINES);
    cut_line *line = &lines->line[lines->count];
    assert_true(strlen(from) < CUT_ADDRESS && strlen(to) < CUT_ADDRESS);
    memcpy(line->from, from, strlen(from) + 1);
    memcpy(line->to, to, strlen(to) + 1);
    return lines->count++;
}

void cut_lines_add_ports(cut_lines *lines, uint16_t ports[2]) {
    for (int k = 0; k < 2; k++) {
        char from[CUT_ADDRESS], to[CUT_ADDRESS];
        ports[k] = fed_port_keep();
        snprintf(from, sizeof from, "127.0.0.2:%u", ports[k]);
        snprintf(to, sizeof to, "127.0.0.1:%u", ports[k]);
        (void)cut_lines_add(lines, from, to);
    }
}

cut_forwarder *cut_lines_open(cut_lines *lines) {
    cut_forwarder *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->lines = lines;
    for (unsigned k = 0; k < lines->count; k++) {
        f->doors[k] = open_door(lines->line[k].from);
    }
    return f;
}

void cut_lines_close(cut_forwarder *f) {
    for (unsigned k = 0; k < PAIRS; k++) {
        if (f->pairs[k].used) {
            hang_up(&f->pairs[k]);
        }
    }
    for (unsigned k = 0; k < f->lines->count; k++) {
        close(f->doors[k]);
    }
    free(f);
}

pid_t cut_lines_start(cut_lines *lines) {
    cut_forwarder *f = cut_lines_open(lines);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fed_test_die_with_parent();
        (void)signal(SIGPIPE, SIG_IGN);
        for (;;) {
            cut_lines_poll(f, TURN_MS);
        }
    }
    cut_lines_close(f);
    return pid;
}

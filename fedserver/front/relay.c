/* Passes requests for the status from the front's process to the rounds' process. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: memfd_create */
#include "fedserver/front/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/send_files.h"

enum {
    PEERS = 4,              /* most fronts connected at a time */
    PATHS = 3,              /* number of RELAYED paths in routes/routes.def */
    QUESTION = 64,          /* bytes of a buffer for a question's packet */
    HEAD = 128,             /* bytes of a buffer for an answer's packet */
    SPACING_MS = 20,        /* least time between two questions for the same path */
    AGAIN_MS = 200,         /* time until the front looks again for the rounds' process */
    SAY_EVERY_MS = 60000,   /* least time between two log lines about answers that can't be sent */
    PATIENCE_MS = 10 * 1000 /* time until the front stops waiting for the rounds' process */
};

/* At the front: the newest answer for one path. */
typedef struct topic {
    char path[QUESTION];
    char type[64], etag[20];
    int status;
    fedserver_blob *body;
    bool asked;
    int64_t asked_ms;
    int64_t heard_ms; /* when the question that `body` answers was sent */
} topic;

/* At the rounds' process: the connection of one front. */
typedef struct front {
    int fd;
    fedserver_blob *body; /* an answer that waits for the commit; NULL: none */
    char head[HEAD];
    uint64_t ticket; /* at a follower: id of the question that is not answered yet; 0: none */
} front;

struct fedserver_relay {
    fedserver_part part;
    const fed_log *log;
    int directory;        /* descriptor of the coordinator's directory, for a short socket path */
    int listening, epoll; /* used by the rounds' process */
    front fronts[PEERS];
    uint64_t tickets;
    int64_t said_ms; /* when the log last had a line about an answer; 0: never */
    int link;        /* at the front: the connected socket; -1: none */
    topic topics[PATHS];
};

/** The control data of an answer's packet: one descriptor. */
typedef union passed_fd {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
} passed_fd;

static struct sockaddr_un address_of(const fedserver_relay *relay) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/front.sock",
             relay->directory);
    return address;
}

static void watch(const fedserver_relay *relay, int fd) {
    struct epoll_event event = {.events = EPOLLIN};
    /* If this fails, the next tick still looks for questions. */
    (void)epoll_ctl(relay->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Listen on front.sock, in place of a socket that an earlier process may have left. */
static fed_status start_listening(fedserver_relay *relay, fed_error *err) {
    const struct sockaddr_un address = address_of(relay);
    (void)unlink(address.sun_path);
    relay->epoll = epoll_create1(EPOLL_CLOEXEC);
    relay->listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (relay->epoll < 0 || relay->listening < 0 ||
        bind(relay->listening, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(relay->listening, PEERS) != 0) {
        return fed_fail(err, FED_EIO,
                        "can't listen on front.sock in the coordinator's directory: %s",
                        strerror(errno));
    }
    watch(relay, relay->listening);
    return FED_OK;
}

fed_status fedserver_relay_open(const char *directory, fedserver_part part, const fed_log *log,
                                fedserver_relay **relay, fed_error *err) {
    fedserver_relay *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for requests between front and rounds");
    }
    *made = (fedserver_relay){
        .part = part, .log = log, .directory = -1, .listening = -1, .epoll = -1, .link = -1};
    for (size_t k = 0; k < PEERS; k++) {
        made->fronts[k].fd = -1;
    }
    made->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fed_status status = FED_OK;
    if (made->directory < 0) {
        status = fed_fail(err, FED_EIO, "%s: the directory can't be opened", directory);
    } else if (part == FEDSERVER_ROUNDS) {
        status = start_listening(made, err);
    }
    if (status != FED_OK) {
        fedserver_relay_close(made);
        return status;
    }
    *relay = made;
    return FED_OK;
}

static void close_fd(int *fd) {
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void drop_front(front *f) {
    close_fd(&f->fd);
    fedserver_blob_free(f->body);
    f->body = NULL;
    f->ticket = 0;
}

void fedserver_relay_close(fedserver_relay *relay) {
    if (relay == NULL) {
        return;
    }
    for (size_t k = 0; k < PEERS; k++) {
        drop_front(&relay->fronts[k]);
    }
    for (size_t k = 0; k < PATHS; k++) {
        fedserver_blob_free(relay->topics[k].body);
    }
    close_fd(&relay->listening);
    close_fd(&relay->epoll);
    close_fd(&relay->link);
    close_fd(&relay->directory);
    free(relay);
}

int fedserver_relay_fd(const fedserver_relay *relay) {
    if (relay == NULL) {
        return -1;
    }
    return relay->part == FEDSERVER_ROUNDS ? relay->epoll : relay->link;
}

void fedserver_relay_watch(const fedserver_relay *relay, int fd) {
    if (relay != NULL && relay->part == FEDSERVER_ROUNDS) {
        watch(relay, fd);
    }
}

/* -- functions of the front's process -- */

static void hang_up(fedserver_relay *relay) {
    close_fd(&relay->link);
    for (size_t k = 0; k < PATHS; k++) {
        relay->topics[k].asked = false;
    }
}

static topic *topic_of(fedserver_relay *relay, const char *path) {
    for (size_t k = 0; k < PATHS; k++) {
        topic *t = &relay->topics[k];
        if (t->path[0] == '\0') {
            snprintf(t->path, sizeof t->path, "%s", path);
        }
        if (strcmp(t->path, path) == 0) {
            return t;
        }
    }
    return NULL;
}

static void send_question(fedserver_relay *relay, topic *t, int64_t now_ms) {
    char question[QUESTION + 8];
    const struct sockaddr_un address = address_of(relay);
    t->asked_ms = now_ms;
    if (relay->link < 0) {
        relay->link = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(relay->link, (const struct sockaddr *)&address, sizeof address) != 0) {
            hang_up(relay);
            return;
        }
    }
    const int len = snprintf(question, sizeof question, "GET %s", t->path);
    t->asked = send(relay->link, question, (size_t)len, MSG_NOSIGNAL) == len;
    if (!t->asked) {
        hang_up(relay);
    }
}

bool fedserver_relay_ask(fedserver_relay *relay, const fedserver_request *request, int64_t now_ms,
                         fedserver_response *response) {
    topic *t = topic_of(relay, request->path);
    const int64_t came_ms = now_ms - request->waited_ms;
    if (t->body != NULL && t->heard_ms >= came_ms && t->heard_ms <= now_ms) {
        response->status = t->status;
        response->content_type = t->type;
        memcpy(response->etag, t->etag, sizeof response->etag);
        response->body = fedserver_blob_share(t->body);
        return true;
    }
    if (request->waited_ms >= PATIENCE_MS) {
        return false;
    }
    const bool clock_jumped = now_ms < t->asked_ms;
    const int64_t since_ms = now_ms - t->asked_ms;
    response->hold = true;
    response->hold_ms = AGAIN_MS;
    if (!t->asked && !clock_jumped && since_ms < SPACING_MS) {
        response->hold_ms = (uint32_t)(SPACING_MS - since_ms);
    } else if (!t->asked) {
        send_question(relay, t, now_ms);
    }
    return true;
}

/* Cut "STATUS PATH ETAG TYPE" into its words, in place. ETAG is "-" where there is none. */
static bool split_head(char *head, int *status, char **path, char **etag, char **type) {
    *path = strchr(head, ' ');
    *etag = *path != NULL ? strchr(*path + 1, ' ') : NULL;
    *type = *etag != NULL ? strchr(*etag + 1, ' ') : NULL;
    if (*type == NULL) {
        return false;
    }
    *(*path)++ = '\0';
    *(*etag)++ = '\0';
    *(*type)++ = '\0';
    *status = (int)strtol(head, NULL, 10);
    return *status >= 200 && *status <= 599;
}

static fedserver_blob *blob_of_file(int fd) {
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return NULL;
    }
    const size_t len = (size_t)info.st_size;
    fed_writer body;
    fed_writer_growing(&body);
    uint8_t *bytes = fed_writer_reserve(&body, len);
    const ssize_t got = bytes != NULL ? pread(fd, bytes, len, 0) : -1;
    if (got < 0 || (size_t)got != len) {
        fed_writer_free(&body);
        return NULL;
    }
    fed_writer_advance(&body, len);
    return fedserver_blob_new(&body);
}

static bool take_answer(fedserver_relay *relay, char *head, int file) {
    char *path = NULL, *etag = NULL, *type = NULL;
    int status = 0;
    topic *t = split_head(head, &status, &path, &etag, &type) ? topic_of(relay, path) : NULL;
    fedserver_blob *blob = t != NULL ? blob_of_file(file) : NULL;
    if (blob == NULL) {
        return false;
    }
    fedserver_blob_free(t->body);
    t->body = blob;
    t->status = status;
    snprintf(t->type, sizeof t->type, "%s", type);
    snprintf(t->etag, sizeof t->etag, "%s", strcmp(etag, "-") != 0 ? etag : "");
    t->heard_ms = t->asked_ms;
    t->asked = false;
    return true;
}

/* Receive a packet. *file: the descriptor that came with the packet, or -1. Returns the result of
 * recvmsg. */
static ssize_t receive_packet(int link, char head[HEAD], int *file) {
    passed_fd control;
    struct iovec part = {.iov_base = head, .iov_len = HEAD - 1};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = CMSG_LEN(sizeof(int))};
    const ssize_t len = recvmsg(link, &packet, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = len >= 0 ? CMSG_FIRSTHDR(&packet) : NULL;
    *file = -1;
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        memcpy(file, CMSG_DATA(c), sizeof *file);
    }
    head[len > 0 ? len : 0] = '\0';
    return len;
}

unsigned fedserver_relay_receive(fedserver_relay *relay) {
    unsigned answers = 0;
    while (relay != NULL && relay->link >= 0) {
        char head[HEAD];
        int file;
        const ssize_t len = receive_packet(relay->link, head, &file);
        if (len < 0 && errno == EINTR) {
            continue;
        }
        if (len < 0 && errno == EAGAIN) {
            break;
        }
        const bool taken = len > 0 && take_answer(relay, head, file);
        close_fd(&file);
        if (!taken) {
            hang_up(relay);
            break;
        }
        answers++;
    }
    return answers;
}

/* -- functions of the rounds' process -- */

/* Accept connections of fronts. Close those beyond PEERS: if they waited, the listening socket
 * would stay readable for ever. */
static void accept_fronts(fedserver_relay *relay) {
    for (int fd; (fd = accept(relay->listening, NULL, NULL)) >= 0;) {
        front *f = relay->fronts;
        while (f < relay->fronts + PEERS && f->fd >= 0) {
            f++;
        }
        if (f == relay->fronts + PEERS) {
            close(fd);
            continue;
        }
        f->fd = fd;
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        watch(relay, fd);
    }
}

static void set_answer(front *f, const char *path, const fedserver_response *response,
                       fedserver_blob *body) {
    fedserver_blob_free(f->body);
    f->body = body;
    snprintf(f->head, sizeof f->head, "%d %s %s %s", response->status, path,
             response->etag[0] != '\0' ? response->etag : "-",
             response->content_type != NULL ? response->content_type : "text/plain");
}

static bool read_question(front *f, char path[QUESTION]) {
    char question[QUESTION];
    const ssize_t len = recv(f->fd, question, sizeof question - 1, 0);
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (len <= 4 || memcmp(question, "GET ", 4) != 0) {
        drop_front(f);
        return false;
    }
    question[len] = '\0';
    snprintf(path, QUESTION, "%s", question + 4);
    return true;
}

fed_status fedserver_relay_serve(fedserver_relay *relay, fedserver_relay_answer answer, void *user,
                                 int64_t now_ms, fed_error *err) {
    if (relay == NULL) {
        return FED_OK;
    }
    accept_fronts(relay);
    /* Answer one question of each front. Further questions wait in the socket. */
    for (size_t k = 0; k < PEERS; k++) {
        front *f = &relay->fronts[k];
        char path[QUESTION];
        fedserver_response response = {.status = 200};
        bool known = false;
        if (f->fd < 0 || !read_question(f, path)) {
            continue;
        }
        FED_TRY(answer(user, path, now_ms, &known, &response, err));
        if (known) {
            set_answer(f, path, &response, response.body);
        } else {
            drop_front(f);
        }
    }
    return FED_OK;
}

static int file_of(const uint8_t *bytes, size_t len) {
    int fd = memfd_create("answer", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < len;) {
        const ssize_t put = write(fd, bytes + at, len - at);
        if (put < 0) {
            close_fd(&fd);
            break;
        }
        at += (size_t)put;
    }
    return fd;
}

static bool send_packet(int link, char *head, int file) {
    const struct iovec part = {.iov_base = head, .iov_len = strlen(head)};
    return fed_send_files(link, &part, 1, &file, 1) >= 0;
}

static void send_answer(fedserver_relay *relay, front *f) {
    size_t len = 0;
    const uint8_t *data = f->body != NULL ? fedserver_blob_data(f->body, &len) : NULL;
    int file = file_of(data, len);
    const bool sent = file >= 0 && send_packet(f->fd, f->head, file);
    const char *why = strerror(errno);
    const int64_t now_ms = fed_clock_monotonic_ms();
    if (!sent && (relay->said_ms == 0 || now_ms - relay->said_ms >= SAY_EVERY_MS)) {
        relay->said_ms = now_ms;
        fed_logf(
            relay->log, FED_LOG_WARN,
            "an answer of %zu bytes (%s) can't be passed to the front's process: %s; the front "
            "asks again, and the page stands still until then",
            len, f->head, why);
    }
    close_fd(&file);
    fedserver_blob_free(f->body);
    f->body = NULL;
    if (!sent) {
        drop_front(f);
    }
}

void fedserver_relay_send(fedserver_relay *relay) {
    for (size_t k = 0; relay != NULL && k < PEERS; k++) {
        if (relay->fronts[k].body != NULL) {
            send_answer(relay, &relay->fronts[k]);
        }
    }
}

/* At a follower. Until a question is answered, epoll does not watch the front's socket, so that
 * further questions do not wake this process. */
bool fedserver_relay_next(fedserver_relay *relay, fedserver_question *question) {
    if (relay == NULL) {
        return false;
    }
    accept_fronts(relay);
    for (size_t k = 0; k < PEERS; k++) {
        front *f = &relay->fronts[k];
        if (f->fd >= 0 && f->ticket == 0 && read_question(f, question->path)) {
            (void)epoll_ctl(relay->epoll, EPOLL_CTL_DEL, f->fd, NULL);
            question->ticket = f->ticket = ++relay->tickets;
            return true;
        }
    }
    return false;
}

void fedserver_relay_give(fedserver_relay *relay, const fedserver_question *question,
                          const fedserver_response *response) {
    front *f = NULL;
    for (size_t k = 0; relay != NULL && k < PEERS; k++) {
        front *one = &relay->fronts[k];
        f = one->fd >= 0 && one->ticket == question->ticket ? one : f;
    }
    if (f == NULL) {
        return;
    }
    if (response == NULL) {
        drop_front(f);
        return;
    }
    f->ticket = 0;
    watch(relay, f->fd);
    set_answer(f, question->path, response,
               response->body != NULL ? fedserver_blob_share(response->body) : NULL);
    send_answer(relay, f);
}

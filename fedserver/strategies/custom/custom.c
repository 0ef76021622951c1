/* A strategy of the operator's own: a program beside the coordinator combines each round's updates.
 * docs/protocol.md#a-strategy-of-your-own has the messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* for memfd_create */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/send_files.h"
#include "fedserver/strategies/strategy.h"

enum { WAIT, PARAMS };
enum { LOOK_MS = 50, REASON_LIMIT = 300 };

static const char SOCKET[] = "strategy.sock";

/* Both ends run on this machine, so numbers have its byte order. The compiler refuses padding. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

typedef struct question {
    uint64_t updates, values, task, round;
} question;

typedef struct answer {
    uint32_t failed; /* not 0: the reason follows, in UTF-8 */
} answer;

#pragma GCC diagnostic pop

/** A question that is being asked. */
typedef struct asking {
    const fedserver_rows *rows;
    int64_t until_ms; /* monotonic */
    int socket;
    int updates;  /* descriptor of the rows' file, for reading only */
    int memory;   /* descriptor of the shared memory: uint64 places[updates], float32 u[values] */
    void *mapped; /* the shared memory */
    size_t bytes;
} asking;

static fed_status go_on(const asking *a, const char *what, fed_error *err) {
    if (a->rows->stop != NULL && atomic_load(a->rows->stop)) {
        return fed_fail(err, FED_ESTATE, "the coordinator ends while strategy custom is asked");
    }
    if (fed_clock_monotonic_ms() >= a->until_ms) {
        return fed_fail(err, FED_ETIMEOUT,
                        "strategy custom: task %" PRIu64 ": %s in time at %s/%s; start the program "
                        "that combines updates as the coordinator's user, or raise the strategy's "
                        "parameter wait (seconds)",
                        a->rows->task, what, a->rows->directory, SOCKET);
    }
    return FED_OK;
}

/** Say why the program can't be reached, as errno has it. */
static const char *unreached(char text[64]) {
    if (errno == ENOENT || errno == ECONNREFUSED) {
        return "nobody listens";
    }
    snprintf(text, 64, "the socket can't be opened (%.30s)", strerror(errno));
    return text;
}

/** Connect to the program. It may be about to start. */
static fed_status reach(asking *a, fed_error *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int len =
        snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", a->rows->directory, SOCKET);
    if (len < 0 || (size_t)len >= sizeof address.sun_path) {
        return fed_fail(err, FED_EINVAL,
                        "strategy custom: %s/%s is longer than the %zu characters of a socket's "
                        "path; move the coordinator's directory",
                        a->rows->directory, SOCKET, sizeof address.sun_path - 1);
    }
    a->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (a->socket < 0) {
        return fed_fail(err, FED_EIO, "strategy custom: no socket: %s", strerror(errno));
    }
    while (connect(a->socket, (const struct sockaddr *)&address, sizeof address) != 0) {
        const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
        char text[64];
        FED_TRY(go_on(a, unreached(text), err));
        (void)nanosleep(&pause, NULL);
    }
    return FED_OK;
}

/** Share the updates, the order of the rows, and room for the result. */
static fed_status share(asking *a, fed_error *err) {
    char path[64];
    const fedserver_rows *rows = a->rows;
    snprintf(path, sizeof path, "/proc/self/fd/%d", rows->file);
    a->bytes = rows->count * sizeof(uint64_t) + rows->columns * sizeof(float);
    a->updates = open(path, O_RDONLY | O_CLOEXEC);
    a->memory = memfd_create("fedserver-change", MFD_CLOEXEC);
    if (a->updates >= 0 && a->memory >= 0 && ftruncate(a->memory, (off_t)a->bytes) == 0) {
        a->mapped = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->memory, 0);
    }
    if (a->mapped == MAP_FAILED) {
        return fed_fail(err, FED_EIO, "strategy custom: %zu bytes can't be shared: %s", a->bytes,
                        strerror(errno));
    }
    uint64_t *place = a->mapped;
    for (size_t k = 0; k < rows->count; k++) {
        place[k] = rows->row[k].place;
    }
    return FED_OK;
}

static fed_status ask(const asking *a, fed_error *err) {
    question head = {.updates = a->rows->count,
                     .values = a->rows->columns,
                     .task = a->rows->task,
                     .round = a->rows->round};
    const int files[2] = {a->updates, a->memory};
    const struct iovec part = {&head, sizeof head};
    return fed_send_files(a->socket, &part, 1, files, 2) == (ssize_t)sizeof head
               ? FED_OK
               : fed_fail(err, FED_EIO, "strategy custom: the program can't be asked: %s",
                          strerror(errno));
}

static fed_status hear(const asking *a, fed_error *err) {
    struct {
        answer head;
        char reason[REASON_LIMIT + 1];
    } got = {0};
    struct pollfd look = {.fd = a->socket, .events = POLLIN};
    while (poll(&look, 1, LOOK_MS) <= 0) {
        FED_TRY(go_on(a, "no answer has come", err));
    }
    const ssize_t len = recv(a->socket, &got, sizeof got.head + REASON_LIMIT, 0);
    if (len < (ssize_t)sizeof got.head) {
        return fed_fail(err, FED_EIO, "strategy custom: the program ended before it answered");
    }
    return got.head.failed == 0
               ? FED_OK
               : fed_fail(err, FED_ESTATE, "strategy custom: the program failed: %s", got.reason);
}

static fed_status converse(asking *a, float *u, fed_error *err) {
    FED_TRY(reach(a, err));
    FED_TRY(share(a, err));
    FED_TRY(ask(a, err));
    FED_TRY(hear(a, err));
    memcpy(u, (const uint64_t *)a->mapped + a->rows->count, a->rows->columns * sizeof *u);
    for (size_t i = 0; i < a->rows->columns; i++) {
        if (!isfinite(u[i])) {
            return fed_fail(err, FED_ENONFINITE,
                            "strategy custom: the program's value %zu is not finite", i);
        }
    }
    return FED_OK;
}

static fed_status combine(const double *param, const fedserver_rows *rows, float *u,
                          fed_error *err) {
    asking a = {.rows = rows,
                .until_ms = fed_clock_monotonic_ms() + (int64_t)(param[WAIT] * 1000),
                .socket = -1,
                .updates = -1,
                .memory = -1,
                .mapped = MAP_FAILED};
    const fed_status status = converse(&a, u, err);
    if (a.mapped != MAP_FAILED) {
        munmap(a.mapped, a.bytes);
    }
    const int open_files[] = {a.socket, a.updates, a.memory};
    for (size_t k = 0; k < sizeof open_files / sizeof open_files[0]; k++) {
        if (open_files[k] >= 0) {
            close(open_files[k]);
        }
    }
    return status;
}

extern const fedserver_strategy_vtable fedserver_strategy_custom;

const fedserver_strategy_vtable fedserver_strategy_custom = {
    .name = "custom",
    .params = {[WAIT] = {"wait", 60, 1, 86400, "seconds that the program may take", false, NULL},
               [PARAMS] = {.key = NULL}},
    .combine = combine,
    .outside = true,
};

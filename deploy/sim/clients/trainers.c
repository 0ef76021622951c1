/* Programs that train and measure in the place of the simulator's own trainer. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* for memfd_create */
#include "deploy/sim/clients/trainers.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/send_files.h"

enum { LOOK_MS = 50, REASON_LIMIT = 300, TRAIN = 1, MEASURE = 2 };

/* Both ends run on this machine, so numbers have its byte order. The compiler refuses padding. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

typedef struct request {
    uint32_t number, kind, client, round, version, again, local_steps, batch;
    float learning_rate;
    uint32_t optimizer_len; /* bytes of the optimizer's text, which follows */
    uint64_t seed, values;
} request;

typedef struct answer {
    uint32_t number, failed; /* failed: not 0; the reason follows, in UTF-8 */
    uint32_t samples, correct;
    float loss;
    uint32_t reserved;
    uint64_t cpu_us;
} answer;

#pragma GCC diagnostic pop

static bool is_packet_socket(int fd) {
    int type = 0;
    socklen_t len = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

fed_status sim_trainers_read(const char *text, int *sockets, uint32_t *count, fed_error *err) {
    uint32_t n = 0;
    for (const char *at = text; *at != '\0'; at += *at == ',') {
        char *end = NULL;
        const long fd = strtol(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0') || fd < 0 || fd > INT32_MAX ||
            n == SIM_TRAINERS_MOST || !is_packet_socket((int)fd)) {
            return fed_fail(err, FED_EINVAL,
                            "trainers=%.60s: \"%.20s\" must be the number of an open socket of "
                            "type SOCK_SEQPACKET, and there may be %d; the program that starts "
                            "fedsim opens them",
                            text, at, SIM_TRAINERS_MOST);
        }
        sockets[n++] = (int)fd;
        at = end;
    }
    *count = n;
    return FED_OK;
}

/** Make the shared memory large enough. *fd: the memory, for the trainer; -1: it has it already. */
static fed_status make_room(sim_trainer *t, size_t values, int *fd, fed_error *err) {
    *fd = -1;
    if (values <= t->room) {
        return FED_OK;
    }
    const size_t bytes = values * sizeof *t->values;
    sim_trainer_close(t);
    *fd = memfd_create("fedsim-model", MFD_CLOEXEC);
    void *mapped = MAP_FAILED;
    if (*fd >= 0 && ftruncate(*fd, (off_t)bytes) == 0) {
        mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    }
    if (mapped == MAP_FAILED) {
        const int why = errno;
        if (*fd >= 0) {
            close(*fd);
        }
        return fed_fail(err, FED_ENOMEM, "%zu bytes can't be shared with a trainer: %s", bytes,
                        strerror(why));
    }
    t->values = mapped;
    t->room = values;
    return FED_OK;
}

void sim_trainer_close(sim_trainer *t) {
    if (t->values != NULL) {
        munmap(t->values, t->room * sizeof *t->values);
    }
    t->values = NULL;
    t->room = 0;
}

static fed_status send_request(const sim_trainer *t, request *head, const char *optimizer, int fd) {
    const struct iovec parts[2] = {{head, sizeof *head}, {(char *)optimizer, strlen(optimizer)}};
    ssize_t sent;
    do {
        sent = fed_send_files(t->socket, parts, 2, &fd, fd >= 0 ? 1 : 0);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? FED_EIO : FED_OK;
}

/** Receive the answer to the newest request. */
static fed_status receive(sim_trainer *t, const atomic_int *stop, answer *head,
                          char reason[REASON_LIMIT + 1]) {
    struct pollfd look = {.fd = t->socket, .events = POLLIN};
    while (t->owes) {
        struct iovec part[2] = {{head, sizeof *head}, {reason, REASON_LIMIT}};
        struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};
        FED_REQUIRE(*stop == 0, FED_ECANCELED);
        if (poll(&look, 1, LOOK_MS) <= 0) {
            continue; /* also after a signal */
        }
        const ssize_t got = recvmsg(t->socket, &message, MSG_CMSG_CLOEXEC);
        FED_REQUIRE(got > 0 || (got < 0 && errno == EINTR), FED_EIO);
        if (got > 0) {
            FED_REQUIRE((size_t)got >= sizeof *head, FED_EFORMAT);
            reason[(size_t)got - sizeof *head] = '\0';
            t->owes = head->number != t->asked;
        }
    }
    return FED_OK;
}

static fed_status exchange(sim_trainer *t, const sim_training *training,
                           const fedclient_round *round, const atomic_int *stop, answer *got,
                           char reason[REASON_LIMIT + 1], fed_error *err) {
    const fed_task *task = round->task;
    const size_t values = round->arch->layout.size;
    int fd = -1;
    /* A run that was cut short leaves a trainer that still writes into the memory. */
    FED_TRY(receive(t, stop, got, reason));
    FED_TRY(make_room(t, values, &fd, err));
    memcpy(t->values, round->values, values * sizeof *t->values);
    request head = {.number = ++t->asked,
                    .kind = round->round > 0 ? TRAIN : MEASURE,
                    .client = training->client,
                    .round = round->round,
                    .version = round->version,
                    .again = training->again,
                    .local_steps = task->local_steps,
                    .batch = task->batch,
                    .learning_rate = task->learning_rate,
                    .optimizer_len = (uint32_t)strlen(task->optimizer),
                    .seed = task->seed,
                    .values = values};
    const fed_status status = send_request(t, &head, task->optimizer, fd);
    if (fd >= 0) {
        close(fd);
    }
    FED_TRY(status);
    t->owes = true;
    t->last = training->client + 1;
    return receive(t, stop, got, reason);
}

fed_status sim_trainer_ask(sim_trainer *t, const sim_training *training,
                           const fedclient_round *round, const atomic_int *stop,
                           sim_trained *trained, fed_error *err) {
    answer got = {0};
    char reason[REASON_LIMIT + 1] = "";
    const fed_status status = exchange(t, training, round, stop, &got, reason, err);
    if (status == FED_EIO) {
        return t->last == 0
                   ? fed_fail(err, status, "the process that should train it has ended")
                   : fed_fail(err, status, "the process that trained client %" PRIu32 " has ended",
                              t->last - 1);
    }
    if (status == FED_EFORMAT) {
        return fed_fail(err, status,
                        "its trainer's answer is too short: docs/fedsim.md has the messages");
    }
    FED_TRY(status);
    if (got.failed != 0) {
        return fed_fail(err, FED_ESTATE, "%s", reason);
    }
    if (got.samples == 0 || (got.correct != SIM_NO_CORRECT && got.correct > got.samples)) {
        return fed_fail(err, FED_EINVAL,
                        "its trainer says %" PRIu32 " samples, %" PRIu32
                        " of them correct: there must be 1 sample at least, and no more correct "
                        "ones",
                        got.samples, got.correct);
    }
    if (round->round > 0) {
        memcpy(round->values, t->values, round->arch->layout.size * sizeof *t->values);
    }
    *trained = (sim_trained){got.samples, got.correct, got.loss, got.cpu_us};
    return FED_OK;
}

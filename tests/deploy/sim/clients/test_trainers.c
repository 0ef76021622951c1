/* Programs that train for the simulator: what they get, and what their failures lead to. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/clients/trainers.h"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/bytes.h"
#include "fed_cases.h"

enum { REQUEST = 56, ANSWER = 32 };

/** The other end: a thread that answers as docs/fedsim.md says, with the answers of the test. */
typedef struct program {
    int socket;
    pthread_t thread;
    size_t answers;    /* how many requests it answers before it ends */
    size_t answer_len; /* bytes of an answer; more than ANSWER: a reason follows */
    uint32_t failed, samples, correct;
    float loss;
    atomic_int may_answer; /* it waits until this is not 0 */
    /* What it got: */
    size_t got, mapped; /* requests; descriptors */
    uint8_t request[REQUEST + 16];
    float *values;
    float first;
} program;

static bool receive(program *p) {
    int fd = -1;
    char room[CMSG_SPACE(sizeof fd)];
    struct iovec part = {p->request, sizeof p->request};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (recvmsg(p->socket, &message, 0) <= 0) {
        return false;
    }
    p->got++;
    if (message.msg_controllen > 0) {
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        const size_t bytes = (size_t)lseek(fd, 0, SEEK_END);
        p->values = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        p->mapped++;
        close(fd);
    }
    return true;
}

static void *serve(void *user) {
    program *p = user;
    while (p->got < p->answers && receive(p)) {
        uint8_t answer[ANSWER + 16] = {0};
        while (p->may_answer == 0) {
            (void)poll(NULL, 0, 1);
        }
        p->first = p->values[0];
        p->values[0] += 1;
        memcpy(answer, p->request, 4);
        memcpy(answer + 4, &p->failed, 4);
        memcpy(answer + 8, &p->samples, 4);
        memcpy(answer + 12, &p->correct, 4);
        memcpy(answer + 16, &p->loss, 4);
        memcpy(answer + ANSWER, "it is raining", 13);
        (void)!send(p->socket, answer, p->answer_len, 0);
    }
    close(p->socket);
    return NULL;
}

typedef struct setting {
    program program;
    sim_trainer trainer;
    fed_task task;
    fed_arch arch;
    fedclient_round round;
    atomic_int stop;
} setting;

static void open_setting(setting *s, const char *model) {
    int ends[2];
    fed_error err = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    s->trainer.socket = ends[0];
    s->program.socket = ends[1];
    assert_int_equal(pthread_create(&s->program.thread, NULL, serve, &s->program), 0);
    assert_fed_ok_err(fed_arch_parse(model, &s->arch, &err));
    s->task = (fed_task){.local_steps = 7, .batch = 3, .learning_rate = 0.5f, .seed = 11};
    snprintf(s->task.optimizer, sizeof s->task.optimizer, "adam");
    s->round = (fedclient_round){.task = &s->task, .arch = &s->arch, .round = 4, .version = 3};
    s->round.values = calloc(s->arch.layout.size, sizeof(float));
    assert_non_null(s->round.values);
}

static void close_setting(setting *s) {
    sim_trainer_close(&s->trainer);
    close(s->trainer.socket);
    pthread_join(s->program.thread, NULL);
    free(s->round.values);
    fed_arch_free(&s->arch);
}

static fed_status ask(setting *s, sim_trained *trained, fed_error *why) {
    const sim_training training = {.client = 5, .again = 2};
    return sim_trainer_ask(&s->trainer, &training, &s->round, &s->stop, trained, why);
}

static uint32_t word(const setting *s, size_t at) {
    uint32_t value;
    memcpy(&value, s->program.request + at, sizeof value);
    return value;
}

FED_TEST(a_trainer_gets_the_client_the_task_and_the_model) {
    setting s = {.program = {.answers = 3,
                             .answer_len = ANSWER,
                             .samples = 9,
                             .correct = SIM_NO_CORRECT,
                             .loss = 0.25f,
                             .may_answer = 1}};
    fed_error err = {0};
    sim_trained trained;
    open_setting(&s, "tensors w 5 | v 2x3");
    s.round.values[0] = 40;
    assert_fed_ok_err(ask(&s, &trained, &err));
    static const uint32_t words[] = {1, 1, 5, 4, 3, 2, 7, 3};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        assert_int_equal(word(&s, 4 * k), words[k]);
    }
    assert_memory_equal(s.program.request + 32, &s.task.learning_rate, 4);
    assert_int_equal(word(&s, 36), 4);
    assert_int_equal(word(&s, 40), 11);
    assert_int_equal(word(&s, 48), 11); /* 5 + 6 values */
    assert_memory_equal(s.program.request + REQUEST, "adam", 4);
    assert_true(s.program.first == 40 && s.round.values[0] == 41);
    assert_true(trained.samples == 9 && trained.loss == 0.25f);
    s.round.round = 0; /* to measure changes nothing */
    assert_fed_ok_err(ask(&s, &trained, &err));
    assert_int_equal(word(&s, 4), 2);
    assert_true(s.program.first == 41 && s.round.values[0] == 41);
    assert_int_equal(s.program.mapped, 1);
    close_setting(&s);
}

static void expect(program given, fed_status status, const char *words) {
    setting s = {.program = given};
    fed_error err = {0};
    sim_trained trained;
    s.program.may_answer = 1;
    open_setting(&s, "vector 3");
    assert_fed_status(ask(&s, &trained, &err), status);
    assert_fed_says(err, words);
    assert_true(s.round.values[0] == 0); /* what failed has trained nothing */
    close_setting(&s);
}

FED_TEST(failures_come_out_with_their_reasons) {
    expect((program){.answers = 1, .answer_len = ANSWER + 13, .failed = 1}, FED_ESTATE,
           "it is raining");
    expect((program){.answers = 0}, FED_EIO, " has ended");
    expect((program){.answers = 1, .answer_len = 12}, FED_EFORMAT, "too short");
    expect((program){.answers = 1, .answer_len = ANSWER, .correct = SIM_NO_CORRECT}, FED_EINVAL,
           "says 0 samples");
    expect((program){.answers = 1, .answer_len = ANSWER, .samples = 2, .correct = 3}, FED_EINVAL,
           "2 samples, 3 of them correct");
}

/* Whichever client finds the trainer gone, it names the client that was trained last. */
FED_TEST(a_trainer_that_has_ended_names_its_last_client) {
    setting s = {.program = {.answers = 1, .answer_len = ANSWER, .samples = 9, .may_answer = 1}};
    fed_error err = {0};
    sim_trained trained;
    open_setting(&s, "vector 3");
    assert_fed_ok_err(ask(&s, &trained, &err));
    struct pollfd end = {.fd = s.trainer.socket};
    assert_int_equal(poll(&end, 1, 60 * 1000), 1); /* POLLHUP: the program has closed its end */
    const sim_training other = {.client = 2};
    assert_fed_status(sim_trainer_ask(&s.trainer, &other, &s.round, &s.stop, &trained, &err),
                      FED_EIO);
    assert_fed_says(err, "the process that trained client 5 has ended");
    close_setting(&s);
}

static void *stop_soon(void *user) {
    setting *s = user;
    (void)poll(NULL, 0, 20);
    s->stop = 1;
    return NULL;
}

FED_TEST(a_stop_ends_the_wait_and_the_late_answer_disturbs_nothing) {
    setting s = {
        .program = {.answers = 2, .answer_len = ANSWER, .samples = 1, .correct = SIM_NO_CORRECT}};
    fed_error err = {0};
    sim_trained trained;
    pthread_t thread;
    open_setting(&s, "vector 3");
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, &s), 0);
    assert_fed_status(ask(&s, &trained, &err), FED_ECANCELED);
    pthread_join(thread, NULL);
    s.stop = 0;
    s.program.may_answer = 1;
    s.round.values[0] = 70;
    assert_fed_ok_err(ask(&s, &trained, &err));
    assert_true(s.round.values[0] == 71);
    close_setting(&s);
}

FED_TEST(numbers_that_are_no_sockets_are_refused) {
    int sockets[SIM_TRAINERS_MOST], ends[2], plain[2];
    uint32_t count = 0;
    char text[64];
    fed_error err = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, plain), 0);
    snprintf(text, sizeof text, "%d,%d", ends[0], ends[1]);
    assert_fed_ok_err(sim_trainers_read(text, sockets, &count, &err));
    assert_true(count == 2 && sockets[0] == ends[0] && sockets[1] == ends[1]);
    snprintf(text, sizeof text, "%d,%d", ends[0], plain[0]);
    assert_fed_status(sim_trainers_read(text, sockets, &count, &err), FED_EINVAL);
    static const char *const wrong[] = {"x", "-1", "99999", "1.5"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        assert_fed_status(sim_trainers_read(wrong[k], sockets, &count, &err), FED_EINVAL);
        assert_fed_says(err, "SOCK_SEQPACKET");
    }
    for (int k = 0; k < 2; k++) {
        close(ends[k]);
        close(plain[k]);
    }
}

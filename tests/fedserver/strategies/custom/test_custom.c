/* Strategy custom: what a program beside the coordinator gets, and what its failures lead to. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fedserver/strategies/strategy.h"

enum { UPDATES = 3, VALUES = 2 };

/** What the program does with a question. */
typedef enum program_way { ADD_UP, FAIL, LEAVE, INFINITE } program_way;

typedef struct program {
    char directory[256];
    int listener;
    pthread_t thread;
    program_way way;
    bool writable; /* could the program change the updates? */
    float first[VALUES];
    uint64_t asked_of[2]; /* task and round */
} program;

static void combine(program *p, const uint64_t head[4], const int files[2]) {
    const size_t bytes = head[0] * sizeof(uint64_t) + head[1] * sizeof(float);
    const float *rows = mmap(NULL, 24, PROT_READ, MAP_SHARED, files[0], 0);
    uint64_t *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, files[1], 0);
    p->writable = mmap(NULL, 24, PROT_WRITE, MAP_SHARED, files[0], 0) != MAP_FAILED;
    float *u = (float *)(void *)(place + head[0]);
    for (size_t i = 0; i < VALUES; i++) {
        p->first[i] = rows[place[0] * VALUES + i];
        for (size_t k = 0; k < UPDATES; k++) {
            u[i] += rows[k * VALUES + i];
        }
    }
    if (p->way == INFINITE) {
        u[1] = INFINITY;
    }
    munmap((void *)(uintptr_t)rows, 24);
    munmap(place, bytes);
}

static void *serve(void *user) {
    program *p = user;
    uint64_t head[4] = {0};
    int files[2] = {-1, -1};
    char room[CMSG_SPACE(sizeof files)];
    struct iovec part = {head, sizeof head};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    const int asker = accept(p->listener, NULL, NULL);
    if (asker < 0 || recvmsg(asker, &message, 0) != sizeof head) {
        return NULL;
    }
    memcpy(files, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof files);
    combine(p, head, files);
    p->asked_of[0] = head[2];
    p->asked_of[1] = head[3];
    const struct {
        uint32_t failed;
        char reason[16];
    } answer = {p->way == FAIL, "no idea"};
    if (p->way != LEAVE) {
        (void)!send(asker, &answer, p->way == FAIL ? 11 : 4, 0);
    }
    close(files[0]);
    close(files[1]);
    close(asker);
    return NULL;
}

static void program_open(program *p, program_way way) {
    *p = (program){.way = way};
    fed_test_tmpdir(p->directory, sizeof p->directory);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/strategy.sock", p->directory);
    p->listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(p->listener, 1), 0);
    assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
}

static void program_close(program *p) {
    pthread_join(p->thread, NULL);
    close(p->listener);
    fed_test_rmdir(p->directory);
}

/** Let the strategy of the spec combine three updates; the second that arrived is the first by
 * device. */
static fed_status ask(const char *directory, const char *spec, const atomic_bool *stop,
                      float u[VALUES], fed_error *why) {
    fedserver_strategy strategy;
    fedserver_rows rows;
    fed_error err = {0};
    assert_fed_ok_err(fedserver_strategy_parse(spec, &strategy, &err));
    assert_true(fedserver_strategy_needs_all(&strategy));
    assert_true(fedserver_strategy_is_outside(&strategy));
    assert_fed_ok_err(fedserver_rows_open(&rows, directory, VALUES, &err));
    for (int k = 0; k < UPDATES; k++) {
        const float x[VALUES] = {(float)k, 10.0f * (float)k};
        assert_fed_ok_err(fedserver_rows_add(&rows, k == 1 ? -5 : k, 1, x, &err));
    }
    fedserver_rows_sort(&rows);
    rows.stop = stop;
    rows.task = 7;
    rows.round = 12;
    const fed_status status =
        strategy.combine.vtable->combine(strategy.combine.param, &rows, u, why);
    fedserver_rows_close(&rows);
    return status;
}

static void expect(program_way way, fed_status status, const char *words) {
    program p;
    float u[VALUES] = {0};
    fed_error err = {0};
    program_open(&p, way);
    assert_fed_status(ask(p.directory, "custom", NULL, u, &err), status);
    if (words != NULL) {
        assert_fed_says(err, words);
    } else {
        assert_true(u[0] == 3 && u[1] == 30);
        assert_true(p.first[0] == 1 && p.first[1] == 10);
        assert_false(p.writable);
    }
    program_close(&p); /* whose thread has ended then */
    assert_true(p.asked_of[0] == 7 && p.asked_of[1] == 12);
}

FED_TEST(the_program_gets_the_updates_in_the_order_of_devices_and_gives_the_result) {
    expect(ADD_UP, FED_OK, NULL);
}

FED_TEST(a_failure_of_the_program_comes_out_with_its_reason) {
    expect(FAIL, FED_ESTATE, "the program failed: no idea");
    expect(LEAVE, FED_EIO, "ended before it answered");
    expect(INFINITE, FED_ENONFINITE, "value 1 is not finite");
}

FED_TEST(where_nobody_listens_the_wait_has_an_end) {
    char directory[256];
    float u[VALUES];
    fed_error err = {0};
    fed_test_tmpdir(directory, sizeof directory);
    assert_fed_status(ask(directory, "custom:wait=1", NULL, u, &err), FED_ETIMEOUT);
    assert_fed_says(err, "nobody listens in time");
    assert_fed_says(err, "strategy.sock");
    const atomic_bool stop = true;
    assert_fed_status(ask(directory, "custom:wait=86400", &stop, u, &err), FED_ESTATE);
    assert_fed_says(err, "the coordinator ends");
    fed_test_rmdir(directory);
}

FED_TEST(a_socket_that_may_not_be_opened_is_told_apart) {
    char directory[256];
    float u[VALUES];
    fed_error err = {0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/strategy.sock", directory);
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(chmod(address.sun_path, 0), 0);
    const bool root = geteuid() == 0; /* who may open everything */
    if (root) {
        assert_int_equal(chmod(directory, 0777), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    const fed_status status = ask(directory, "custom:wait=1", NULL, u, &err);
    assert_true(!root || seteuid(0) == 0);
    assert_fed_status(status, FED_ETIMEOUT);
    assert_fed_says(err, "task 7: the socket can't be opened (Permission denied)");
    close(listener);
    fed_test_rmdir(directory);
}

/* A worker group whose members are processes, for tests (group_case.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* NOLINT: MAP_ANONYMOUS */

#include "group_case.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_test.h"
#include "fedclient/datacenter/control/member.h"

enum { LIMIT_MS = 30000, END_MS = 15000 };

static const uint8_t secret[FEDDC_SECRET] = {7, 4, 1};

/* Stands for a gradient exchange: a step is complete when all ranks have counted it. */
typedef struct stand_in {
    worker_group_board *board;
    const feddc_place *place;
    uint32_t row;
    atomic_uint step;
    atomic_bool aborted;
    char why[400];
} stand_in;

static uint32_t missing_rank(const stand_in *x) {
    for (uint32_t r = 0; r < x->place->size; r++) {
        if (atomic_load(&x->board->put[x->row][r]) <= atomic_load(&x->step)) {
            return r;
        }
    }
    return UINT32_MAX;
}

static void look(void *user, feddc_exchange_state *state) {
    stand_in *x = user;
    uint32_t rank = missing_rank(x);
    *state =
        (feddc_exchange_state){atomic_load(&x->step), rank == UINT32_MAX ? UINT32_MAX : 5, rank};
}

static void abort_it(void *user, const char *why) {
    stand_in *x = user;
    if (!atomic_load(&x->aborted)) {
        (void)snprintf(x->why, sizeof x->why, "%s", why);
        atomic_store(&x->aborted, true);
    }
}

/* Make steps until step `finish`. *completed: steps done. Returns false if a step was aborted. */
static bool train(feddc_watch *watch, stand_in *x, uint32_t worker, uint32_t *completed) {
    feddc_eyes eyes = {look, abort_it, x};
    feddc_watch_see(watch, &eyes);
    while (*completed < atomic_load(&x->board->finish) && !atomic_load(&x->aborted)) {
        atomic_store(&x->step, *completed);
        feddc_watch_at(watch, FEDDC_FORWARD, *completed);
        fed_sleep_ms(1);
        feddc_watch_at(watch, FEDDC_BACKWARD, *completed);
        while (worker == atomic_load(&x->board->stuck) && !feddc_watch_over(watch)) {
            fed_sleep_ms(1);
        }
        fed_sleep_ms(1);
        atomic_store(&x->board->put[x->row][x->place->rank], *completed + 1);
        feddc_watch_at(watch, FEDDC_WAITING, *completed);
        while (missing_rank(x) != UINT32_MAX && !atomic_load(&x->aborted)) {
            fed_sleep_ms(1);
        }
        if (missing_rank(x) == UINT32_MAX) {
            *completed += 1;
            atomic_store(&x->board->completed[worker], *completed);
            if (*completed % 10 == 0) {
                uint64_t wrong = worker == atomic_load(&x->board->odd) && *completed > 30;
                feddc_watch_digest(watch, *completed, *completed + wrong);
            }
        }
        if (*completed > 20 && worker == atomic_load(&x->board->give_up)) {
            break;
        }
    }
    feddc_watch_see(watch, NULL);
    return !atomic_load(&x->aborted);
}

static int code_of(fed_status status) {
    return status == FED_EIO      ? WORKER_GROUP_OVER
           : status == FED_ESTATE ? WORKER_GROUP_LEFT_OUT
           : status == FED_ENET   ? WORKER_GROUP_ALONE
                                  : WORKER_GROUP_WRONG;
}

static int member(worker_group_board *board, uint32_t requested) {
    feddc_watch_options options = {
        .address = board->address, .secret = secret, .rank = requested, .listens = true};
    feddc_watch *watch = NULL;
    fed_error err = {0};
    fed_status status = feddc_watch_open(&options, &watch, &err);
    uint32_t completed = 0;
    char broke[400] = "";
    bool again = status == FED_OK;
    while (again) {
        const feddc_worker_group *group = NULL;
        status = feddc_watch_next(watch, completed, broke, &group, &err);
        if (status != FED_OK) {
            break;
        }
        for (uint32_t r = 0; r < group->place.size; r++) {
            completed = group->completed[r] > completed ? group->completed[r] : completed;
        }
        stand_in x = {.board = board,
                      .place = &group->place,
                      .row = group->place.generation % WORKER_GROUP_GENERATIONS};
        atomic_store(&board->put[x.row][group->place.rank], completed);
        atomic_store(&board->generation[requested], group->place.generation);
        again = !train(watch, &x, requested, &completed);
        close(group->place.listener);
        memcpy(broke, x.why, sizeof broke);
    }
    (void)snprintf(board->said[requested], sizeof board->said[requested], "%s", err.text);
    bool gives_up = status == FED_OK && atomic_load(&board->give_up) == requested;
    feddc_watch_close(watch, gives_up ? "the disk is full" : NULL);
    return status == FED_OK ? WORKER_GROUP_FINISHED : code_of(status);
}

static void member_process(worker_group_board *board, uint32_t requested) {
    for (int k = 0; k < LIMIT_MS && !atomic_load(&board->open); k++) {
        fed_sleep_ms(1);
    }
    _exit(member(board, requested));
}

static void keep_verdict(void *user, const feddc_verdict *verdict) {
    group_case *g = user;
    uint32_t k = atomic_load(&g->verdicts);
    g->verdict[k] = *verdict;
    g->verdict_ms[k] = fed_clock_monotonic_ms();
    atomic_store(&g->verdicts, k + 1);
}

void group_case_start(group_case *g, uint32_t size, uint32_t min) {
    fed_error err = {0};
    g->size = size;
    g->board =
        mmap(NULL, sizeof *g->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(g->board, MAP_FAILED);
    atomic_store(&g->board->finish, UINT32_MAX);
    atomic_store(&g->board->odd, UINT32_MAX);
    atomic_store(&g->board->give_up, UINT32_MAX);
    atomic_store(&g->board->stuck, UINT32_MAX);
    for (uint32_t i = 0; i < size; i++) { /* fork before the process has other threads */
        g->code[i] = -1;
        g->pid[i] = fork();
        assert_true(g->pid[i] >= 0);
        if (g->pid[i] == 0) {
            if (g->enter != NULL) {
                g->enter(g->board, i);
            }
            member_process(g->board, i);
        }
    }
    if (g->wire != NULL) {
        g->wire(g);
    }
    feddc_detector_options options = {.address = g->listens != NULL ? g->listens : "127.0.0.1:0",
                                      .secret = secret,
                                      .size = size,
                                      .min = min,
                                      .verdict = keep_verdict,
                                      .user = g};
    assert_fed_ok_err(feddc_detector_open(&options, &g->detector, &err));
    (void)snprintf(g->board->address, sizeof g->board->address, "%s",
                   feddc_detector_address(g->detector));
    atomic_store(&g->board->open, true);
    group_case_await_steps(g, 1, 100, UINT32_MAX);
}

void group_case_await(group_case *g, uint32_t verdicts) {
    int64_t until = fed_clock_monotonic_ms() + LIMIT_MS;
    while (atomic_load(&g->verdicts) < verdicts && fed_clock_monotonic_ms() < until) {
        fed_sleep_ms(1);
    }
    assert_int_equal(atomic_load(&g->verdicts), verdicts);
}

static bool all_have(const group_case *g, uint32_t generation, const uint32_t *until,
                     uint32_t except) {
    for (uint32_t i = 0; i < g->size; i++) {
        if (i != except && (atomic_load(&g->board->generation[i]) != generation ||
                            atomic_load(&g->board->completed[i]) < until[i])) {
            return false;
        }
    }
    return true;
}

void group_case_await_steps(group_case *g, uint32_t generation, uint32_t more, uint32_t except) {
    uint32_t until[WORKER_GROUP_MOST];
    for (uint32_t i = 0; i < g->size; i++) {
        until[i] = atomic_load(&g->board->completed[i]) + more;
    }
    int64_t limit = fed_clock_monotonic_ms() + LIMIT_MS;
    while (!all_have(g, generation, until, except)) {
        assert_true(fed_clock_monotonic_ms() < limit);
        fed_sleep_ms(1);
    }
}

feddc_detector_state group_case_finish(group_case *g) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < g->size; i++) {
        uint32_t completed = atomic_load(&g->board->completed[i]);
        most = completed > most ? completed : most;
    }
    atomic_store(&g->board->finish, most + 50);
    return feddc_detector_wait(g->detector, LIMIT_MS);
}

static bool collect(group_case *g, uint32_t i, int options) {
    int status = 0;
    if (g->pid[i] != 0 && waitpid(g->pid[i], &status, options) == g->pid[i]) {
        g->code[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        g->pid[i] = 0;
    }
    return g->pid[i] == 0;
}

void group_case_end(group_case *g) {
    int64_t until = fed_clock_monotonic_ms() + END_MS;
    for (uint32_t i = 0; i < g->size; i++) {
        while (!collect(g, i, WNOHANG) && fed_clock_monotonic_ms() < until) {
            fed_sleep_ms(2);
        }
        if (g->pid[i] != 0) {
            (void)kill(g->pid[i], SIGKILL);
            (void)collect(g, i, 0);
        }
    }
    feddc_detector_close(g->detector);
    munmap(g->board, sizeof *g->board);
    g->board = NULL;
}

/* A gang of processes for tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* NOLINT: MAP_ANONYMOUS */

#include "gang_case.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_test.h"
#include "fedclient/datacenter/control/member.h"

enum { LIMIT_MS = 30000, END_MS = 15000 };

static const uint8_t secret[FEDDC_SECRET] = {7, 4, 1};

/* --- a member's process --- */

/* The stand-in for an exchange: a step is whole when all ranks have put theirs in. */
typedef struct stand_in {
    gang_board *board;
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

/* Steps until the finish. *whole: those done. false: it was aborted. */
static bool train(feddc_watch *watch, stand_in *x, uint32_t worker, uint32_t *whole) {
    feddc_eyes eyes = {look, abort_it, x};
    feddc_watch_see(watch, &eyes);
    while (*whole < atomic_load(&x->board->finish) && !atomic_load(&x->aborted)) {
        atomic_store(&x->step, *whole);
        feddc_watch_at(watch, FEDDC_FORWARD, *whole);
        fed_sleep_ms(1);
        feddc_watch_at(watch, FEDDC_BACKWARD, *whole);
        while (worker == atomic_load(&x->board->stuck) && !feddc_watch_over(watch)) {
            fed_sleep_ms(1);
        }
        fed_sleep_ms(1);
        atomic_store(&x->board->put[x->row][x->place->rank], *whole + 1);
        feddc_watch_at(watch, FEDDC_WAITING, *whole);
        while (missing_rank(x) != UINT32_MAX && !atomic_load(&x->aborted)) {
            fed_sleep_ms(1);
        }
        if (missing_rank(x) == UINT32_MAX) {
            *whole += 1;
            atomic_store(&x->board->whole[worker], *whole);
            if (*whole % 10 == 0) {
                uint64_t wrong = worker == atomic_load(&x->board->odd) && *whole > 30;
                feddc_watch_digest(watch, *whole, *whole + wrong);
            }
        }
        if (*whole > 20 && worker == atomic_load(&x->board->give_up)) {
            break;
        }
    }
    feddc_watch_see(watch, NULL);
    return !atomic_load(&x->aborted);
}

static int code_of(fed_status status) {
    return status == FED_EIO      ? GANG_OVER
           : status == FED_ESTATE ? GANG_LEFT_OUT
           : status == FED_ENET   ? GANG_ALONE
                                  : GANG_WRONG;
}

/* Meet and train until the end. */
static int member(gang_board *board, uint32_t wish) {
    feddc_watch_options options = {
        .address = board->address, .secret = secret, .rank = wish, .listens = true};
    feddc_watch *watch = NULL;
    fed_error err = {0};
    fed_status status = feddc_watch_open(&options, &watch, &err);
    uint32_t whole = 0;
    char broke[400] = "";
    bool again = status == FED_OK;
    while (again) {
        const feddc_gang *gang = NULL;
        status = feddc_watch_next(watch, whole, broke, &gang, &err);
        if (status != FED_OK) {
            break;
        }
        for (uint32_t r = 0; r < gang->place.size; r++) { /* who is behind fetches */
            whole = gang->whole[r] > whole ? gang->whole[r] : whole;
        }
        stand_in x = {.board = board,
                      .place = &gang->place,
                      .row = gang->place.generation % GANG_GENERATIONS};
        atomic_store(&board->put[x.row][gang->place.rank], whole);
        atomic_store(&board->generation[wish], gang->place.generation);
        again = !train(watch, &x, wish, &whole);
        close(gang->place.listener);
        memcpy(broke, x.why, sizeof broke);
    }
    (void)snprintf(board->said[wish], sizeof board->said[wish], "%s", err.text);
    bool gives_up = status == FED_OK && atomic_load(&board->give_up) == wish;
    feddc_watch_close(watch, gives_up ? "the disk is full" : NULL);
    return status == FED_OK ? GANG_FINISHED : code_of(status);
}

static void member_process(gang_board *board, uint32_t wish) {
    for (int k = 0; k < LIMIT_MS && !atomic_load(&board->open); k++) {
        fed_sleep_ms(1);
    }
    _exit(member(board, wish));
}

/* --- the test's side --- */

static void keep_verdict(void *user, const feddc_verdict *verdict) {
    gang_case *g = user;
    uint32_t k = atomic_load(&g->verdicts);
    g->verdict[k] = *verdict;
    g->verdict_ms[k] = fed_clock_monotonic_ms();
    atomic_store(&g->verdicts, k + 1);
}

void gang_case_start(gang_case *g, uint32_t size, uint32_t min) {
    fed_error err = {0};
    g->size = size;
    g->board =
        mmap(NULL, sizeof *g->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(g->board, MAP_FAILED);
    atomic_store(&g->board->finish, UINT32_MAX);
    atomic_store(&g->board->odd, UINT32_MAX);
    atomic_store(&g->board->give_up, UINT32_MAX);
    atomic_store(&g->board->stuck, UINT32_MAX);
    for (uint32_t i = 0; i < size; i++) { /* before there is a thread */
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
    feddc_judge_options options = {.address = g->listens != NULL ? g->listens : "127.0.0.1:0",
                                   .secret = secret,
                                   .size = size,
                                   .min = min,
                                   .verdict = keep_verdict,
                                   .user = g};
    assert_fed_ok_err(feddc_judge_open(&options, &g->judge, &err));
    (void)snprintf(g->board->address, sizeof g->board->address, "%s",
                   feddc_judge_address(g->judge));
    atomic_store(&g->board->open, true);
    gang_case_await_steps(g, 1, 100, UINT32_MAX);
}

void gang_case_await(gang_case *g, uint32_t verdicts) {
    int64_t until = fed_clock_monotonic_ms() + LIMIT_MS;
    while (atomic_load(&g->verdicts) < verdicts && fed_clock_monotonic_ms() < until) {
        fed_sleep_ms(1);
    }
    assert_int_equal(atomic_load(&g->verdicts), verdicts);
}

static bool all_have(const gang_case *g, uint32_t generation, const uint32_t *until,
                     uint32_t except) {
    for (uint32_t i = 0; i < g->size; i++) {
        if (i != except && (atomic_load(&g->board->generation[i]) != generation ||
                            atomic_load(&g->board->whole[i]) < until[i])) {
            return false;
        }
    }
    return true;
}

void gang_case_await_steps(gang_case *g, uint32_t generation, uint32_t more, uint32_t except) {
    uint32_t until[GANG_MOST];
    for (uint32_t i = 0; i < g->size; i++) {
        until[i] = atomic_load(&g->board->whole[i]) + more;
    }
    int64_t limit = fed_clock_monotonic_ms() + LIMIT_MS;
    while (!all_have(g, generation, until, except)) {
        assert_true(fed_clock_monotonic_ms() < limit);
        fed_sleep_ms(1);
    }
}

feddc_judge_state gang_case_finish(gang_case *g) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < g->size; i++) {
        uint32_t whole = atomic_load(&g->board->whole[i]);
        most = whole > most ? whole : most;
    }
    atomic_store(&g->board->finish, most + 50);
    return feddc_judge_wait(g->judge, LIMIT_MS);
}

/* One child; false: it lives still. */
static bool collect(gang_case *g, uint32_t i, int options) {
    int status = 0;
    if (g->pid[i] != 0 && waitpid(g->pid[i], &status, options) == g->pid[i]) {
        g->code[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        g->pid[i] = 0;
    }
    return g->pid[i] == 0;
}

void gang_case_end(gang_case *g) {
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
    feddc_judge_close(g->judge);
    munmap(g->board, sizeof *g->board);
    g->board = NULL;
}

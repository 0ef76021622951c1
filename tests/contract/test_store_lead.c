/* Contract of every store that several coordinators may share: one is the leader, and a former
 * leader can't write any more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store_fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"

enum { PATIENCE_MS = 200000, AGAIN_MS = 20, BUSY_MS = 3000 };

static const char here[] = "a.example:8500";
static const char there[] = "b.example:8500";

static void *another(const fixture *f) {
    fed_error err = {0};
    void *db = NULL;
    assert_fed_ok_err(f->store->open(f->directory, f->where, &db, &err));
    return db;
}

static fedserver_lead ask(const fixture *f, void *db, const char *address) {
    fed_error err = {0};
    fedserver_lead lead = {0};
    assert_fed_ok_err(f->store->lead(db, address, &lead, &err));
    return lead;
}

static fedserver_lead lead_at_last(const fixture *f, void *db, const char *address) {
    const int64_t end_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    fedserver_lead lead = ask(f, db, address);
    while (!lead.mine) {
        assert_true(fed_clock_monotonic_ms() < end_ms);
        fed_sleep_ms(AGAIN_MS);
        lead = ask(f, db, address);
    }
    assert_string_equal(lead.address, address);
    return lead;
}

static fed_status write_token(const fixture *f, void *db, uint8_t first, fed_error *err) {
    const uint8_t hash[FED_SHA256_SIZE] = {first};
    return f->store->token_add(db, hash, &(fedserver_token){.expires_ms = 1000}, err);
}

static bool has_token(const fixture *f, void *db, uint8_t first) {
    const uint8_t hash[FED_SHA256_SIZE] = {first};
    fedserver_token token;
    fed_error err = {0};
    return f->store->token_find(db, hash, &token, &err) == FED_OK;
}

typedef struct process {
    pid_t pid;
    int to, from;
} process;

static uint8_t obey(const fixture *f, void *db, char order) {
    fed_error err = {0};
    fedserver_lead lead = {0};
    fed_status status = FED_OK;
    if (order == 'l') {
        status = f->store->lead(db, there, &lead, &err);
        return status == FED_OK && !lead.mine ? 255 : (uint8_t)status;
    }
    status = order == 'w' ? write_token(f, db, 9, &err) : f->store->commit(db, &err);
    return (uint8_t)status;
}

static process start(const fixture *f) {
    int to[2];
    int from[2];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    fflush(NULL);
    const process p = {.pid = fork(), .to = to[1], .from = from[0]};
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        void *db = NULL;
        char order;
        (void)close(to[1]);
        if (f->store->open(f->directory, f->where, &db, NULL) != FED_OK) {
            _exit(1);
        }
        while (read(to[0], &order, 1) == 1) {
            const uint8_t answer = obey(f, db, order);
            if (write(from[1], &answer, 1) != 1) {
                break;
            }
        }
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    return p;
}

/* Send an order. Returns its status; 255: the process is not the leader. */
static uint8_t order(const process *p, char what) {
    uint8_t answer = 0;
    assert_int_equal(write(p->to, &what, 1), 1);
    assert_int_equal(read(p->from, &answer, 1), 1);
    return answer;
}

static void end(const process *p) {
    int how;
    (void)kill(p->pid, SIGKILL);
    assert_int_equal(waitpid(p->pid, &how, 0), p->pid);
    close(p->to);
    close(p->from);
}

static void one_leads_and_the_others_learn_where(void **state) {
    const fixture *f = *state;
    void *other = another(f);
    assert_true(ask(f, f->db, here).mine);
    assert_true(ask(f, f->db, here).mine);
    const fedserver_lead seen = ask(f, other, there);
    assert_false(seen.mine);
    assert_string_equal(seen.address, here);
    assert_true(seen.term == ask(f, f->db, here).term);
    assert_fed_ok(write_token(f, f->db, 1, NULL));
    assert_fed_ok(f->store->commit(f->db, NULL));
    assert_true(has_token(f, other, 1));
    f->store->close(other);
}

static void who_lets_go_is_followed_at_once(void **state) {
    const fixture *f = *state;
    void *other = another(f);
    const uint64_t term = ask(f, f->db, here).term;
    assert_fed_ok(write_token(f, f->db, 1, NULL));
    f->store->let_go(f->db);
    f->store->let_go(other);
    const fedserver_lead next = ask(f, other, there);
    assert_true(next.mine);
    assert_true(next.term > term);
    assert_false(has_token(f, other, 1));
    f->store->close(other);
}

static void a_lead_outlasts_its_time_where_its_thread_is_busy(void **state) {
    const fixture *f = *state;
    void *other = another(f);
    const uint64_t term = ask(f, f->db, here).term;
    for (int64_t left = BUSY_MS; left > 0; left -= AGAIN_MS) {
        fed_sleep_ms(AGAIN_MS);
        assert_string_equal(ask(f, other, there).address, here);
    }
    assert_true(ask(f, f->db, here).term == term);
    f->store->close(other);
}

static void a_leader_that_is_killed_is_followed(void **state) {
    const fixture *f = *state;
    for (int k = 0; k < 3; k++) {
        const process p = start(f);
        void *db = another(f);
        assert_int_equal(order(&p, 'l'), FED_OK);
        assert_int_equal(order(&p, 'w'), FED_OK);
        const uint64_t term = ask(f, db, here).term;
        const int64_t begin_ms = fed_clock_monotonic_ms();
        end(&p);
        assert_true(lead_at_last(f, db, here).term > term);
        printf("%s: after SIGKILL the next one leads in %lld ms\n", f->store->name,
               (long long)(fed_clock_monotonic_ms() - begin_ms));
        assert_false(has_token(f, db, 9));
        f->store->close(db);
    }
}

/* Stop the leader, let another coordinator become the leader, and continue the first. open: stop
 * the first within a transaction. */
static void stop_and_wake(const fixture *f, bool open) {
    const process p = start(f);
    assert_int_equal(order(&p, 'l'), FED_OK);
    if (open) {
        assert_int_equal(order(&p, 'w'), FED_OK);
    }
    const uint64_t term = ask(f, f->db, here).term;
    const int64_t begin_ms = fed_clock_monotonic_ms();
    assert_int_equal(kill(p.pid, SIGSTOP), 0);
    assert_true(lead_at_last(f, f->db, here).term > term);
    printf("%s: after SIGSTOP the next one leads in %lld ms\n", f->store->name,
           (long long)(fed_clock_monotonic_ms() - begin_ms));
    assert_fed_ok(write_token(f, f->db, 1, NULL));
    assert_fed_ok(f->store->commit(f->db, NULL));
    assert_int_equal(kill(p.pid, SIGCONT), 0);
    const uint8_t written = open ? FED_OK : order(&p, 'w');
    assert_true(written != FED_OK || order(&p, 'c') != FED_OK);
    assert_true(order(&p, 'l') != FED_OK);
    assert_false(has_token(f, f->db, 9));
    assert_true(ask(f, f->db, here).mine);
    end(&p);
}

static void a_leader_that_was_stopped_writes_nothing_any_more(void **state) {
    stop_and_wake(*state, false);
}

static void a_leader_that_was_stopped_in_a_transaction_hinders_nobody(void **state) {
    stop_and_wake(*state, true);
}

static void a_handle_of_an_older_lead_is_refused(void **state) {
    const fixture *f = *state;
    fed_error err = {0};
    void *other = another(f);
    void *thread = another(f);
    void *late = another(f);
    const uint64_t term = ask(f, f->db, here).term;
    assert_fed_ok_err(f->store->serve_term(thread, term, &err));
    assert_fed_ok_err(write_token(f, thread, 1, &err));
    f->store->let_go(f->db);
    assert_true(ask(f, other, there).mine);
    assert_true(f->store->commit(thread, &err) != FED_OK);
    assert_false(has_token(f, other, 1));
    assert_fed_status(f->store->serve_term(late, term, &err), FED_ESTATE);
    assert_true(write_token(f, late, 1, &err) != FED_OK || f->store->commit(late, &err) != FED_OK);
    assert_false(has_token(f, other, 1));
    f->store->close(late);
    f->store->close(thread);
    f->store->close(other);
}

static void nobody_leads_beside_one_that_serves_alone(void **state) {
    const fixture *f = *state;
    fed_error err = {0};
    void *other = another(f);
    assert_fed_ok_err(f->store->lock(f->db, &err));
    const fedserver_lead seen = ask(f, other, there);
    assert_false(seen.mine);
    assert_string_equal(seen.address, "");
    assert_fed_ok_err(write_token(f, f->db, 1, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    f->store->close(other);
}

static void an_address_that_is_too_long_is_refused(void **state) {
    const fixture *f = *state;
    fed_error err = {0};
    fedserver_lead lead;
    char address[sizeof lead.address + 1];
    memset(address, 'a', sizeof address);
    address[sizeof address - 1] = '\0';
    assert_fed_status(f->store->lead(f->db, address, &lead, &err), FED_EINVAL);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        WITH(one_leads_and_the_others_learn_where),
        WITH(who_lets_go_is_followed_at_once),
        WITH(a_lead_outlasts_its_time_where_its_thread_is_busy),
        WITH(a_leader_that_is_killed_is_followed),
        WITH(a_leader_that_was_stopped_writes_nothing_any_more),
        WITH(a_leader_that_was_stopped_in_a_transaction_hinders_nobody),
        WITH(a_handle_of_an_older_lead_is_refused),
        WITH(nobody_leads_beside_one_that_serves_alone),
        WITH(an_address_that_is_too_long_is_refused),
    };
    int failures = 0;
    for (size_t k = 0; (tried = fedserver_store_at(k)) != NULL; k++) {
        const bool has_place = tried->where == NULL || fixture_where(tried)[0] != '\0';
        if (tried->lead != NULL && has_place) {
            failures += _cmocka_run_group_tests(tried->name, tests, sizeof tests / sizeof tests[0],
                                                NULL, NULL);
        }
    }
    return failures;
}

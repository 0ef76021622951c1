/* The kill matrix: whichever process is killed, stopped or cut off, in any phase of a round, each
 * acknowledged update must count once, and the models must be those of a plain computation.
 *
 *     e2e.test_kill_matrix                            a few strikes of each kind, for ctest
 *     e2e.test_kill_matrix --kills 2000 --failovers 20 --hangs 48 [--seed S] [--cells REGEX]
 *         [--coordinators N] [--other-program PATH]
 *
 * A cell is a victim, a fault and a kind of task. A strike is one fault. A cell's strikes go
 * through the phases of rounds, and through the SQL statements at which a round closes. If a
 * coordinator is killed or stopped, the test measures how long it takes until a device sees the
 * next version. A coordinator or a front that hangs is stopped until the rounds have gone on
 * without it, with --hangs for 60 s. The test then measures the longest time without an update and
 * without a version. With --other-program every second coordinator is that program, such as another
 * release. The test needs PostgreSQL. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_test.h"
#include "kill_strike.h"

/* A world is a federation of processes that gets several strikes. Its history is checked after the
 * last strike. A strike's step is a number from 1 to STEPS. */
enum { STEPS = 48, STRIDE = 7, OFFSET = 11, FEW = 5, SPARE = 4 };

/* A planted bug has an effect only by chance: at least one of PLANTED strikes must show it. A
 * world gets PLANTED_FEW of them. */
enum { PLANTED = 48, PLANTED_FEW = 3 };

/* A process hangs for HANG_MS. Trainings take HANG_TRAIN_MS, so there are at most HANG_ROUNDS
 * meanwhile, or HANG_VERSIONS of an asynchronous task. A coordinator lists 200 rounds of a task, so
 * a world gets HANG_FEW such strikes. Devices ask for the same hold as fedclientd. */
enum { HANG_MS = 60000, HANG_TRAIN_MS = 1000, HANG_HOLD_MS = 25000 };
enum { HANG_FEW = 2, HANG_ROUNDS = 60, HANG_VERSIONS = 80 };

typedef struct options {
    bool whole;
    unsigned kills, failovers, hangs; /* of all cells together */
    unsigned coordinators;
    uint64_t seed;
    const char *cells, *other;
    const char *plant; /* a planted bug; NULL: none */
    bool no_standby;
} options;

static options asked = {.seed = 1, .cells = ".", .coordinators = 3};

typedef struct cell {
    kill_victim victim; /* KILL_VICTIMS: all victims with all faults, in turn */
    kill_fault fault;
    kill_mode mode;
    char name[80];
} cell;

enum { VERSIONS = 4096 };

typedef struct tally {
    unsigned version_ms[VERSIONS], versions;
    unsigned no_update_ms[VERSIONS], no_version_ms[VERSIONS], hangs;
    unsigned in_statement, in_answer;
    unsigned strikes, failovers, acknowledged, refolded, ended, lost, twice;
    const char *bits;
    char broken[500];
} tally;

static const char *const victims[KILL_VICTIMS + 1] = {
    "leader", "follower", "primary", "failover", "standby", "balancer", "front", "helper", "all"};
static const char *const faults[KILL_FAULTS] = {"SIGKILL", "SIGSTOP", "cut", "hang",
                                                "hang-haproxy"};
static const char *const modes[KILL_MODES] = {"synchronous", "asynchronous", "median", "pieces",
                                              "private",     "groups",       "clip"};

static bool is_possible(const options *o, kill_victim victim, kill_fault fault, kill_mode mode) {
    const bool hangs = fault == KILL_HANGS || fault == KILL_HANGS_BEHIND;
    const bool may_hang = victim == KILL_LEADER || victim == KILL_FOLLOWER || victim == KILL_FRONT;
    if (hangs && (!may_hang || o->coordinators == 1)) {
        return false;
    }
    if (fault == KILL_HANGS_BEHIND && !kill_balancer_is_there(KILL_HAPROXY)) {
        return false;
    }
    switch (victim) {
    case KILL_FRONT:
        return hangs;
    case KILL_HELPER: /* a cut line of its coordinator cuts it off */
        return kill_is_helped(mode) && fault != KILL_CUT_OFF;
    case KILL_FOLLOWER:
        return o->coordinators > 1;
    case KILL_FAILOVER:
        return fault == KILL_DIES;
    case KILL_BALANCER:
        return kill_balancer_is_there(KILL_HAPROXY) || kill_balancer_is_there(KILL_NGINX);
    default:
        return true;
    }
}

/* Choose a victim and a fault that is possible for it. Successive numbers go through all pairs. */
static void pick(const options *o, const cell *c, unsigned number, kill_strike *s) {
    enum { CELL_FAULTS = KILL_HANGS + 1 }; /* these cells have a balancer in any case */
    do {
        s->victim = (kill_victim)(number % KILL_VICTIMS);
        s->fault = (kill_fault)((number + c->mode) % CELL_FAULTS);
        number++;
    } while (!is_possible(o, s->victim, s->fault, c->mode));
}

static kill_strike strike_of(const options *o, const cell *c, unsigned number) {
    kill_strike s = {.victim = c->victim,
                     .fault = c->fault,
                     .phase = (kill_phase)(number % KILL_PHASES),
                     .step = 1 + (number / KILL_PHASES * STRIDE + OFFSET * c->mode) % STEPS,
                     .late = number / KILL_PHASES % 2 == 1};
    if (c->victim == KILL_VICTIMS) {
        pick(o, c, number, &s);
    }
    return s;
}

/* Return the load balancer of the cell's world `number`: nginx and HAProxy in turn, as far as they
 * are installed. A cell whose strikes can't hit a balancer has none. */
static kill_balancer balancer_of(const cell *c, unsigned number) {
    const kill_balancer first = number % 2 == 0 ? KILL_NGINX : KILL_HAPROXY;
    const kill_balancer second = first == KILL_NGINX ? KILL_HAPROXY : KILL_NGINX;
    const bool without = c->victim != KILL_BALANCER && c->victim != KILL_VICTIMS;
    return c->fault == KILL_HANGS_BEHIND    ? KILL_HAPROXY
           : without                        ? KILL_NO_BALANCER
           : kill_balancer_is_there(first)  ? first
           : kill_balancer_is_there(second) ? second
                                            : KILL_NO_BALANCER;
}

static void add(const options *o, tally *t, const kill_world *w, const federation_result *r) {
    t->failovers += w->failovers;
    t->acknowledged += r->counted;
    t->refolded += kill_world_refolded(w);
    t->ended += w->ended;
    t->lost += r->lost;
    t->twice += r->twice;
    for (unsigned k = 0; k < w->versions && t->versions < VERSIONS; k++) {
        t->version_ms[t->versions++] = w->version_ms[k];
    }
    for (unsigned k = 0; k < w->hangs && t->hangs < VERSIONS; k++) {
        t->no_update_ms[t->hangs] = w->no_update_ms[k];
        t->no_version_ms[t->hangs++] = w->no_version_ms[k];
    }
    t->in_statement += w->in_statement;
    t->in_answer += w->in_answer;
    const char *broken = w->broken[0] != '\0' ? w->broken : r->broken;
    if (broken[0] != '\0' && t->broken[0] == '\0') {
        t->bits = strncmp(broken, "D3", 2) == 0 || strncmp(broken, "D5", 2) == 0 ? "differ" : "-";
        snprintf(t->broken, sizeof t->broken, "%s", broken);
        if (o->plant == NULL && !o->no_standby) {
            kill_world_print_logs(w);
        }
    }
}

static bool hangs(const cell *c) {
    return c->fault == KILL_HANGS || c->fault == KILL_HANGS_BEHIND;
}

/* More rounds than strikes, since rounds may pass while a process is stopped. */
static unsigned rounds_of(const cell *c, unsigned strikes) {
    const bool many = c->mode == KILL_ASYNCHRONOUS;
    const unsigned more = !hangs(c) ? 0 : many ? HANG_VERSIONS : HANG_ROUNDS;
    return strikes * more + (many ? 4 * strikes + 4 : 3 * strikes / 2 + 2);
}

static void run_world(const options *o, kill_store *store, const cell *c, unsigned first,
                      unsigned count, tally *t) {
    static kill_world w;
    federation_result result = {0};
    const kill_setup setup = {
        .mode = c->mode,
        .rounds = rounds_of(c, count),
        .hang_ms = hangs(c) ? HANG_MS : 0,
        .train_ms = hangs(c) ? HANG_TRAIN_MS : 0,
        .hold_ms = hangs(c) ? HANG_HOLD_MS : 0,
        .coordinators = o->coordinators,
        .seed = o->seed + first,
        .program = o->plant != NULL ? FED_BIN_DIR "/../tests/fedserver_planted" : NULL,
        .other = o->plant != NULL ? FED_BIN_DIR "/../tests/fedserver_planted" : o->other,
        .plant = o->plant,
        .no_standby = o->no_standby,
        .balancer = balancer_of(c, c->mode / 2 + first / KILL_STRIKES),
        .store = store};
    kill_world_open(&w, &setup);
    bool on = true;
    for (unsigned k = 0; k < count && on; k++) {
        const kill_strike strike = strike_of(o, c, first + k);
        on = kill_world_strike(&w, &strike);
        t->strikes += on;
    }
    kill_world_finish(&w);
    if (w.broken[0] == '\0') {
        kill_world_judge(&w, &result);
    }
    add(o, t, &w, &result);
    kill_world_close(&w);
}

static int by_size(const void *a, const void *b) {
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/* Print the least, the median and the largest of some times. */
static void print_times(unsigned *ms, unsigned count) {
    qsort(ms, count, sizeof ms[0], by_size);
    const unsigned middle = count / 2;
    printf("  %5.2f %5.2f %5.2f", 1e-3 * ms[0], 1e-3 * ms[middle], 1e-3 * ms[count - 1]);
}

static void print(const cell *c, tally *t, int64_t ms) {
    printf("%-30s %6u %7u %9u %6u %5u %6u  %-7s %6.1f s", c->name, t->strikes, t->acknowledged,
           t->refolded, t->ended, t->lost, t->twice, t->bits, 1e-3 * (double)ms);
    if (t->versions > 0) {
        print_times(t->version_ms, t->versions);
    }
    printf("\n");
    if (t->hangs > 0) {
        printf(
            "  %u in a statement, %u in an answer; longest time without an update, and without a "
            "version: least, median, worst (s)",
            t->in_statement, t->in_answer);
        print_times(t->no_update_ms, t->hangs);
        printf(" ");
        print_times(t->no_version_ms, t->hangs);
        printf("\n");
    }
    if (t->broken[0] != '\0') {
        printf("  %s\n", t->broken);
    }
    fflush(stdout);
}

static tally run_cell(const options *o, kill_store *store, const cell *c, unsigned strikes) {
    tally t = {.bits = "same"};
    const int64_t begun_ms = fed_clock_monotonic_ms();
    const unsigned most = o->plant != NULL || o->no_standby ? PLANTED_FEW
                          : hangs(c)                        ? HANG_FEW
                                                            : KILL_STRIKES;
    for (unsigned k = 0; k < strikes / most + SPARE; k++) {
        const unsigned left = strikes - t.strikes;
        if (left > 0 && t.broken[0] == '\0') {
            run_world(o, store, c, t.strikes, left < most ? left : most, &t);
        }
    }
    print(c, &t, fed_clock_monotonic_ms() - begun_ms);
    return t;
}

enum { CELLS = KILL_VICTIMS * KILL_FAULTS * KILL_MODES };

static void name(cell *c) {
    snprintf(c->name, sizeof c->name, "%s %s %s", victims[c->victim],
             c->victim == KILL_VICTIMS ? "all" : faults[c->fault], modes[c->mode]);
}

/* How many strikes all cells of this cell's kind get together. */
static const unsigned *kills_of(const options *o, const cell *c) {
    return hangs(c) ? &o->hangs : c->victim == KILL_FAILOVER ? &o->failovers : &o->kills;
}

/* Choose the cells whose names match --cells. Without --kills there is one cell for each kind of
 * task. Returns their number; 0: no name matches, or --cells is not a regular expression. */
static unsigned choose(const options *o, cell chosen[CELLS]) {
    regex_t wanted;
    unsigned count = 0;
    if (regcomp(&wanted, o->cells, REG_EXTENDED | REG_NOSUB) != 0) {
        return 0;
    }
    for (unsigned k = 0; k < (o->whole ? (unsigned)CELLS : (unsigned)KILL_MODES); k++) {
        cell c = {.victim = o->whole ? (kill_victim)(k / (KILL_FAULTS * KILL_MODES)) : KILL_VICTIMS,
                  .fault = (kill_fault)(k / KILL_MODES % KILL_FAULTS),
                  .mode = (kill_mode)(k % KILL_MODES)};
        name(&c);
        if ((!o->whole || (is_possible(o, c.victim, c.fault, c.mode) && *kills_of(o, &c) > 0)) &&
            regexec(&wanted, c.name, 0, NULL, 0) == 0) {
            chosen[count++] = c;
        }
    }
    regfree(&wanted);
    return count;
}

static unsigned share_of(const options *o, const cell *cells, unsigned count, unsigned at) {
    unsigned alike = 0, before = 0;
    for (unsigned k = 0; k < count; k++) {
        const bool same = kills_of(o, &cells[k]) == kills_of(o, &cells[at]);
        alike += same;
        before += same && k < at;
    }
    const unsigned all = !o->whole ? FEW * alike : *kills_of(o, &cells[at]);
    return (all + alike - 1 - before) / alike;
}

static void each_acknowledged_update_counts_once_whoever_dies(void **state) {
    static cell cells[CELLS];
    const options *o = &asked;
    kill_store store;
    const unsigned count = choose(o, cells);
    tally all = {.strikes = 0};
    unsigned broken = 0;
    (void)state;
    kill_store_open(&store);
    printf("%-30s %6s %7s %9s %6s %5s %6s  %s\n", "cell", "kills", "acked", "refolded", "ended",
           "lost", "twice", "bits      took  next version: least, median, worst (s)");
    for (unsigned k = 0; k < count; k++) {
        const tally t = run_cell(o, &store, &cells[k], share_of(o, cells, count, k));
        all.strikes += t.strikes;
        all.failovers += t.failovers;
        all.acknowledged += t.acknowledged;
        all.refolded += t.refolded;
        all.lost += t.lost;
        all.twice += t.twice;
        broken += t.broken[0] != '\0';
    }
    kill_store_close(&store);
    printf("in all: %u kills, of these %u failovers; %u updates acknowledged, %u refolded, %u "
           "lost, %u counted twice; %u of %u cells broken\n",
           all.strikes, all.failovers, all.acknowledged, all.refolded, all.lost, all.twice, broken,
           count);
    assert_int_equal(broken, 0);
}

typedef struct plant {
    const char *name; /* a bug in support/planted; NULL: a wrong setup of the store */
    kill_victim victim;
    kill_fault fault;
    unsigned coordinators;
} plant;

static plant plants[] = {
    {"answers-early", KILL_LEADER, KILL_DIES, 1},  {"forgets", KILL_LEADER, KILL_DIES, 1},
    {"answers-itself", KILL_LEADER, KILL_DIES, 3}, {"no-fence", KILL_LEADER, KILL_STANDS, 3},
    {NULL, KILL_FAILOVER, KILL_DIES, 1}, /* a standby that is not synchronous */
};

/* Did the judge find a broken rule, or did a device end for good? A device does so if an
 * acknowledged update is refused when it comes again. The device may see that before the judge
 * looks. A task that only ends too late (D6 in docs/durability.md) is no proof. */
static bool found_out(const tally *t) {
    return ((t->broken[0] == 'D' || t->broken[0] == 'H') && strncmp(t->broken, "D6", 2) != 0) ||
           strncmp(t->broken, "device", strlen("device")) == 0;
}

static void it_is_found_out(void **state) {
    const plant *p = *state;
    const options o = {.seed = 1,
                       .coordinators = p->coordinators,
                       .plant = p->name,
                       .no_standby = p->name == NULL};
    cell c = {.victim = p->victim, .fault = p->fault, .mode = KILL_SYNCHRONOUS};
    kill_store store;
    kill_store_open(&store);
    snprintf(c.name, sizeof c.name, "planted: %s", p->name != NULL ? p->name : "asynchronous");
    const tally t = run_cell(&o, &store, &c, PLANTED);
    kill_store_close(&store);
    assert_true(found_out(&t));
}

static int whole(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_acknowledged_update_counts_once_whoever_dies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static int a_part(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_acknowledged_update_counts_once_whoever_dies),
        {.name = "a coordinator that answers before it commits is found out",
         .test_func = it_is_found_out,
         .initial_state = &plants[0]},
        {.name = "a leader that does not read updates back is found out",
         .test_func = it_is_found_out,
         .initial_state = &plants[1]},
        {.name = "a follower that answers by itself is found out",
         .test_func = it_is_found_out,
         .initial_state = &plants[2]},
        {.name = "a leader without a fence is found out",
         .test_func = it_is_found_out,
         .initial_state = &plants[3]},
        {.name = "a standby that is not synchronous is found out",
         .test_func = it_is_found_out,
         .initial_state = &plants[4]},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static bool read_number(const char *text, unsigned *number) {
    char *end = NULL;
    const unsigned long value = strtoul(text, &end, 10);
    const bool whole = text[0] >= '0' && text[0] <= '9' && *end == '\0' && value <= UINT32_MAX;
    *number = whole ? (unsigned)value : 0;
    return whole;
}

/* Read the command line. Returns false if it is wrong, after printing a message. */
static bool read_options(int argc, char **argv, options *o) {
    static const struct option known[] = {{"kills", required_argument, NULL, 'k'},
                                          {"failovers", required_argument, NULL, 'f'},
                                          {"hangs", required_argument, NULL, 'h'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"cells", required_argument, NULL, 'c'},
                                          {"coordinators", required_argument, NULL, 'n'},
                                          {"other-program", required_argument, NULL, 'o'},
                                          {NULL, 0, NULL, 0}};
    for (int k; (k = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (k == '?') {
            return false;
        }
        unsigned number = 0;
        if (strchr("kfhsn", k) != NULL && !read_number(optarg, &number)) {
            fprintf(stderr, "the option's value %s is not a whole number from 0 to %u\n", optarg,
                    UINT32_MAX);
            return false;
        }
        o->whole |= k == 'k' || k == 'f' || k == 'h';
        o->kills = k == 'k' ? number : o->kills;
        o->failovers = k == 'f' ? number : o->failovers;
        o->hangs = k == 'h' ? number : o->hangs;
        o->seed = k == 's' ? number : o->seed;
        o->cells = k == 'c' ? optarg : o->cells;
        o->coordinators = k == 'n' ? number : o->coordinators;
        o->other = k == 'o' ? optarg : o->other;
    }
    return optind == argc && o->coordinators >= 1 && o->coordinators <= KILL_COORDINATORS;
}

static bool chooses_none(const options *o) {
    cell cells[CELLS];
    if (choose(o, cells) > 0) {
        return false;
    }
    fprintf(stderr,
            "--cells %s matches no cell that gets a kill; cells have names like \"leader SIGKILL "
            "median\", without --kills like \"all all median\"\n",
            o->cells);
    return true;
}

int main(int argc, char **argv) {
    if (!read_options(argc, argv, &asked) || chooses_none(&asked)) {
        fprintf(stderr,
                "usage: %s [--kills N] [--failovers N] [--hangs N] [--seed S] [--cells REGEX]\n"
                "  [--coordinators 1..%d] [--other-program PATH]\n",
                argv[0], KILL_COORDINATORS);
        return 2;
    }
    if (!fed_postgres_is_there()) {
        return 77; /* ctest: skipped */
    }
    if (!is_possible(&asked, KILL_BALANCER, KILL_DIES, KILL_SYNCHRONOUS)) {
        printf("balancers: not tried, neither HAProxy nor nginx with its module stream is "
               "installed\n");
    }
    if (getenv("TMPDIR") == NULL && access("/dev/shm", W_OK) == 0) {
        (void)setenv("TMPDIR", "/dev/shm", 1); /* faster, and a kill loses no written data there */
    }
    return asked.whole ? whole() : a_part();
}

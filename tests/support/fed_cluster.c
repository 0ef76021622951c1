/* Runs several coordinators that share a store, each in its own process. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_operator.h"
#include "fed_port.h"
#include "fed_test.h"
#include "fedserver/http.h"

enum { PATIENCE_MS = 600000, POLL_MS = 10 };

static void copy_file(const char *from, const char *to, const char *name) {
    char path[500];
    uint8_t *data = NULL;
    size_t len = 0;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", from, name);
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &data, &len, &err));
    fed_test_put(to, name, data, len);
    snprintf(path, sizeof path, "%s/%s", to, name);
    assert_int_equal(chmod(path, 0600), 0);
    free(data);
}

void fed_cluster_copy(const char *from, const char *to) {
    static const char *const files[] = {"ca.pem", "ca.key", "server.pem", "server.key", "store"};
    assert_int_equal(mkdir(to, 0700), 0);
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        copy_file(from, to, files[f]);
    }
}

static void init(fed_cluster *c, const char *store) {
    const char *hosts[FED_CLUSTER_MOST + 1] = {NULL};
    fed_error err = {0};
    for (unsigned k = 0; k < c->count; k++) {
        hosts[k] = c->member[k].bind;
    }
    const fedserver_init_options options = {.hosts = hosts, .store = store};
    assert_fed_ok_err(fedserver_init(c->member[0].directory, &options, &err));
    c->ca = fed_operator_ca(c->member[0].directory);
}

void fed_cluster_open(fed_cluster *c, const char *parent, const char *store, unsigned count) {
    size_t at = 0;
    char number[16];
    *c = (fed_cluster){.count = count};
    assert_in_range(count, 1, FED_CLUSTER_MOST);
    for (unsigned k = 0; k < count; k++) {
        fed_cluster_member *m = &c->member[k];
        snprintf(number, sizeof number, "%u", k);
        snprintf(m->directory, sizeof m->directory, "%s/coordinator%s", parent,
                 k > 0 ? number : "");
        snprintf(m->log, sizeof m->log, "%s.log", m->directory);
        snprintf(m->bind, sizeof m->bind, "127.0.0.%u", 1 + k);
    }
    init(c, store);
    for (unsigned k = 1; k < count; k++) {
        fed_cluster_copy(c->member[0].directory, c->member[k].directory);
    }
    c->front = fed_port_keep();
    c->devices = fed_port_keep();
    for (unsigned k = 0; k < count; k++) {
        c->member[k].link = fed_port_keep();
        at += (size_t)snprintf(c->servers + at, sizeof c->servers - at, "%shttps://%s:%u",
                               k > 0 ? "," : "", c->member[k].bind, c->front);
    }
}

void fed_cluster_close(fed_cluster *c) {
    for (unsigned k = 0; k < c->count; k++) {
        if (c->member[k].pid > 0) {
            fed_cluster_signal(c, k, SIGKILL);
        }
    }
    free(c->ca);
    c->ca = NULL;
}

void fed_cluster_token(const fed_cluster *c, const char *tag, char token[FEDSERVER_TOKEN]) {
    enum { LIFE_S = 24 * 3600 };
    const fedserver_grant grant = {.ttl_s = LIFE_S, .tag = tag};
    fed_operator_token(c->member[0].directory, &grant, token);
}

uint64_t fed_cluster_task(const fed_cluster *c, const char *parent, const char *json) {
    return fed_operator_task(c->member[0].directory, parent, json);
}

static void become_member(const fed_cluster *c, unsigned k, const char *out) {
    const fed_cluster_member *m = &c->member[k];
    char link[32], front[16], devices[16], requests[24];
    fed_test_die_with_parent();
    snprintf(link, sizeof link, "%s:%u", m->bind, m->link);
    snprintf(front, sizeof front, "%u", c->front);
    snprintf(devices, sizeof devices, "%u", c->devices);
    snprintf(requests, sizeof requests, "%ld", c->requests > 0 ? c->requests : 100);
    const int output = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const int log = open(m->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (output < 0 || log < 0 || dup2(output, 1) < 0 || dup2(log, 2) < 0) {
        _exit(126);
    }
    execl(FED_BIN_DIR "/fedserver", "fedserver", "run", "--dir", m->directory, "--bind", m->bind,
          "--front-port", front, "--devices-port", devices, "--cluster", link, "--requests",
          requests, c->proxy != NULL ? "--proxy-protocol" : NULL, c->proxy, (char *)NULL);
    _exit(127);
}

static void name_output(const fed_cluster *c, unsigned k, char path[400]) {
    snprintf(path, 400, "%s.out", c->member[k].directory);
}

void fed_cluster_start(fed_cluster *c, unsigned k) {
    char out[400];
    name_output(c, k, out);
    (void)unlink(out);
    assert_int_equal(c->member[k].pid, 0);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        become_member(c, k, out);
    }
    c->member[k].pid = pid;
}

static bool is_ready(const fed_cluster *c, unsigned k) {
    char out[400];
    struct stat file;
    name_output(c, k, out);
    return stat(out, &file) == 0 && file.st_size > 0;
}

/* The log goes with the test's folder, so print it. */
static void print_log(const char *path) {
    uint8_t *text = NULL;
    size_t len = 0;
    if (fed_file_read(path, 1 << 24, &text, &len, NULL) == FED_OK) {
        print_message("%s", (const char *)text);
    }
    free(text);
}

void fed_cluster_start_ready(fed_cluster *c, unsigned k) {
    const int64_t end_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    int how = 0;
    fed_cluster_start(c, k);
    while (!is_ready(c, k)) {
        if (fed_cluster_ended(c, k, &how) || fed_clock_monotonic_ms() > end_ms) {
            print_log(c->member[k].log);
            fail_msg("coordinator %u ended or does not serve (wait status %d)", k, how);
        }
        fed_sleep_ms(POLL_MS);
    }
}

void fed_cluster_signal(fed_cluster *c, unsigned k, int number) {
    assert_true(c->member[k].pid > 0);
    assert_int_equal(kill(c->member[k].pid, number), 0);
    if (number == SIGKILL) {
        assert_int_equal(waitpid(c->member[k].pid, NULL, 0), c->member[k].pid);
        c->member[k].pid = 0;
    }
}

bool fed_cluster_ended(fed_cluster *c, unsigned k, int *how) {
    fed_cluster_member *m = &c->member[k];
    if (m->pid > 0 && waitpid(m->pid, how, WNOHANG) == m->pid) {
        m->pid = 0;
        return true;
    }
    return false;
}

static char *read_log(const char *path) {
    uint8_t *text = NULL;
    size_t len = 0;
    fed_error none = {0};
    (void)!fed_file_read(path, 1 << 30, &text, &len, &none);
    return (char *)text; /* NULL: the log does not exist yet */
}

uint64_t fed_cluster_led(const char *path) {
    static const char words[] = "this coordinator leads: term ";
    uint64_t newest = 0;
    char *log = read_log(path);
    for (const char *at = log; at != NULL && (at = strstr(at, words)) != NULL;) {
        at += sizeof words - 1;
        const uint64_t led = strtoull(at, NULL, 10);
        newest = led > newest ? led : newest;
    }
    free(log);
    return newest;
}

int fed_cluster_leader(const fed_cluster *c, uint64_t *term) {
    uint64_t newest = 0;
    int leader = -1;
    for (unsigned k = 0; k < c->count; k++) {
        const uint64_t led = fed_cluster_led(c->member[k].log);
        leader = led > newest ? (int)k : leader;
        newest = led > newest ? led : newest;
    }
    if (term != NULL) {
        *term = newest;
    }
    return leader;
}

unsigned fed_cluster_says(const fed_cluster *c, unsigned k, const char *words) {
    unsigned count = 0;
    char *log = read_log(c->member[k].log);
    for (const char *at = log; at != NULL && (at = strstr(at, words)) != NULL; at++) {
        count++;
    }
    free(log);
    return count;
}

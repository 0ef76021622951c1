/* The socket for a NIC's report: a client that asks gets the report, and silent clients are
 * disconnected. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_cases.h"
#include "fedclient/datacenter/nic/packet/report_socket.h"

enum { LINES = 20000 };

typedef struct desk {
    char folder[200], path[100];
    fednic_reports *reports;
    pthread_t thread;
    atomic_bool stop;
    atomic_int asked;
    int64_t ahead_ms; /* how far the server's clock is ahead of the real one */
} desk;

static void long_report(void *user, fednic_format format, fed_writer *text) {
    desk *d = user;
    d->asked++;
    for (int k = 0; k < LINES; k++) {
        fed_write_printf(text, "%s line %d of the report\n",
                         format == FEDNIC_PROMETHEUS ? "prometheus" : "table", k);
    }
}

static void serve_once(desk *d, int64_t now_ms) {
    struct pollfd polls[FEDNIC_REPORT_POLLS];
    (void)fednic_reports_poll(d->reports, polls);
    (void)poll(polls, FEDNIC_REPORT_POLLS, 5);
    fednic_reports_serve(d->reports, polls, now_ms, long_report, d);
}

static void *serve(void *user) {
    desk *d = user;
    while (!d->stop) {
        serve_once(d, fed_clock_monotonic_ms());
    }
    return NULL;
}

static void open_desk(desk *d) {
    fed_error err = {0};
    *d = (desk){.reports = NULL};
    fed_test_tmpdir(d->folder, sizeof d->folder);
    assert_true(snprintf(d->path, sizeof d->path, "%s/s", d->folder) < (int)sizeof d->path);
    assert_fed_ok_err(fednic_reports_open(d->path, &d->reports, &err));
}

static void close_desk(desk *d) {
    fednic_reports_close(d->reports);
    assert_int_not_equal(access(d->path, F_OK), 0);
    fed_test_rmdir(d->folder);
}

static int call(const desk *d) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(at.sun_path, d->path, strlen(d->path));
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

FED_TEST(a_long_answer) {
    desk d;
    fed_writer text;
    fed_error err = {0};
    open_desk(&d);
    struct stat about;
    assert_int_equal(stat(d.path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(pthread_create(&d.thread, NULL, serve, &d), 0);
    for (int format = 0; format < 2; format++) {
        fed_writer wanted;
        fed_writer_growing(&wanted);
        fed_writer_growing(&text);
        assert_fed_ok_err(fednic_ask(d.path, (fednic_format)format, &text, &err));
        long_report(&d, (fednic_format)format, &wanted);
        assert_int_equal(text.len, wanted.len);
        assert_memory_equal(text.data, wanted.data, wanted.len);
        fed_writer_free(&wanted);
        fed_writer_free(&text);
    }
    d.stop = true;
    pthread_join(d.thread, NULL);
    close_desk(&d);
}

/* The last client is one too many, so it is disconnected at once. The first asks but never
 * reads, and the others send nothing. These are disconnected after two seconds. */
FED_TEST(silent_clients) {
    desk d;
    char byte = 0;
    int fds[FEDNIC_CLIENTS + 1];
    open_desk(&d);
    for (int k = 0; k <= FEDNIC_CLIENTS; k++) {
        fds[k] = call(&d);
        serve_once(&d, 1000);
    }
    assert_int_equal(read(fds[FEDNIC_CLIENTS], &byte, 1), 0);
    assert_int_equal(read(fds[0], &byte, 1), -1);
    assert_int_equal(write(fds[0], "table\n", 6), 6);
    serve_once(&d, 1500);
    assert_int_equal(d.asked, 1);
    serve_once(&d, 2900);
    serve_once(&d, 3100);
    struct pollfd polls[FEDNIC_REPORT_POLLS];
    assert_int_equal(fednic_reports_poll(d.reports, polls), -1);
    for (int k = 0; k <= FEDNIC_CLIENTS; k++) {
        close(fds[k]);
    }
    close_desk(&d);
}

FED_TEST(a_client_that_says_nonsense) {
    desk d;
    char byte = 0;
    open_desk(&d);
    const int fd = call(&d);
    serve_once(&d, 1000);
    assert_int_equal(write(fd, "a word without an end", 21), 21);
    serve_once(&d, 1001);
    assert_true(read(fd, &byte, 1) <= 0);
    assert_int_equal(d.asked, 0);
    close(fd);
    close_desk(&d);
}

FED_TEST(what_is_left_and_what_lives) {
    desk d;
    fed_error err = {0};
    fednic_reports *second = NULL;
    fed_writer text;
    open_desk(&d);
    assert_fed_status(fednic_reports_open(d.path, &second, &err), FED_EBUSY);
    assert_fed_says(err, "another fednic answers");
    assert_null(second);
    close_desk(&d);

    /* A socket left by a process that was killed. */
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    fed_test_tmpdir(d.folder, sizeof d.folder);
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%.90s/s", d.folder);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    close(fd);
    fed_writer_growing(&text);
    assert_fed_status(fednic_ask(at.sun_path, FEDNIC_TABLE, &text, &err), FED_ENOTFOUND);
    assert_fed_says(err, "no fednic answers");
    assert_fed_ok_err(fednic_reports_open(at.sun_path, &d.reports, &err));
    fed_writer_free(&text);
    close_desk(&(desk){.reports = d.reports});
    fed_test_rmdir(d.folder);
}

FED_TEST(a_path_that_is_too_long) {
    char path[200];
    fed_error err = {0};
    fednic_reports *reports = NULL;
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_fed_status(fednic_reports_open(path, &reports, &err), FED_EINVAL);
    assert_fed_says(err, "has at most 107 characters");
}

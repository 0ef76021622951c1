/* Tests of lines that are cut: where a stream is cut, and which bytes still pass. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cut_lines.h"
#include "fed/clock.h"
#include "fed_cases.h"
#include "tests/support/faults/fault_disk.h"

enum { HEAD = 5, STARTUP = 12, QUIET_MS = 200, ROOM = 1000 };

typedef struct world {
    char directory[300];
    cut_lines *lines;
    pid_t forwarder;
    int door, client, server;
} world;

static struct sockaddr_un address_of(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, path, strlen(path) + 1);
    return a;
}

static void dial(world *w) {
    const struct sockaddr_un from = address_of(w->lines->line[0].from);
    w->client = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(w->client, (const struct sockaddr *)&from, sizeof from), 0);
    w->server = accept(w->door, NULL, NULL);
    assert_true(w->server >= 0);
}

static void dial_again(world *w) {
    close(w->client);
    close(w->server);
    dial(w);
}

static void open_world(world *w) {
    char near[340], far[340];
    *w = (world){.door = socket(AF_UNIX, SOCK_STREAM, 0),
                 .lines = fault_shared_new(sizeof *w->lines)};
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(near, sizeof near, "%s/near", w->directory);
    snprintf(far, sizeof far, "%s/far", w->directory);
    assert_int_equal(cut_lines_add(w->lines, near, far), 0);
    const struct sockaddr_un to = address_of(far);
    assert_int_equal(bind(w->door, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(listen(w->door, 4), 0);
    w->forwarder = cut_lines_start(w->lines);
    dial(w);
}

static void close_world(world *w) {
    (void)kill(w->forwarder, SIGKILL);
    (void)waitpid(w->forwarder, NULL, 0);
    close(w->client);
    close(w->server);
    close(w->door);
    fault_shared_free(w->lines, sizeof *w->lines);
    fed_test_rmdir(w->directory);
}

/* Write PostgreSQL's startup message, which has no type byte. */
static size_t put_startup(uint8_t *dst) {
    static const uint8_t bytes[STARTUP] = {0, 0, 0, STARTUP, 0, 3, 0, 0, 'u', 0, 'x', 0};
    memcpy(dst, bytes, sizeof bytes);
    return sizeof bytes;
}

static size_t put_message(uint8_t *dst, char type, uint8_t len) {
    memset(dst, 'E', HEAD + (size_t)len); /* a body of 'E', which is also the type of Execute */
    dst[0] = (uint8_t)type;
    dst[1] = dst[2] = dst[3] = 0;
    dst[4] = (uint8_t)(len + 4);
    return HEAD + (size_t)len;
}

static size_t received(const world *w, uint8_t *dst, bool *ended) {
    size_t len = 0;
    *ended = false;
    struct pollfd in = {.fd = w->server, .events = POLLIN};
    while (!*ended && poll(&in, 1, QUIET_MS) > 0) {
        const ssize_t got = recv(w->server, dst + len, ROOM - len, 0);
        *ended = got <= 0;
        len += got > 0 ? (size_t)got : 0;
    }
    return len;
}

/* Write a startup message, and twice Bind, Execute and Sync. *second: offset of the last Execute.
 */
static size_t conversation(uint8_t *text, size_t *second) {
    size_t len = put_startup(text);
    for (int k = 0; k < 2; k++) {
        len += put_message(text + len, 'B', 30);
        *second = len;
        len += put_message(text + len, 'E', 9);
        len += put_message(text + len, 'S', 0);
    }
    return len;
}

static void send_in(const world *w, const uint8_t *text, size_t len, size_t piece) {
    for (size_t at = 0; at < len; at += piece) {
        const size_t step = len - at < piece ? len - at : piece;
        if (send(w->client, text + at, step, MSG_NOSIGNAL) < 0) {
            return;
        }
    }
}

FED_TEST(a_line_breaks_before_a_statement_or_behind_it) {
    for (size_t piece = 1; piece < ROOM; piece *= 9) {
        for (int after = 0; after < 2; after++) {
            uint8_t text[ROOM], got[ROOM];
            size_t second = 0;
            bool ended = false;
            world w;
            const size_t len = conversation(text, &second);
            open_world(&w);
            w.lines->line[0].deed = CUT_BREAKS;
            w.lines->line[0].deed_is_after = after;
            w.lines->line[0].deed_in = 2;
            send_in(&w, text, len, piece);
            const size_t came = received(&w, got, &ended);
            assert_true(ended);
            assert_int_equal(came, second + (after != 0 ? HEAD + 9 : 0));
            assert_memory_equal(got, text, came);
            assert_int_equal(w.lines->line[0].deeds, 1);
            close_world(&w);
        }
    }
}

FED_TEST(what_a_stopped_victim_has_sent_arrives) {
    uint8_t text[ROOM], got[ROOM];
    size_t second = 0;
    int how = 0;
    bool ended = false;
    world w;
    const size_t len = conversation(text, &second);
    const pid_t victim = fork();
    if (victim == 0) {
        (void)pause();
        _exit(0);
    }
    open_world(&w);
    w.lines->line[0].victim = victim;
    w.lines->line[0].deed = CUT_STOPS;
    w.lines->line[0].deed_in = 1;
    send_in(&w, text, len, ROOM);
    assert_int_equal(received(&w, got, &ended), len);
    assert_memory_equal(got, text, len);
    assert_int_equal(w.lines->line[0].statements, 2);
    assert_int_equal(waitpid(victim, &how, WUNTRACED), victim);
    assert_true(WIFSTOPPED(how));
    (void)kill(victim, SIGKILL);
    (void)waitpid(victim, NULL, 0);
    close_world(&w);
}

FED_TEST(nothing_passes_a_hole_until_it_is_over) {
    uint8_t text[ROOM], got[ROOM];
    size_t second = 0;
    bool ended = false;
    world w;
    const size_t len = conversation(text, &second);
    open_world(&w);
    w.lines->line[0].state = CUT_HOLE;
    fed_sleep_ms(QUIET_MS);
    send_in(&w, text, len, ROOM);
    assert_int_equal(received(&w, got, &ended), 0);
    assert_false(ended);
    w.lines->line[0].state = CUT_OPEN;
    assert_int_equal(received(&w, got, &ended), len);
    w.lines->line[0].state = CUT_OFF;
    assert_int_equal(received(&w, got, &ended), 0);
    assert_true(ended);
    close_world(&w);
}

FED_TEST(a_connection_breaks_after_so_many_bytes_and_so_does_the_next_one) {
    enum { MOST = 70 };
    uint8_t text[ROOM], got[ROOM];
    size_t second = 0;
    bool ended = false;
    world w;
    const size_t len = conversation(text, &second);
    open_world(&w);
    w.lines->break_bytes = MOST;
    for (uint64_t times = 1; times <= 2; times++) {
        send_in(&w, text, len, ROOM);
        assert_int_equal(received(&w, got, &ended), MOST);
        assert_memory_equal(got, text, MOST);
        assert_true(ended);
        assert_true(w.lines->dialled == times && w.lines->breaks == times);
        assert_true(w.lines->up_bytes == times * MOST && w.lines->down_bytes == 0);
        dial_again(&w);
    }
    close_world(&w);
}

static int socket_at(const char *host, uint16_t port, struct sockaddr_in *at) {
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, host, &at->sin_addr), 1);
    const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    return fd;
}

/* Send a byte at one end of a connection, and take it at the other one. */
static void pass(int from, int to) {
    char byte = 'b';
    assert_int_equal(send(from, &byte, 1, 0), 1);
    assert_int_equal(recv(to, &byte, 1, 0), 1);
}

FED_TEST(a_line_to_a_port_does_its_deed_at_bytes_on_their_way_back) {
    uint16_t ports[2];
    struct sockaddr_in near, far;
    cut_lines *lines = fault_shared_new(sizeof *lines);
    cut_lines_add_ports(lines, ports);
    const int door = socket_at("127.0.0.1", ports[0], &far);
    assert_int_equal(bind(door, (struct sockaddr *)&far, sizeof far), 0);
    assert_int_equal(listen(door, 1), 0);
    const pid_t forwarder = cut_lines_start(lines);
    const int client = socket_at("127.0.0.2", ports[0], &near);
    assert_int_equal(connect(client, (struct sockaddr *)&near, sizeof near), 0);
    const int server = accept(door, NULL, NULL);
    const pid_t victim = fork();
    if (victim == 0) {
        fed_test_die_with_parent();
        for (;;) {
            (void)pause();
        }
    }
    cut_line *line = &lines->line[0];
    line->victim = victim;
    line->deed = CUT_STOPS;
    line->deed_in = 2;
    pass(client, server);
    pass(server, client);
    pass(client, server);
    assert_int_equal(line->deeds, 0);
    pass(server, client);
    assert_int_equal(line->deeds, 1);
    assert_int_equal(waitpid(victim, NULL, WUNTRACED), victim);
    pass(server, client);
    const pid_t ours[] = {victim, forwarder};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(kill(ours[k], SIGKILL), 0);
        assert_int_equal(waitpid(ours[k], NULL, 0), ours[k]);
    }
    close(server);
    close(client);
    close(door);
    fault_shared_free(lines, sizeof *lines);
}

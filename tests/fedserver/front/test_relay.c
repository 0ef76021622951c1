/* The relay, which carries questions from a front to the process of the rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memfd_create */
#include "fed_test.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fed/bytes.h"
#include "fedserver/front/relay.h"

enum { SOON_MS = 10000, FRONTS = 4 };

typedef struct world {
    char directory[256];
    fedserver_relay *rounds, *front;
} world;

static fedserver_relay *open_relay(const world *w, fedserver_part part) {
    fed_error err = {0};
    fedserver_relay *relay = NULL;
    assert_fed_ok_err(fedserver_relay_open(w->directory, part, NULL, &relay, &err));
    return relay;
}

static int setup(void **state) {
    static world w;
    fed_test_tmpdir(w.directory, sizeof w.directory);
    w.rounds = open_relay(&w, FEDSERVER_ROUNDS);
    w.front = open_relay(&w, FEDSERVER_GATE);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fedserver_relay_close(w->front);
    fedserver_relay_close(w->rounds);
    fed_test_rmdir(w->directory);
    return 0;
}

static bool readable(const fedserver_relay *relay, int limit_ms) {
    struct pollfd look = {.fd = fedserver_relay_fd(relay), .events = POLLIN};
    return poll(&look, 1, limit_ms) == 1;
}

static fedserver_response ask(fedserver_relay *front, const char *path, int64_t came_ms,
                              int64_t now_ms) {
    const fedserver_request request = {.path = path, .waited_ms = now_ms - came_ms};
    fedserver_response response = {.status = 0};
    assert_true(fedserver_relay_ask(front, &request, now_ms, &response));
    assert_int_equal(response.hold, response.body == NULL);
    return response;
}

static void assert_asks(const world *w, const char *path, int64_t now_ms) {
    assert_true(ask(w->front, path, now_ms, now_ms).hold);
    assert_true(readable(w->rounds, SOON_MS));
}

static void assert_answered(const world *w, const char *path, int64_t came_ms, int64_t now_ms,
                            const char *body) {
    size_t len = 0;
    fedserver_response r = ask(w->front, path, came_ms, now_ms);
    assert_false(r.hold);
    const uint8_t *data = fedserver_blob_data(r.body, &len);
    assert_int_equal(len, strlen(body));
    assert_memory_equal(data, body, len);
    fedserver_blob_free(r.body);
}

static fedserver_blob *blob_of(const char *text) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_bytes(&w, text, strlen(text));
    return fedserver_blob_new(&w);
}

static fed_status say_path(void *user, const char *path, int64_t now_ms, bool *known,
                           fedserver_response *response, fed_error *err) {
    (void)now_ms, (void)err;
    ++*(int *)user;
    *known = strcmp(path, "/none") != 0;
    if (*known) {
        response->status = 207;
        response->content_type = "text/html; charset=utf-8";
        snprintf(response->etag, sizeof response->etag, "%s", path[1] == 'a' ? "W/\"tag\"" : "");
        response->body = blob_of(path);
    }
    return FED_OK;
}

static int serve(const world *w) {
    fed_error err = {0};
    int asked = 0;
    assert_fed_ok_err(fedserver_relay_serve(w->rounds, say_path, &asked, 0, &err));
    return asked;
}

static void answer_all(const world *w) {
    assert_int_equal(serve(w), 1);
    fedserver_relay_send(w->rounds);
    assert_true(readable(w->front, SOON_MS));
    assert_int_equal(fedserver_relay_receive(w->front), 1);
}

static void an_answer_leaves_after_the_commit(void **state) {
    const world *w = *state;
    assert_int_equal(fedserver_relay_fd(w->front), -1);
    assert_asks(w, "/a", 1000);
    assert_int_equal(serve(w), 1);
    assert_false(readable(w->rounds, 0));
    assert_false(readable(w->front, 0));
    assert_int_equal(fedserver_relay_receive(w->front), 0);
    fedserver_relay_send(w->rounds);
    assert_int_equal(fedserver_relay_receive(w->front), 1);
    fedserver_relay_send(w->rounds);
    assert_int_equal(fedserver_relay_receive(w->front), 0);
    assert_answered(w, "/a", 1000, 1001, "/a");
}

static void an_answers_head_arrives_as_it_was(void **state) {
    const world *w = *state;
    for (int k = 0; k < 2; k++) {
        const char *path = k == 0 ? "/a" : "/b";
        assert_asks(w, path, 1000);
        answer_all(w);
        fedserver_response r = ask(w->front, path, 1000, 1001);
        assert_int_equal(r.status, 207);
        assert_string_equal(r.content_type, "text/html; charset=utf-8");
        assert_string_equal(r.etag, k == 0 ? "W/\"tag\"" : "");
        fedserver_blob_free(r.body);
    }
}

/* Answer each path with *user bytes, which are more than a packet of the socket can hold. */
static fed_status say_much(void *user, const char *path, int64_t now_ms, bool *known,
                           fedserver_response *response, fed_error *err) {
    (void)path, (void)now_ms, (void)err;
    const size_t *len = user;
    fed_writer w;
    fed_writer_growing(&w);
    uint8_t *bytes = fed_writer_reserve(&w, *len);
    assert_non_null(bytes);
    for (size_t k = 0; k < *len; k++) {
        bytes[k] = (uint8_t)(k / 251 + k);
    }
    fed_writer_advance(&w, *len);
    *known = true;
    response->status = 200;
    response->body = fedserver_blob_new(&w);
    return FED_OK;
}

static void an_answer_of_any_size_arrives(void **state) {
    static size_t sizes[] = {0, 1, 4096, 212960, 212961, 524288, 5000000};
    const world *w = *state;
    fed_error err = {0};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const int64_t now_ms = 1000 + (int64_t)k * 100;
        size_t len = 0;
        assert_asks(w, "/a", now_ms);
        assert_fed_ok_err(fedserver_relay_serve(w->rounds, say_much, &sizes[k], now_ms, &err));
        fedserver_relay_send(w->rounds);
        assert_int_equal(fedserver_relay_receive(w->front), 1);
        fedserver_response r = ask(w->front, "/a", now_ms, now_ms + 20);
        const uint8_t *data = fedserver_blob_data(r.body, &len);
        assert_int_equal(len, sizes[k]);
        for (size_t i = 0; i < len; i++) {
            if (data[i] != (uint8_t)(i / 251 + i)) {
                fail_msg("byte %zu of %zu differs", i, len);
            }
        }
        fedserver_blob_free(r.body);
    }
}

/* An answer may be out of date for a request that came after the question was sent. */
static void nobody_gets_what_was_asked_before_he_came(void **state) {
    const world *w = *state;
    assert_asks(w, "/a", 1000);
    assert_true(ask(w->front, "/a", 1005, 1005).hold);
    answer_all(w);
    assert_answered(w, "/a", 1000, 1010, "/a");
    assert_answered(w, "/a", 900, 1010, "/a");
    assert_true(ask(w->front, "/a", 1005, 1010).hold);
    assert_asks(w, "/a", 1020);
    answer_all(w);
    assert_answered(w, "/a", 1005, 1020, "/a");
}

static void one_question_of_a_path_is_under_way_and_fifty_a_second(void **state) {
    const world *w = *state;
    assert_asks(w, "/a", 1000);
    assert_int_equal(ask(w->front, "/a", 1001, 1050).hold_ms, 200);
    assert_int_equal(serve(w), 1);
    assert_int_equal(serve(w), 0);
    fedserver_relay_send(w->rounds);
    assert_int_equal(fedserver_relay_receive(w->front), 1);
    assert_int_equal(ask(w->front, "/a", 1005, 1005).hold_ms, 15);
    assert_int_equal(ask(w->front, "/a", 1019, 1019).hold_ms, 1);
    assert_false(readable(w->rounds, 0));
    assert_asks(w, "/b", 1005); /* each path has its own limit of one question in 20 ms */
    answer_all(w);
    assert_asks(w, "/a", 1020);
}

static void a_clock_that_is_set_back_stops_no_question(void **state) {
    const world *w = *state;
    assert_asks(w, "/a", 100000);
    answer_all(w);
    assert_asks(w, "/a", 5); /* the clock was set back, so the old answer is not used */
    answer_all(w);
    assert_answered(w, "/a", 5, 6, "/a");
}

static void after_ten_seconds_the_front_gives_up(void **state) {
    const world *w = *state;
    fedserver_request request = {.path = "/a", .waited_ms = 9999};
    fedserver_response response = {.status = 7};
    assert_true(fedserver_relay_ask(w->front, &request, 20000, &response));
    assert_true(response.hold);
    request.waited_ms = 10000;
    response = (fedserver_response){.status = 7};
    assert_false(fedserver_relay_ask(w->front, &request, 20001, &response));
    assert_int_equal(response.status, 7);
    assert_false(response.hold);
}

static void a_front_that_came_first_asks_once_the_rounds_are_there(void **state) {
    world *w = *state;
    fedserver_relay_close(w->rounds);
    assert_true(ask(w->front, "/a", 1000, 1000).hold);
    assert_int_equal(fedserver_relay_fd(w->front), -1);
    w->rounds = open_relay(w, FEDSERVER_ROUNDS);
    assert_true(ask(w->front, "/a", 1000, 1200).hold);
    assert_true(readable(w->rounds, SOON_MS));
    answer_all(w);
    assert_answered(w, "/a", 1000, 1210, "/a");
}

static void a_front_asks_again_when_the_rounds_come_back(void **state) {
    world *w = *state;
    assert_asks(w, "/a", 1000);
    fedserver_relay_close(w->rounds);
    assert_true(readable(w->front, SOON_MS));
    assert_int_equal(fedserver_relay_receive(w->front), 0);
    assert_int_equal(fedserver_relay_fd(w->front), -1);
    w->rounds = open_relay(w, FEDSERVER_ROUNDS);
    assert_asks(w, "/a", 1100);
    answer_all(w);
    assert_answered(w, "/a", 1000, 1101, "/a");
}

static void what_nothing_answers_ends_the_connection(void **state) {
    const world *w = *state;
    assert_asks(w, "/none", 1000);
    assert_int_equal(serve(w), 1);
    assert_int_equal(fedserver_relay_receive(w->front), 0);
    assert_int_equal(fedserver_relay_fd(w->front), -1);
    assert_asks(w, "/a", 1000);
    answer_all(w);
}

static fed_status cannot_say(void *user, const char *path, int64_t now_ms, bool *known,
                             fedserver_response *response, fed_error *err) {
    (void)user, (void)path, (void)now_ms, (void)known, (void)response;
    return fed_fail(err, FED_EIO, "the store is gone");
}

static void a_failure_of_whoever_answers_is_the_rounds_too(void **state) {
    const world *w = *state;
    fed_error err = {0};
    assert_asks(w, "/a", 1000);
    assert_fed_status(fedserver_relay_serve(w->rounds, cannot_say, NULL, 1000, &err), FED_EIO);
    assert_fed_says(err, "the store is gone");
}

static void a_front_is_watched_again_once_it_has_its_answer(void **state) {
    const world *w = *state;
    const fedserver_response response = {.status = 200, .body = blob_of("far")};
    fedserver_question question;
    assert_asks(w, "/a", 1000);
    for (int k = 0; k < 3; k++) {
        const int64_t now_ms = 1000 + k * 20;
        assert_true(fedserver_relay_next(w->rounds, &question));
        assert_string_equal(question.path, k % 2 == 0 ? "/a" : "/b");
        assert_true(ask(w->front, k % 2 == 0 ? "/b" : "/a", now_ms + 20, now_ms + 20).hold);
        assert_false(readable(w->rounds, 0));
        fedserver_question other;
        assert_false(fedserver_relay_next(w->rounds, &other));
        fedserver_relay_give(w->rounds, &question, &response);
        assert_int_equal(fedserver_relay_receive(w->front), 1);
        assert_answered(w, question.path, now_ms, now_ms + 20, "far");
        assert_true(readable(w->rounds, SOON_MS));
    }
    fedserver_blob_free(response.body);
}

static void an_answer_without_a_body_is_sent_too(void **state) {
    const world *w = *state;
    const fedserver_response busy = {.status = 503};
    fedserver_question question;
    assert_asks(w, "/a", 1000);
    assert_true(fedserver_relay_next(w->rounds, &question));
    fedserver_relay_give(w->rounds, &question, &busy);
    assert_int_equal(fedserver_relay_receive(w->front), 1);
    fedserver_response r = ask(w->front, "/a", 1000, 1001);
    assert_int_equal(r.status, 503);
    fedserver_blob_free(r.body);
}

static void a_path_that_the_other_process_does_not_know_ends_the_connection(void **state) {
    const world *w = *state;
    fedserver_question question;
    assert_asks(w, "/a", 1000);
    assert_true(fedserver_relay_next(w->rounds, &question));
    fedserver_relay_give(w->rounds, &question, NULL);
    assert_int_equal(fedserver_relay_receive(w->front), 0);
    assert_int_equal(fedserver_relay_fd(w->front), -1);
    assert_asks(w, "/a", 1100);
    assert_true(fedserver_relay_next(w->rounds, &question));
}

static void an_answer_goes_to_the_front_that_asked(void **state) {
    const world *w = *state;
    const fedserver_response response = {.status = 200, .body = blob_of("far")};
    fedserver_question first, second;
    fedserver_relay *other = open_relay(w, FEDSERVER_GATE);
    assert_asks(w, "/a", 1000);
    assert_true(fedserver_relay_next(w->rounds, &first));
    assert_true(ask(other, "/a", 1000, 1000).hold);
    assert_true(readable(w->rounds, SOON_MS));
    assert_true(fedserver_relay_next(w->rounds, &second));
    assert_true(first.ticket != second.ticket);
    fedserver_relay_give(w->rounds, &second, &response);
    assert_int_equal(fedserver_relay_receive(w->front), 0);
    assert_int_equal(fedserver_relay_receive(other), 1);
    fedserver_relay_close(other);
    fedserver_relay_give(w->rounds, &second, &response);
    assert_int_equal(fedserver_relay_receive(w->front), 0);
    fedserver_relay_give(w->rounds, &first, &response);
    assert_int_equal(fedserver_relay_receive(w->front), 1);
    fedserver_blob_free(response.body);
}

static int lowest_free_descriptor(void) {
    const int fd = open("/dev/null", O_RDONLY);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

static void what_cannot_listen_leaves_no_descriptor(void **state) {
    const world *w = *state;
    fed_error err = {0};
    fedserver_relay *relay = NULL;
    char inner[300], taken[320];
    snprintf(inner, sizeof inner, "%s/inner", w->directory);
    snprintf(taken, sizeof taken, "%s/front.sock", inner);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(mkdir(taken, 0700), 0);
    const int before = lowest_free_descriptor();
    assert_fed_status(fedserver_relay_open(inner, FEDSERVER_ROUNDS, NULL, &relay, &err), FED_EIO);
    assert_fed_says(err, "can't listen on front.sock");
    assert_int_equal(lowest_free_descriptor(), before);
}

/* A process without a front calls these functions with NULL. */
static void without_a_relay_nobody_asks(void) {
    fedserver_question question = {.ticket = 0};
    assert_int_equal(fedserver_relay_fd(NULL), -1);
    assert_int_equal(fedserver_relay_receive(NULL), 0);
    assert_false(fedserver_relay_next(NULL, &question));
    fedserver_relay_give(NULL, &question, NULL);
    fedserver_relay_send(NULL);
    fedserver_relay_close(NULL);
}

static int connect_raw(const world *w) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/front.sock", w->directory);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static bool is_closed(int fd) {
    char byte;
    struct pollfd look = {.fd = fd, .events = POLLIN};
    return poll(&look, 1, 0) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

static void note_line(void *user, fed_log_level level, const char *line) {
    assert_int_equal(level, FED_LOG_WARN);
    assert_non_null(strstr(line, "can't be passed to the front's process"));
    ++*(unsigned *)user;
}

static void a_front_that_reads_no_answers_loses_its_place(void **state) {
    world *w = *state;
    unsigned asked = 0, lines = 0;
    const fed_log log = {.write = note_line, .user = &lines, .level = FED_LOG_INFO};
    fed_error err = {0};
    fedserver_relay_close(w->rounds);
    assert_fed_ok_err(fedserver_relay_open(w->directory, FEDSERVER_ROUNDS, &log, &w->rounds, &err));
    const int fd = connect_raw(w);
    while (asked < 100000 && send(fd, "GET /a", 6, MSG_NOSIGNAL) == 6) {
        assert_int_equal(serve(w), 1);
        fedserver_relay_send(w->rounds);
        asked++;
    }
    assert_in_range(asked, 1, 99999); /* the front is disconnected when its socket is full */
    assert_int_equal(lines, 1);
    close(fd);
}

static void a_place_that_a_front_left_is_free_again(void **state) {
    const world *w = *state;
    for (int turn = 0; turn < 3; turn++) {
        int fd[FRONTS + 1];
        for (int k = 0; k <= FRONTS; k++) {
            fd[k] = connect_raw(w);
            assert_true(readable(w->rounds, SOON_MS));
            assert_int_equal(serve(w), 0);
        }
        for (int k = 0; k <= FRONTS; k++) {
            assert_int_equal(is_closed(fd[k]), k == FRONTS);
        }
        assert_false(readable(w->rounds, 0));
        for (int k = 0; k <= FRONTS; k++) {
            close(fd[k]);
        }
        assert_true(readable(w->rounds, SOON_MS));
        assert_int_equal(serve(w), 0);
    }
}

static void what_is_no_question_ends_the_connection(void **state) {
    static const char *const wrong[] = {"POST /a", "GET ", "GET", "get /a", "GET/a/b/c"};
    const world *w = *state;
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        const int fd = connect_raw(w);
        assert_true(send(fd, wrong[k], strlen(wrong[k]), 0) > 0);
        assert_int_equal(serve(w), 0);
        assert_true(is_closed(fd));
        close(fd);
    }
}

static void the_longest_question_is_read_without_its_overhang(void **state) {
    const world *w = *state;
    char question[200] = "GET /";
    memset(question + 5, 'a', sizeof question - 5);
    const int fd = connect_raw(w);
    fedserver_question taken;
    assert_true(send(fd, question, sizeof question, 0) > 0);
    assert_true(fedserver_relay_next(w->rounds, &taken));
    assert_int_equal(strlen(taken.path), 63 - 4);
    close(fd);
}

/* Send a packet as the process of the rounds does, with the descriptor `file`, or without a
 * descriptor if file is -1. */
static void send_raw(int link, const char *head, int file) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof file),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)head, .iov_len = strlen(head)};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    memcpy(CMSG_DATA(&control.head), &file, sizeof file);
    if (file >= 0) {
        packet.msg_control = control.bytes;
        packet.msg_controllen = sizeof control.bytes;
    }
    assert_true(sendmsg(link, &packet, MSG_NOSIGNAL) >= 0);
}

static int listen_raw(const world *w) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/front.sock", w->directory);
    const int listening = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    (void)unlink(address.sun_path);
    assert_int_equal(bind(listening, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listening, 4), 0);
    return listening;
}

static void what_is_no_answer_ends_the_connection(void **state) {
    enum { NOTHING, FILE_OF_BODY, PIPE };
    static const struct {
        const char *head;
        int passed; /* the descriptor that comes with the packet */
    } wrong[] = {
        {"", FILE_OF_BODY},
        {"200 /a -", FILE_OF_BODY},
        {"200 /a", FILE_OF_BODY},
        {"200", FILE_OF_BODY},
        {"199 /a - text/plain", FILE_OF_BODY},
        {"600 /a - text/plain", FILE_OF_BODY},
        {"yes /a - text/plain", FILE_OF_BODY},
        {"200 /d - text/plain", FILE_OF_BODY},
        {"200 /a - text/plain", NOTHING},
        {"200 /a - text/plain", PIPE},
    };
    world *w = *state;
    fedserver_relay_close(w->rounds);
    w->rounds = NULL;
    int ends[2];
    const int listening = listen_raw(w), file = memfd_create("body", 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(file, "body", 4), 4);
    assert_true(ask(w->front, "/b", 900, 900).hold);
    assert_true(ask(w->front, "/c", 900, 900).hold); /* no place is left for a fourth path */
    for (size_t k = 0; k <= sizeof wrong / sizeof wrong[0]; k++) {
        const bool good = k == sizeof wrong / sizeof wrong[0];
        const int64_t now_ms = 1000 + (int64_t)k * 100;
        const int passed = good || wrong[k].passed == FILE_OF_BODY ? file
                           : wrong[k].passed == PIPE               ? ends[0]
                                                                   : -1;
        assert_true(ask(w->front, "/a", now_ms, now_ms).hold);
        const int fd = accept(listening, NULL, NULL);
        assert_true(fd >= 0);
        const int before = lowest_free_descriptor();
        send_raw(fd, good ? "200 /a - text/plain" : wrong[k].head, passed);
        const bool taken = fedserver_relay_receive(w->front) != 0;
        if (taken != good || (fedserver_relay_fd(w->front) != -1) != good) {
            fail_msg("answer %zu of the rounds: taken %d, wanted %d", k, taken, good);
        }
        assert_true(lowest_free_descriptor() <= before);
        close(fd);
    }
    assert_answered(w, "/a", 1000, 3000, "body");
    close(file);
    close(ends[0]);
    close(ends[1]);
    close(listening);
}

static void another_descriptor_wakes_the_rounds_too(void **state) {
    const world *w = *state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fedserver_relay_watch(w->front, ends[0]);
    fedserver_relay_watch(NULL, ends[0]);
    fedserver_relay_watch(w->rounds, ends[0]);
    assert_false(readable(w->rounds, 0));
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_true(readable(w->rounds, SOON_MS));
    close(ends[0]);
    close(ends[1]);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(an_answer_leaves_after_the_commit),
        WITH(an_answers_head_arrives_as_it_was),
        WITH(an_answer_of_any_size_arrives),
        WITH(nobody_gets_what_was_asked_before_he_came),
        WITH(one_question_of_a_path_is_under_way_and_fifty_a_second),
        WITH(a_clock_that_is_set_back_stops_no_question),
        WITH(after_ten_seconds_the_front_gives_up),
        WITH(a_front_that_came_first_asks_once_the_rounds_are_there),
        WITH(a_front_asks_again_when_the_rounds_come_back),
        WITH(what_nothing_answers_ends_the_connection),
        WITH(a_front_is_watched_again_once_it_has_its_answer),
        WITH(an_answer_without_a_body_is_sent_too),
        WITH(a_path_that_the_other_process_does_not_know_ends_the_connection),
        WITH(an_answer_goes_to_the_front_that_asked),
        WITH(a_failure_of_whoever_answers_is_the_rounds_too),
        WITH(a_front_that_reads_no_answers_loses_its_place),
        WITH(what_cannot_listen_leaves_no_descriptor),
        fed_unit_test(without_a_relay_nobody_asks),
        WITH(a_place_that_a_front_left_is_free_again),
        WITH(what_is_no_question_ends_the_connection),
        WITH(the_longest_question_is_read_without_its_overhang),
        WITH(what_is_no_answer_ends_the_connection),
        WITH(another_descriptor_wakes_the_rounds_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

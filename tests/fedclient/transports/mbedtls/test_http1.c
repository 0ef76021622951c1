/* Parsing answers in HTTP/1.1, as a whole and byte by byte. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/transports/mbedtls/http1.h"

typedef struct world {
    fedclient_http1 h;
    fed_writer answer;
    size_t used;
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_writer_growing(&w->answer);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_writer_free(&w->answer);
    free(w);
    return 0;
}

static fed_status feed(world *w, const char *text, size_t len, size_t step) {
    w->answer.len = w->used = 0;
    fedclient_http1_begin(&w->h, &w->answer, 100);
    while (w->used < len && w->h.state != FEDCLIENT_HTTP1_DONE) {
        char piece[64];
        size_t used = 0;
        const size_t left = len - w->used, take = left < step ? left : step;
        memcpy(piece, text + w->used, take);
        FED_TRY(fedclient_http1_take(&w->h, piece, take, &used));
        w->used += used;
    }
    return FED_OK;
}

static fed_status read_text(world *w, const char *text) {
    const size_t len = strlen(text);
    const fed_status slow = feed(w, text, len, 1);
    const fedclient_http1 first = w->h;
    const size_t first_len = w->answer.len;
    const fed_status quick = feed(w, text, len, 64);
    assert_int_equal(slow, quick);
    assert_int_equal(first.state, w->h.state);
    assert_int_equal(first.status, w->h.status);
    assert_true(slow != FED_OK || first_len == w->answer.len);
    return quick;
}

static void assert_answer(world *w, const char *text, int status, const char *body) {
    assert_fed_ok(read_text(w, text));
    assert_int_equal(w->h.state, FEDCLIENT_HTTP1_DONE);
    assert_int_equal(w->h.status, status);
    assert_int_equal(w->answer.len, strlen(body));
    assert_memory_equal(w->answer.data != NULL ? (const char *)w->answer.data : "", body,
                        strlen(body));
}

#define OK "HTTP/1.1 200 OK\r\n"

FED_TEST_WITH(a_body_is_as_long_as_it_says, world *w) {
    static const char text[] = OK "content-LENGTH:  5 \r\n\r\nhelloNEXT";
    assert_answer(w, text, 200, "hello");
    assert_int_equal(w->used, sizeof text - 1 - 4);
    assert_true(w->h.keep);
    assert_answer(w, OK "Content-Length: 0\r\n\r\n", 200, "");
    assert_answer(w, "HTTP/1.1 404 \r\nContent-Length: 1\r\n\r\nx", 404, "x");
    assert_answer(w, "HTTP/1.1 500\r\nContent-Length: 1\r\n\r\nx", 500, "x");
}

FED_TEST_WITH(chunks_are_joined, world *w) {
    static const char text[] = OK "Transfer-Encoding: Chunked\r\n\r\n"
                                  "3\r\nhel\r\n00002;name=\"value\"\r\nlo\r\n0\r\n"
                                  "Trailer: yes\r\nContent-Length: 7\r\n\r\n";
    assert_answer(w, text, 200, "hello");
    assert_int_equal(w->used, sizeof text - 1);
    assert_true(w->h.keep);
}

FED_TEST_WITH(some_answers_have_no_body, world *w) {
    assert_answer(w, "HTTP/1.1 204 Nothing\r\n\r\n", 204, "");
    assert_answer(w, "HTTP/1.1 304 Not modified\r\nContent-Length: 9\r\n\r\n", 304, "");
}

FED_TEST_WITH(without_a_length_the_end_is_the_connections, world *w) {
    assert_fed_ok(read_text(w, OK "\r\nhello"));
    assert_int_equal(w->h.state, FEDCLIENT_HTTP1_BODY_TO_END);
    assert_false(w->h.keep);
    assert_fed_ok(fedclient_http1_end(&w->h));
    assert_int_equal(w->h.state, FEDCLIENT_HTTP1_DONE);
    assert_int_equal(w->answer.len, 5);
}

FED_TEST_WITH(a_connection_may_end_before_the_answer, world *w) {
    static const char *const texts[] = {"", "HTTP/1", OK, OK "Content-Length: 5\r\n\r\nhell",
                                        OK "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        assert_fed_ok(read_text(w, texts[k]));
        assert_fed_status(fedclient_http1_end(&w->h), FED_EFORMAT);
        assert_non_null(strstr(w->h.problem, "ended"));
    }
}

FED_TEST_WITH(interim_answers_go_before_the_answer, world *w) {
    assert_fed_ok(read_text(w, "HTTP/1.1 100 Continue\r\n\r\n"));
    assert_true(w->h.continued && w->h.status == 0);
    assert_answer(w,
                  "HTTP/1.1 100 Continue\r\nRetry-After: 9\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n"
                  "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
                  200, "x");
    assert_int_equal(w->h.retry_after_s, 0);
}

FED_TEST_WITH(a_connection_is_kept_unless_it_says_no, world *w) {
    static const struct {
        const char *text;
        bool keep;
    } cases[] = {{OK "Connection: keep-alive\r\nContent-Length: 0\r\n\r\n", true},
                 {OK "Connection: close\r\nContent-Length: 0\r\n\r\n", false},
                 {OK "Connection: x,\tCLOSE\r\nContent-Length: 0\r\n\r\n", false},
                 {OK "Connection: closed\r\nContent-Length: 0\r\n\r\n", true},
                 {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        assert_answer(w, cases[k].text, 200, "");
        assert_int_equal(w->h.keep, cases[k].keep);
    }
}

FED_TEST_WITH(what_a_download_needs_is_read, world *w) {
    assert_answer(w, OK "ETag: \"0123456789abcdef\"\r\nContent-Length: 2\r\n\r\nxy", 200, "xy");
    assert_true(w->h.tag == 0x0123456789ABCDEF && w->h.begin == 0 && w->h.total == 2);
    assert_answer(w,
                  "HTTP/1.1 206 Part\r\nContent-Range: bytes 5-6/20\r\nContent-Length: 2\r\n\r\nxy",
                  206, "xy");
    assert_true(w->h.begin == 5 && w->h.total == 20);
    assert_answer(w,
                  "HTTP/1.1 206 Part\r\nContent-Range: bytes 5-6/*\r\nContent-Length: 2\r\n\r\nxy",
                  206, "xy");
    assert_true(w->h.begin == 5 && w->h.total == 0);
    assert_answer(w, "HTTP/1.1 429 No\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n", 429, "");
    assert_int_equal(w->h.retry_after_s, 30);
    assert_answer(w, "HTTP/1.1 503 No\r\nRetry-After: 99999999999\r\nContent-Length: 0\r\n\r\n",
                  503, "");
    assert_int_equal(w->h.retry_after_s, UINT32_MAX);
}

FED_TEST_WITH(what_says_less_than_it_should_is_passed_over, world *w) {
    static const char *const lines[] = {"ETag: \"0123456789ABCDEF\"",
                                        "ETag: W/\"0123456789abcdef\"",
                                        "ETag: \"0123\"",
                                        "ETag: ",
                                        "Content-Range: bytes 5-6",
                                        "Content-Range: lines 5-6/20",
                                        "Content-Range: bytes x-6/20",
                                        "Content-Range: bytes 5-6/20x",
                                        "Retry-After: tomorrow",
                                        "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT"};
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
        char text[200];
        snprintf(text, sizeof text, "HTTP/1.1 206 Part\r\n%s\r\nContent-Length: 1\r\n\r\nx",
                 lines[k]);
        assert_answer(w, text, 206, "x");
        assert_true(w->h.tag == 0 && w->h.begin == 0 && w->h.total == 0);
        assert_int_equal(w->h.retry_after_s, 0);
    }
}

FED_TEST_WITH(what_could_be_read_in_two_ways_is_refused, world *w) {
    static const struct {
        const char *text, *problem;
    } cases[] = {{OK "Content-Length: 5\r\nContent-Length: 5\r\n", "twice"},
                 {OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "twice"},
                 {OK "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "twice"},
                 {OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "twice"},
                 {OK "Transfer-Encoding: gzip, chunked\r\n", "another than chunked"},
                 {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n", "another than chunked"},
                 {OK "Content-Length: 5, 5\r\n", "not a number"},
                 {OK "Content-Length: +5\r\n", "not a number"},
                 {OK "Content-Length: -5\r\n", "not a number"},
                 {OK "Content-Length: 0x5\r\n", "not a number"},
                 {OK "Content-Length:\r\n", "not a number"},
                 {OK "Content-Length: 99999999999999999999\r\n", "not a number"},
                 {OK "Content-Length : 5\r\n", "name: value"},
                 {OK " Content-Length: 5\r\n", "name: value"},
                 {OK "A: b\r\n folded\r\n", "name: value"},
                 {OK "A: b\r\n\tfolded\r\n", "name: value"},
                 {OK "no colon\r\n", "name: value"},
                 {OK ": nameless\r\n", "name: value"},
                 {OK "A: b\n", "CR and LF"},
                 {"HTTP/1.1 200 OK\n", "CR and LF"},
                 {OK "A: b\rc\r\n", "CR and LF"},
                 {OK "A: b\r\r\n", "CR and LF"},
                 {OK "A: \x01\r\n", "control character"},
                 {OK "A: \x7F\r\n", "control character"},
                 {"HTTP/1.1 99 No\r\n", "does not begin with"},
                 {"HTTP/1.1 2000 No\r\n", "does not begin with"},
                 {"HTTP/1.1 20x No\r\n", "does not begin with"},
                 {"HTTP/1.1  200 OK\r\n", "does not begin with"},
                 {"HTTP/2 200 OK\r\n", "does not begin with"},
                 {"http/1.1 200 OK\r\n", "does not begin with"},
                 {"HTTP/1.12 200 OK\r\n", "does not begin with"},
                 {"\r\n" OK, "does not begin with"},
                 {"HTTP/1.1 101 Switching\r\n\r\n", "did not ask for"},
                 {"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", "did not ask for"},
                 {OK "Transfer-Encoding: chunked\r\n\r\nx\r\n", "without a size"},
                 {OK "Transfer-Encoding: chunked\r\n\r\n\r\n", "without a size"},
                 {OK "Transfer-Encoding: chunked\r\n\r\n5 \r\n", "without a size"},
                 {OK "Transfer-Encoding: chunked\r\n\r\n0x5\r\n", "without a size"},
                 {OK "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", "without a size"},
                 {OK "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n", "longer than its size"},
                 {OK "Transfer-Encoding: chunked\r\n\r\n0\r\n folded\r\n", "name: value"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        if (read_text(w, cases[k].text) != FED_EFORMAT) {
            fail_msg("a wrong answer was not refused: %s", cases[k].text);
        }
        if (strstr(w->h.problem, cases[k].problem) == NULL) {
            fail_msg("%s: %s", cases[k].text, w->h.problem);
        }
    }
}

FED_TEST_WITH(a_byte_that_is_none_of_a_text_is_refused, world *w) {
    static const char text[] = OK "A: b\0c\r\n";
    assert_fed_status(feed(w, text, sizeof text - 1, 64), FED_EFORMAT);
    static const char status[] = "HTTP/1.1 200\0OK\r\n";
    assert_fed_status(feed(w, status, sizeof status - 1, 64), FED_EFORMAT);
}

/* Parse a head of lines "A: xxx" with `line` bytes each, as many as fit into `total` bytes, and
 * then `last`. */
static fed_status read_head(world *w, size_t line, size_t total, const char *last) {
    fed_writer text;
    fed_writer_growing(&text);
    fed_write_printf(&text, "HTTP/1.1 200 OK\r\n");
    while (text.len + line <= total) {
        fed_write_printf(&text, "A: ");
        for (size_t k = 0; k < line - 5; k++) {
            fed_write_u8(&text, 'x');
        }
        fed_write_printf(&text, "\r\n");
    }
    fed_write_printf(&text, "%s\r\n", last);
    fed_status status = feed(w, (const char *)text.data, text.len, 64);
    fed_writer_free(&text);
    return status;
}

FED_TEST_WITH(a_head_may_be_long_but_has_an_end, world *w) {
    static const char length[] = "Content-Length: 0\r\n";
    assert_fed_ok(read_head(w, 5000, 15500, length));
    assert_int_equal(w->h.state, FEDCLIENT_HTTP1_DONE);
    assert_fed_ok(read_head(w, 10, 16000, length));
    assert_int_equal(w->h.state, FEDCLIENT_HTTP1_DONE);
    assert_fed_status(read_head(w, 10, 17000, length), FED_EFORMAT);
    assert_non_null(strstr(w->h.problem, "longer than 16384"));
    assert_fed_status(read_head(w, 17000, 18000, length), FED_EFORMAT);
}

FED_TEST_WITH(a_header_that_matters_is_not_cut, world *w) {
    char text[400];
    snprintf(text, sizeof text, OK "Content-Length: %0300d\r\n\r\n", 5);
    assert_fed_status(read_text(w, text), FED_EFORMAT);
    assert_non_null(strstr(w->h.problem, "longer than a line"));
}

FED_TEST_WITH(many_chunks_are_no_long_head, world *w) {
    static const char head[] = OK "Transfer-Encoding: chunked\r\n\r\n";
    size_t used = 0;
    fed_writer_free(&w->answer);
    fedclient_http1_begin(&w->h, &w->answer, 100000);
    assert_fed_ok(fedclient_http1_take(&w->h, head, sizeof head - 1, &used));
    for (int k = 0; k < 10000; k++) {
        assert_fed_ok(fedclient_http1_take(&w->h, "1\r\nx\r\n", 6, &used));
    }
    assert_fed_ok(fedclient_http1_take(&w->h, "0\r\n\r\n", 5, &used));
    assert_int_equal(w->h.state, FEDCLIENT_HTTP1_DONE);
    assert_int_equal(w->answer.len, 10000);
}

FED_TEST_WITH(an_answer_has_its_limit, world *w) {
    static const char *const texts[] = {
        OK "Content-Length: 101\r\n\r\nx", OK "Transfer-Encoding: chunked\r\n\r\n65\r\nx",
        OK "Content-Length: 9223372036854775807\r\n\r\nx",
        OK "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\nx"};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        assert_fed_status(read_text(w, texts[k]), FED_ERANGE);
        assert_int_equal(w->answer.len, 0);
    }
    char endless[sizeof OK + 2 + 101] = OK "\r\n";
    memset(endless + sizeof OK + 1, 'x', 101);
    assert_fed_status(read_text(w, endless), FED_ERANGE);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}

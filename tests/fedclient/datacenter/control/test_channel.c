/* The control connection between failure detector and member: both sides prove that they know
 * the secret, and nobody can change or repeat a record. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include "fed_cases.h"
#include "fedclient/datacenter/control/channel.h"

enum { MOST = 1000 };

static const uint8_t right[FEDDC_SECRET] = {1, 2, 3}, wrong[FEDDC_SECRET] = {1, 2, 4};

/* Two channels, and the test in between, which may change the bytes. */
typedef struct line {
    feddc_channel detector, member;
    int to_detector, to_member;
} line;

static void open_line(line *l, const uint8_t *member_secret) {
    fed_error err = {0};
    int a[2], b[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    l->to_detector = a[1];
    l->to_member = b[1];
    assert_fed_ok_err(feddc_channel_open(&l->detector, a[0], true, right, MOST, &err));
    assert_fed_ok_err(feddc_channel_open(&l->member, b[0], false, member_secret, MOST, &err));
}

static void close_line(line *l) {
    feddc_channel_close(&l->detector);
    feddc_channel_close(&l->member);
    close(l->to_detector);
    close(l->to_member);
}

static size_t carry(int from, int to, uint8_t *copy, size_t cap) {
    ssize_t n = recv(from, copy, cap, MSG_DONTWAIT);
    size_t len = n > 0 ? (size_t)n : 0;
    if (len > 0) {
        assert_int_equal(send(to, copy, len, MSG_NOSIGNAL), len);
    }
    return len;
}

static void open_proven(line *l) {
    uint8_t copy[4096];
    fed_error err = {0};
    open_line(l, right);
    for (int k = 0; k < 3; k++) {
        (void)carry(l->to_detector, l->to_member, copy, sizeof copy);
        assert_fed_ok_err(feddc_channel_pump(&l->member, &err));
        (void)carry(l->to_member, l->to_detector, copy, sizeof copy);
        assert_fed_ok_err(feddc_channel_pump(&l->detector, &err));
    }
    assert_true(l->detector.proven);
    assert_true(l->member.proven);
}

static void assert_takes(feddc_channel *c, const char *text) {
    fed_error err = {0};
    const uint8_t *body = NULL;
    size_t len = 0;
    assert_fed_ok_err(feddc_channel_pump(c, &err));
    assert_fed_ok_err(feddc_channel_next(c, &body, &len, &err));
    assert_int_equal(len, strlen(text));
    if (len > 0) {
        assert_memory_equal(body, text, len);
    }
}

static void assert_refuses(feddc_channel *c, fed_status wanted) {
    fed_error err = {0};
    const uint8_t *body = NULL;
    size_t len = 0;
    assert_fed_ok_err(feddc_channel_pump(c, &err));
    assert_fed_status(feddc_channel_next(c, &body, &len, &err), wanted);
}

static void say(feddc_channel *c, const char *text) {
    fed_error err = {0};
    assert_fed_ok_err(feddc_channel_send(c, (const uint8_t *)text, strlen(text), &err));
}

FED_TEST(records_pass_both_ways_in_order) {
    line l;
    uint8_t copy[4096];
    open_proven(&l);
    say(&l.member, "one");
    say(&l.member, "two");
    say(&l.detector, "three");
    (void)carry(l.to_member, l.to_detector, copy, sizeof copy);
    (void)carry(l.to_detector, l.to_member, copy, sizeof copy);
    assert_takes(&l.detector, "one");
    assert_takes(&l.detector, "two");
    assert_takes(&l.detector, "");
    assert_takes(&l.member, "three");
    close_line(&l);
}

FED_TEST(records_that_come_byte_by_byte_are_whole_at_the_end) {
    line l;
    uint8_t copy[64];
    open_proven(&l);
    say(&l.member, "slow");
    for (int k = 0; k < 4 + 4 + FEDDC_MAC - 1; k++) {
        assert_int_equal(carry(l.to_member, l.to_detector, copy, 1), 1);
        assert_takes(&l.detector, "");
    }
    assert_int_equal(carry(l.to_member, l.to_detector, copy, 1), 1);
    assert_takes(&l.detector, "slow");
    close_line(&l);
}

FED_TEST(the_detector_refuses_another_secret) {
    line l;
    uint8_t copy[4096];
    fed_error err = {0};
    open_line(&l, wrong);
    (void)carry(l.to_detector, l.to_member, copy, sizeof copy);
    assert_fed_ok_err(feddc_channel_pump(&l.member, &err));
    (void)carry(l.to_member, l.to_detector, copy, sizeof copy);
    assert_fed_status(feddc_channel_pump(&l.detector, &err), FED_EAUTH);
    assert_false(l.detector.proven);
    assert_int_equal(carry(l.to_detector, l.to_member, copy, sizeof copy), 0);
    close_line(&l);
}

FED_TEST(a_member_refuses_a_detector_without_the_secret) {
    line l;
    uint8_t copy[4096];
    fed_error err = {0};
    open_line(&l, right);
    size_t hello = carry(l.to_detector, l.to_member, copy, sizeof copy);
    assert_int_equal(hello, 8 + FEDDC_KEY);
    assert_fed_ok_err(feddc_channel_pump(&l.member, &err));
    assert_int_equal(recv(l.to_member, copy, sizeof copy, 0), 2 * FEDDC_KEY);
    /* An attacker without the secret sends the member's own proof back to it. */
    assert_int_equal(send(l.to_member, copy + FEDDC_KEY, FEDDC_KEY, 0), FEDDC_KEY);
    assert_fed_status(feddc_channel_pump(&l.member, &err), FED_EAUTH);
    assert_false(l.member.proven);
    close_line(&l);
}

FED_TEST(who_greets_otherwise_is_no_detector) {
    line l;
    fed_error err = {0};
    open_line(&l, right);
    static const char page[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    assert_int_equal(send(l.to_member, page, sizeof page, 0), sizeof page);
    assert_fed_status(feddc_channel_pump(&l.member, &err), FED_EFORMAT);
    assert_fed_says(err, "no failure detector");
    close_line(&l);
}

FED_TEST(each_changed_bit_is_noticed) {
    for (size_t bit = 0; bit < 8 * (4 + 5 + FEDDC_MAC); bit++) {
        line l;
        uint8_t record[4 + 5 + FEDDC_MAC];
        fed_error err = {0};
        const uint8_t *body = NULL;
        size_t len = 0;
        open_proven(&l);
        say(&l.member, "hello");
        assert_int_equal(recv(l.to_member, record, sizeof record, 0), sizeof record);
        record[bit / 8] = (uint8_t)(record[bit / 8] ^ 1U << bit % 8);
        assert_int_equal(send(l.to_detector, record, sizeof record, 0), sizeof record);
        assert_fed_ok_err(feddc_channel_pump(&l.detector, &err));
        (void)!feddc_channel_next(&l.detector, &body, &len, &err);
        assert_null(body);
        close_line(&l);
    }
}

FED_TEST(a_repeated_record_is_refused) {
    line l;
    uint8_t copy[4096];
    open_proven(&l);
    say(&l.member, "again");
    size_t n = carry(l.to_member, l.to_detector, copy, sizeof copy);
    assert_takes(&l.detector, "again");
    assert_int_equal(send(l.to_detector, copy, n, 0), n);
    assert_refuses(&l.detector, FED_EAUTH);
    close_line(&l);
}

FED_TEST(a_record_sent_back_is_refused) {
    line l;
    uint8_t copy[4096];
    open_proven(&l);
    say(&l.member, "echo");
    (void)carry(l.to_member, l.to_member, copy, sizeof copy);
    assert_refuses(&l.member, FED_EAUTH);
    close_line(&l);
}

FED_TEST(a_record_that_is_too_long_is_refused_at_its_head) {
    line l;
    open_proven(&l);
    static const uint8_t head[4] = {0xff, 0xff, 0xff, 0x7f};
    assert_int_equal(send(l.to_detector, head, sizeof head, 0), sizeof head);
    assert_refuses(&l.detector, FED_EFORMAT);
    close_line(&l);
}

FED_TEST(a_flood_before_the_proof_is_not_kept) {
    line l;
    uint8_t flood[64 * 1024] = {0};
    fed_error err = {0};
    open_line(&l, right);
    assert_true(send(l.to_detector, flood, sizeof flood, MSG_DONTWAIT) > 1000);
    assert_fed_status(feddc_channel_pump(&l.detector, &err), FED_EAUTH);
    assert_true(l.detector.in.len <= 2 * FEDDC_KEY);
    close_line(&l);
}

FED_TEST(a_peer_that_does_not_read_is_given_up) {
    line l;
    fed_error err = {0};
    static uint8_t block[MOST];
    open_proven(&l);
    fed_status status = FED_OK;
    for (int k = 0; k < 4096 && status == FED_OK; k++) {
        status = feddc_channel_send(&l.detector, block, sizeof block, &err);
    }
    assert_fed_status(status, FED_ENOSPC);
    assert_true(feddc_channel_waits(&l.detector));
    close_line(&l);
}

FED_TEST(both_sides_mask_alike_and_other_sessions_do_not) {
    line l, other;
    uint8_t masked[FEDDC_SECRET], plain[FEDDC_SECRET], next[FEDDC_SECRET];
    open_proven(&l);
    open_proven(&other);
    feddc_channel_mask(&l.detector, 3, right, masked);
    assert_memory_not_equal(masked, right, sizeof masked);
    feddc_channel_mask(&l.member, 3, masked, plain);
    assert_memory_equal(plain, right, sizeof plain);
    feddc_channel_mask(&l.member, 4, masked, next);
    assert_memory_not_equal(next, right, sizeof next);
    feddc_channel_mask(&other.member, 3, masked, plain);
    assert_memory_not_equal(plain, right, sizeof plain);
    close_line(&l);
    close_line(&other);
}

/* The handshake and the records of the link "tcp": only who knows the secret is accepted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fedclient/datacenter/links/tcp/tcp_wire.h"

static const uint8_t secret[FEDDC_SECRET] = {1, 2, 3}, other[FEDDC_SECRET] = {1, 2, 4};
static const uint8_t challenge[TCP_NONCE] = {7}, stale[TCP_NONCE] = {8};

static tcp_hello who(uint32_t from, uint32_t to) {
    return (tcp_hello){
        .from = from, .to = to, .size = 4, .generation = 9, .order = feddc_tcp_order()};
}

FED_TEST(a_hello_is_read_with_the_same_secret_and_challenge_only) {
    tcp_hello hello = who(3, 1), back;
    uint8_t bytes[TCP_HELLO];
    feddc_tcp_hello_write(&hello, secret, challenge, bytes);
    assert_fed_ok(feddc_tcp_hello_read(bytes, secret, challenge, &back));
    assert_memory_equal(&hello, &back, sizeof hello);
    assert_fed_status(feddc_tcp_hello_read(bytes, other, challenge, &back), FED_EAUTH);
    assert_fed_status(feddc_tcp_hello_read(bytes, secret, stale, &back), FED_EAUTH);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 0x10;
        assert_fed_status(feddc_tcp_hello_read(bytes, secret, challenge, &back), FED_EAUTH);
        bytes[i] ^= 0x10;
    }
}

FED_TEST(a_welcome_answers_one_hello) {
    tcp_hello hello = who(3, 1), welcome = who(1, TCP_WELCOME_HERE), back;
    uint8_t asked[TCP_HELLO], bytes[TCP_WELCOME];
    feddc_tcp_hello_write(&hello, secret, challenge, asked);
    feddc_tcp_welcome_write(&welcome, secret, challenge, asked, bytes);
    assert_fed_ok(feddc_tcp_welcome_read(bytes, secret, challenge, asked, &back));
    assert_int_equal(back.from, 1);
    assert_int_equal(back.to, TCP_WELCOME_HERE);
    assert_fed_status(feddc_tcp_welcome_read(bytes, other, challenge, asked, &back), FED_EAUTH);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 0x80;
        assert_fed_status(feddc_tcp_welcome_read(bytes, secret, challenge, asked, &back),
                          FED_EAUTH);
        bytes[i] ^= 0x80;
    }
    hello.nonce[5] = 1;
    feddc_tcp_hello_write(&hello, secret, challenge, asked);
    assert_fed_status(feddc_tcp_welcome_read(bytes, secret, challenge, asked, &back), FED_EAUTH);
}

static void assert_verdict(tcp_hello hello, tcp_verdict wanted) {
    const tcp_hello me = who(1, 0);
    assert_int_equal(feddc_tcp_judge(&me, &hello), wanted);
    assert_non_null(feddc_tcp_verdict_text(wanted));
}

FED_TEST(whoever_does_not_belong_here_is_told_why) {
    tcp_hello hello = who(3, 1);
    assert_verdict(hello, TCP_WELCOME_HERE);
    hello.generation++;
    assert_verdict(hello, TCP_OTHER_GENERATION);
    hello = who(3, 1);
    hello.size = 5;
    assert_verdict(hello, TCP_OTHER_SIZE);
    hello = who(3, 1);
    hello.order = 3 - hello.order;
    assert_verdict(hello, TCP_OTHER_BYTE_ORDER);
    assert_verdict(who(3, 2), TCP_WRONG_RANK);
    assert_verdict(who(1, 1), TCP_WRONG_RANK);
    assert_verdict(who(0, 1), TCP_WRONG_RANK); /* a lower rank never connects to a higher one */
    assert_verdict(who(4, 1), TCP_WRONG_RANK);
    assert_verdict(who(UINT32_MAX, 1), TCP_WRONG_RANK);
    assert_non_null(feddc_tcp_verdict_text(UINT32_MAX));
}

FED_TEST(a_ticket_is_floats_that_pass_a_nic_that_rounds) {
    tcp_hello hello = who(3, 1);
    uint8_t asked[TCP_HELLO], ticket[TCP_TICKET], second[TCP_TICKET];
    feddc_tcp_hello_write(&hello, secret, challenge, asked);
    feddc_tcp_ticket(secret, challenge, asked, ticket);
    for (size_t i = 0; i < sizeof ticket; i += 4) {
        float value;
        memcpy(&value, ticket + i, sizeof value);
        assert_true(value >= 16 && value <= 31 && value == (float)(int)value);
    }
    assert_true(feddc_tcp_is_ticket(ticket));
    assert_false(feddc_tcp_is_ticket(feddc_tcp_knock));
    feddc_tcp_ticket(other, challenge, asked, second);
    assert_memory_not_equal(ticket, second, sizeof ticket);
}

FED_TEST(a_record_is_read_as_it_was_written) {
    const tcp_record record = {
        .type = TCP_FLOATS,
        .head = {.kind = 1, .flags = 0xFE, .part = 3, .bucket = 4, .step = 5},
        .len = TCP_MESSAGE_MAX};
    tcp_record back = {0};
    uint8_t bytes[TCP_RECORD];
    feddc_tcp_record_write(&record, bytes);
    assert_fed_ok(feddc_tcp_record_read(bytes, &back));
    assert_int_equal(back.type, TCP_FLOATS);
    assert_int_equal(back.head.kind, 1);
    assert_int_equal(back.head.flags, 0xFE);
    assert_int_equal(back.head.part, 3);
    assert_int_equal(back.head.bucket, 4);
    assert_int_equal(back.head.step, 5);
    assert_int_equal(back.len, TCP_MESSAGE_MAX);
}

static void assert_no_record(uint8_t type, uint32_t len, size_t at, uint8_t value) {
    const tcp_record record = {.type = type, .len = len};
    tcp_record back = {.len = 77};
    uint8_t bytes[TCP_RECORD];
    feddc_tcp_record_write(&record, bytes);
    bytes[at] |= value;
    assert_fed_status(feddc_tcp_record_read(bytes, &back), FED_EFORMAT);
    assert_int_equal(back.len, 77);
}

FED_TEST(what_no_rank_writes_is_no_record) {
    assert_no_record(0, 0, 0, 0);
    assert_no_record(TCP_GOODBYE + 1, 0, 0, 0);
    assert_no_record(TCP_INLINE, TCP_MESSAGE_MAX + 1, 0, 0);
    assert_no_record(TCP_FLOATS, 0, 0, 0);
    assert_no_record(TCP_FLOATS, 6, 0, 0);
    assert_no_record(TCP_GOODBYE, 1, 0, 0);
    assert_no_record(TCP_READY, 4, 0, 0);
    assert_no_record(TCP_INLINE, 4, 3, 1); /* reserved bytes must be 0 */
    assert_no_record(TCP_INLINE, 4, 7, 1);
}

/* The report's text of a card that has seen a connection. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"
#include "fedclient/datacenter/nic/packet/card_report.h"

static void forget(void *user, const fednic_frame *frame) {
    (void)user;
    (void)frame;
}

/* A marked SYN of port `port`, with a right checksum of IPv4. */
static void take_syn(fednic_card *card, uint16_t port, int64_t now_ms) {
    uint8_t bytes[14 + 20 + 20] = {1,    2,
                                   3,    4,
                                   5,    6,
                                   7,    8,
                                   9,    10,
                                   11,   12,
                                   8,    0, /* Ethernet */
                                   0x45, FEDNIC_MARKED,
                                   0,    40,
                                   0,    0,
                                   0x40, 0,
                                   64,   6,
                                   0,    0,
                                   10,   78,
                                   0,    1,
                                   10,   78,
                                   0,    2,
                                   0,    0,
                                   0,    80,
                                   0,    0,
                                   0,    5,
                                   0,    0,
                                   0,    0,
                                   0x50, 2,
                                   1,    0,
                                   0,    0,
                                   0,    0};
    uint32_t sum = 0;
    bytes[34] = (uint8_t)(port >> 8);
    bytes[35] = (uint8_t)port;
    for (size_t k = 14; k < 34; k += 2) {
        sum += (uint32_t)(bytes[k] << 8 | bytes[k + 1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    bytes[24] = (uint8_t)(sum >> 8);
    bytes[25] = (uint8_t)sum;
    const fednic_frame frame = {.data = bytes, .len = sizeof bytes};
    fednic_card_take(card, FEDNIC_HOST, &frame, now_ms, forget, NULL);
}

static const char *report(const fednic_card *card, fednic_format format, fed_writer *text) {
    const fednic_options options = {.tun = "nic0", .wire = "eth0", .e = 10};
    const fednic_report r = {.options = &options,
                             .card = card,
                             .line = {.refused = 3, .missed = 4, .waits = 5},
                             .unwanted = 6,
                             .begun_ms = 1000,
                             .now_ms = 8000};
    fed_writer_growing(text);
    fednic_report_write(&r, format, text);
    assert_fed_status(text->status, FED_OK);
    return (const char *)text->data;
}

static fednic_card *card_of(unsigned connections) {
    const fednic_card_options options = {.e = 10};
    fednic_card *card = NULL;
    fed_error err = {0};
    assert_fed_ok_err(fednic_card_new(&options, &card, &err));
    for (unsigned k = 0; k < connections; k++) {
        take_syn(card, (uint16_t)(5000 + k), 2000 + (int64_t)k);
    }
    return card;
}

static void a_table(void **state) {
    (void)state;
    fed_writer text;
    fednic_card *card = card_of(1);
    const char *said = report(card, FEDNIC_TABLE, &text);
    assert_non_null(strstr(said, "nic0 is a card on eth0 for 7 s, bound 2^-10\n"));
    assert_non_null(strstr(said, "the line was full 5 times"));
    assert_non_null(strstr(said, "3 by the line, 4 by this program, 6 by the host"));
    assert_non_null(strstr(said, "1 marked connections\n"));
    assert_non_null(strstr(said, "10.78.0.1:5000            10.78.0.2:80              ours"));
    fed_writer_free(&text);
    fednic_card_free(card);
}

static void prometheus(void **state) {
    (void)state;
    fed_writer text;
    fednic_card *card = card_of(2);
    const char *said = report(card, FEDNIC_PROMETHEUS, &text);
    assert_non_null(strstr(said, "# TYPE fednic_frames_total counter\n"));
    assert_non_null(strstr(said, "fednic_frames_total{tun=\"nic0\",side=\"sent\"} 2\n"));
    assert_non_null(strstr(said, "fednic_frames_total{tun=\"nic0\",side=\"received\"} 0\n"));
    assert_non_null(strstr(said, "fednic_lost_frames_total{tun=\"nic0\",by=\"program\"} 4\n"));
    assert_non_null(strstr(said, "fednic_flows{tun=\"nic0\"} 2\n"));
    assert_non_null(strstr(said,
                           "fednic_flow_plain_bytes_total{tun=\"nic0\",host=\"10.78.0.1:5001\","
                           "peer=\"10.78.0.2:80\",side=\"sent\"} 0\n"));
    fed_writer_free(&text);
    fednic_card_free(card);
}

/* Of many connections the report has those that were used last. */
static void many(void **state) {
    (void)state;
    fed_writer text;
    fednic_card *card = card_of(FEDNIC_SHOWN + 50);
    const char *said = report(card, FEDNIC_TABLE, &text);
    assert_non_null(strstr(said, "150 marked connections; these were used last:\n"));
    assert_non_null(strstr(said, "10.78.0.1:5149 "));
    assert_non_null(strstr(said, "10.78.0.1:5050 "));
    assert_null(strstr(said, "10.78.0.1:5049 "));
    fed_writer_free(&text);
    fednic_card_free(card);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table),
        cmocka_unit_test(prometheus),
        cmocka_unit_test(many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The report's text of a NIC that has seen a connection. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fedclient/datacenter/nic/packet/nic_report.h"
#include "nic_frames.h"

static void forget(void *user, const fednic_frame *frame) {
    (void)user;
    (void)frame;
}

static void take_syn(fednic_nic *nic, unsigned k, int64_t now_ms) {
    uint8_t memory[FRAME_ROOM];
    const nic_shape shape = {
        .family = 4, .tos = FEDNIC_MARKED, .flags = SEG_SYN, .port = (uint16_t)k};
    const fednic_frame frame = nic_frame(&shape, NULL, 0, memory);
    fednic_nic_take(nic, FEDNIC_HOST, &frame, now_ms, forget, NULL);
}

static const char *report(const fednic_nic *nic, fednic_format format, fed_writer *text) {
    const fednic_options options = {.tun = "nic0", .wire = "eth0", .e = 10};
    const fednic_report r = {.options = &options,
                             .nic = nic,
                             .line = {.refused = 3, .missed = 4, .waits = 5},
                             .unwanted = 6,
                             .begun_ms = 1000,
                             .now_ms = 8000};
    fed_writer_growing(text);
    fednic_report_write(&r, format, text);
    assert_fed_status(text->status, FED_OK);
    return (const char *)text->data;
}

static fednic_nic *nic_of(unsigned connections) {
    const fednic_nic_options options = {.e = 10};
    fednic_nic *nic = NULL;
    fed_error err = {0};
    assert_fed_ok_err(fednic_nic_new(&options, &nic, &err));
    for (unsigned k = 0; k < connections; k++) {
        take_syn(nic, k, 2000 + (int64_t)k);
    }
    return nic;
}

FED_TEST(a_table) {
    fed_writer text;
    fednic_nic *nic = nic_of(1);
    const char *said = report(nic, FEDNIC_TABLE, &text);
    assert_non_null(strstr(said, "nic0 is a NIC on eth0 for 7 s, bound 2^-10\n"));
    assert_non_null(strstr(said, "the line was full 5 times"));
    assert_non_null(strstr(said, "3 by the line, 4 by this program, 6 by the host"));
    assert_non_null(strstr(said, "1 marked connections\n"));
    assert_non_null(strstr(said, "10.0.0.1:40000            10.0.0.2:7000             ours"));
    fed_writer_free(&text);
    fednic_nic_free(nic);
}

FED_TEST(prometheus) {
    fed_writer text;
    fednic_nic *nic = nic_of(2);
    const char *said = report(nic, FEDNIC_PROMETHEUS, &text);
    assert_non_null(strstr(said, "# TYPE fednic_frames_total counter\n"));
    assert_non_null(strstr(said, "fednic_frames_total{tun=\"nic0\",side=\"sent\"} 2\n"));
    assert_non_null(strstr(said, "fednic_frames_total{tun=\"nic0\",side=\"received\"} 0\n"));
    assert_non_null(strstr(said, "fednic_lost_frames_total{tun=\"nic0\",by=\"program\"} 4\n"));
    assert_non_null(strstr(said, "fednic_flows{tun=\"nic0\"} 2\n"));
    assert_non_null(strstr(said,
                           "fednic_flow_plain_bytes_total{tun=\"nic0\",host=\"10.0.0.1:40001\","
                           "peer=\"10.0.0.2:7000\",side=\"sent\"} 0\n"));
    fed_writer_free(&text);
    fednic_nic_free(nic);
}

FED_TEST(many) {
    fed_writer text;
    fednic_nic *nic = nic_of(FEDNIC_SHOWN + 50);
    const char *said = report(nic, FEDNIC_TABLE, &text);
    assert_non_null(strstr(said, "150 marked connections; these were used last:\n"));
    assert_non_null(strstr(said, "10.0.0.1:40149 "));
    assert_non_null(strstr(said, "10.0.0.1:40050 "));
    assert_null(strstr(said, "10.0.0.1:40049 "));
    fed_writer_free(&text);
    fednic_nic_free(nic);
}

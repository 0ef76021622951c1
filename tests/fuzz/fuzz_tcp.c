/* Fuzz the messages that the link "tcp" reads from a peer: hello, welcome, ticket and record. The
 * first byte of an input chooses one of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fedclient/datacenter/links/tcp/tcp_wire.h"

static const uint8_t secret[FEDDC_SECRET] = {1}, challenge[TCP_NONCE] = {2};

static void read_hello(const uint8_t *bytes) {
    const tcp_hello me = {.from = 1, .size = 4, .order = feddc_tcp_order()};
    tcp_hello hello;
    require(feddc_tcp_hello_read(bytes, secret, challenge, &hello) == FED_EAUTH);
    memcpy(&hello, bytes, sizeof hello);
    const tcp_verdict verdict = feddc_tcp_judge(&me, &hello);
    require(verdict != TCP_WELCOME_HERE || (hello.from > 1 && hello.from < 4 && hello.to == 1));
}

static void read_welcome(const uint8_t *bytes) {
    tcp_hello welcome;
    require(feddc_tcp_welcome_read(bytes, secret, challenge, bytes, &welcome) == FED_EAUTH);
    uint32_t verdict;
    memcpy(&verdict, bytes, sizeof verdict);
    require(feddc_tcp_verdict_text(verdict)[0] != '\0');
}

static void read_record(const uint8_t *bytes) {
    tcp_record record;
    uint8_t again[TCP_RECORD];
    if (feddc_tcp_record_read(bytes, &record) == FED_OK) {
        require(record.len <= TCP_MESSAGE_MAX);
        feddc_tcp_record_write(&record, again);
        require(memcmp(bytes, again, TCP_RECORD) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    uint8_t bytes[TCP_TICKET] = {0};
    if (len == 0) {
        return 0;
    }
    memcpy(bytes, data + 1, len - 1 < sizeof bytes ? len - 1 : sizeof bytes);
    switch (data[0] % 4) {
    case 0:
        read_hello(bytes);
        break;
    case 1:
        read_welcome(bytes);
        break;
    case 2:
        (void)feddc_tcp_is_ticket(bytes);
        break;
    default:
        read_record(bytes);
    }
    return 0;
}

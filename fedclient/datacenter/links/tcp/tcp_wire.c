/* Write and read the bytes of link "tcp": the handshake's messages and records. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/links/tcp/tcp_wire.h"

#include <string.h>

#include "fed/bytes.h"
#include "fed/crypto.h"
#include "fed/hash.h"

const uint8_t feddc_tcp_knock[TCP_KNOCK] = "feddc 1";

/* Labels of the MACs, so that the MAC of one kind of message is not valid for another. */
static const char FOR_HELLO[] = "feddc tcp: hello", FOR_WELCOME[] = "feddc tcp: welcome",
                  FOR_TICKET[] = "feddc tcp: ticket";

const char *feddc_tcp_verdict_text(uint32_t verdict) {
    static const char *const text[] = {"it accepts",
                                       "it belongs to a worker group of another size",
                                       "it belongs to another generation of the worker group",
                                       "its machine has another byte order",
                                       "another process is connected as this rank already",
                                       "another rank is at this address"};
    return verdict < sizeof text / sizeof text[0] ? text[verdict] : "it refuses";
}

uint32_t feddc_tcp_order(void) {
    const uint32_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1 ? 1 : 2;
}

static void write_who(fed_writer *w, const tcp_hello *hello) {
    fed_write_u32(w, hello->from);
    fed_write_u32(w, hello->to);
    fed_write_u32(w, hello->size);
    fed_write_u32(w, hello->generation);
    fed_write_u32(w, hello->order);
}

static void read_who(fed_reader *r, tcp_hello *hello) {
    hello->from = fed_read_u32(r);
    hello->to = fed_read_u32(r);
    hello->size = fed_read_u32(r);
    hello->generation = fed_read_u32(r);
    hello->order = fed_read_u32(r);
}

/* mac = HMAC of label, challenge and two more pieces, all of fixed lengths. */
static void prove(const uint8_t *secret, const char *label, const uint8_t *challenge,
                  const uint8_t *first, size_t first_len, const uint8_t *second, size_t second_len,
                  uint8_t mac[TCP_MAC]) {
    uint8_t all[32 + TCP_NONCE + TCP_HELLO + TCP_WELCOME];
    fed_writer w;
    fed_writer_fixed(&w, all, sizeof all);
    fed_write_str(&w, label);
    fed_write_bytes(&w, challenge, TCP_NONCE);
    fed_write_bytes(&w, first, first_len);
    fed_write_bytes(&w, second, second_len);
    fed_hmac_sha256(secret, FEDDC_SECRET, all, w.len, mac);
}

void feddc_tcp_hello_write(const tcp_hello *hello, const uint8_t secret[FEDDC_SECRET],
                           const uint8_t challenge[TCP_NONCE], uint8_t dst[TCP_HELLO]) {
    fed_writer w;
    fed_writer_fixed(&w, dst, TCP_HELLO);
    write_who(&w, hello);
    fed_write_bytes(&w, hello->nonce, TCP_NONCE);
    prove(secret, FOR_HELLO, challenge, dst, TCP_HELLO - TCP_MAC, dst, 0, dst + w.len);
}

fed_status feddc_tcp_hello_read(const uint8_t src[TCP_HELLO], const uint8_t secret[FEDDC_SECRET],
                                const uint8_t challenge[TCP_NONCE], tcp_hello *hello) {
    uint8_t mac[TCP_MAC];
    prove(secret, FOR_HELLO, challenge, src, TCP_HELLO - TCP_MAC, src, 0, mac);
    FED_REQUIRE(fed_secret_compare(mac, src + TCP_HELLO - TCP_MAC, TCP_MAC) == 0, FED_EAUTH);
    fed_reader r;
    fed_reader_init(&r, src, TCP_HELLO - TCP_MAC);
    read_who(&r, hello);
    const uint8_t *nonce = fed_read_bytes(&r, TCP_NONCE);
    FED_REQUIRE(nonce != NULL, FED_EFORMAT);
    memcpy(hello->nonce, nonce, TCP_NONCE);
    return fed_reader_end(&r);
}

tcp_verdict feddc_tcp_judge(const tcp_hello *me, const tcp_hello *hello) {
    if (hello->generation != me->generation) {
        return TCP_OTHER_GENERATION;
    }
    if (hello->size != me->size) {
        return TCP_OTHER_SIZE;
    }
    if (hello->order != me->order) {
        return TCP_OTHER_BYTE_ORDER;
    }
    if (hello->to != me->from || hello->from <= me->from || hello->from >= me->size) {
        return TCP_WRONG_RANK;
    }
    return TCP_WELCOME_HERE;
}

void feddc_tcp_welcome_write(const tcp_hello *welcome, const uint8_t secret[FEDDC_SECRET],
                             const uint8_t challenge[TCP_NONCE], const uint8_t hello[TCP_HELLO],
                             uint8_t dst[TCP_WELCOME]) {
    fed_writer w;
    fed_writer_fixed(&w, dst, TCP_WELCOME);
    write_who(&w, welcome);
    prove(secret, FOR_WELCOME, challenge, hello, TCP_HELLO, dst, w.len, dst + w.len);
}

fed_status feddc_tcp_welcome_read(const uint8_t src[TCP_WELCOME],
                                  const uint8_t secret[FEDDC_SECRET],
                                  const uint8_t challenge[TCP_NONCE],
                                  const uint8_t hello[TCP_HELLO], tcp_hello *welcome) {
    uint8_t mac[TCP_MAC];
    const size_t len = TCP_WELCOME - TCP_MAC;
    prove(secret, FOR_WELCOME, challenge, hello, TCP_HELLO, src, len, mac);
    FED_REQUIRE(fed_secret_compare(mac, src + len, TCP_MAC) == 0, FED_EAUTH);
    fed_reader r;
    fed_reader_init(&r, src, len);
    read_who(&r, welcome);
    return fed_reader_end(&r);
}

void feddc_tcp_ticket(const uint8_t secret[FEDDC_SECRET], const uint8_t challenge[TCP_NONCE],
                      const uint8_t hello[TCP_HELLO], uint8_t dst[TCP_TICKET]) {
    uint8_t mac[TCP_MAC];
    prove(secret, FOR_TICKET, challenge, hello, TCP_HELLO, hello, 0, mac);
    for (size_t i = 0; i < 2 * (size_t)TCP_MAC; i++) {
        const unsigned half = i % 2 == 0 ? mac[i / 2] >> 4 : mac[i / 2] & 15U;
        const float value = (float)(16 + half);
        memcpy(dst + i * sizeof value, &value, sizeof value);
    }
}

bool feddc_tcp_is_ticket(const uint8_t first[TCP_KNOCK]) {
    float value[2];
    memcpy(value, first, sizeof value);
    return value[0] >= 16 && value[0] <= 31 && value[1] >= 16 && value[1] <= 31;
}

void feddc_tcp_record_write(const tcp_record *record, uint8_t dst[TCP_RECORD]) {
    fed_writer w;
    fed_writer_fixed(&w, dst, TCP_RECORD);
    fed_write_u8(&w, record->type);
    fed_write_u8(&w, record->head.kind);
    fed_write_u8(&w, record->head.flags);
    fed_write_u8(&w, 0);
    fed_write_u16(&w, record->head.part);
    fed_write_u16(&w, 0);
    fed_write_u32(&w, record->head.bucket);
    fed_write_u32(&w, record->head.step);
    fed_write_u32(&w, record->len);
}

fed_status feddc_tcp_record_read(const uint8_t src[TCP_RECORD], tcp_record *record) {
    fed_reader r;
    fed_reader_init(&r, src, TCP_RECORD);
    tcp_record read = {.type = fed_read_u8(&r)};
    read.head.kind = fed_read_u8(&r);
    read.head.flags = fed_read_u8(&r);
    unsigned zero = fed_read_u8(&r);
    read.head.part = fed_read_u16(&r);
    zero |= fed_read_u16(&r);
    read.head.bucket = fed_read_u32(&r);
    read.head.step = fed_read_u32(&r);
    read.len = fed_read_u32(&r);
    FED_TRY(fed_reader_end(&r));
    FED_REQUIRE(zero == 0 && read.type >= TCP_INLINE && read.type <= TCP_GOODBYE, FED_EFORMAT);
    FED_REQUIRE(read.len <= TCP_MESSAGE_MAX, FED_EFORMAT);
    FED_REQUIRE(read.type != TCP_FLOATS || (read.len > 0 && read.len % 4 == 0), FED_EFORMAT);
    FED_REQUIRE(read.type < TCP_READY || read.len == 0, FED_EFORMAT);
    *record = read;
    return FED_OK;
}

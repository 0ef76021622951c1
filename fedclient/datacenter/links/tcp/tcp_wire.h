/* The byte formats of link "tcp": the handshake's messages, and records. No sockets. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_TCP_WIRE_H
#define FEDDC_TCP_WIRE_H

#include <stdint.h>

#include "fed/status.h"
#include "feddc/link.h"

/*
 * Two ranks have two connections, one for heads and one for floats. The higher rank opens both.
 *
 * Heads. The caller sends first. A caller that does not know the secret gets only random bytes:
 *
 *     caller                        called
 *     knock                 ->
 *                           <-      challenge: 32 random bytes
 *     hello: who, nonce, mac ->               mac = HMAC(secret, label, challenge, the hello)
 *                           <-      welcome: verdict, who, mac
 *                                             mac = HMAC(secret, label, challenge, hello, welcome)
 *     (the floats' ticket)
 *                           <-      record READY
 *
 * From then on both send records: a head of TCP_RECORD bytes, and the message's bytes.
 *
 * Floats. Every 4 bytes of this connection are a float32, from the first on, so that a NIC
 * may round them. The caller's first 64 are the ticket: 4 bits each of an HMAC of challenge and
 * hello, as the values 16 to 31. A codec that cuts off low bits of small values (INCEPTIONN) or of
 * the mantissa does not change such values. Then come the payloads of TCP_FLOATS records, in the
 * order of these. The called side sends payloads only.
 *
 * All integers are little-endian; floats are in host order, which the hello states.
 */
enum {
    TCP_KNOCK = 8,
    TCP_NONCE = 32,
    TCP_MAC = 32,
    TCP_HELLO = 5 * 4 + TCP_NONCE + TCP_MAC,
    TCP_WELCOME = 5 * 4 + TCP_MAC,
    TCP_TICKET = 2 * TCP_MAC * 4,
    TCP_RECORD = 20,
    TCP_MESSAGE_MAX = 1 << 30
};

extern const uint8_t feddc_tcp_knock[TCP_KNOCK];

typedef enum tcp_verdict {
    TCP_WELCOME_HERE = 0,
    TCP_OTHER_SIZE,
    TCP_OTHER_GENERATION,
    TCP_OTHER_BYTE_ORDER,
    TCP_RANK_TAKEN,
    TCP_WRONG_RANK /* the caller looked for another rank than the one it reached */
} tcp_verdict;

/** Never NULL. */
const char *feddc_tcp_verdict_text(uint32_t verdict);

/** The sender of a hello or welcome. Only a hello has a nonce. */
typedef struct tcp_hello {
    uint32_t from;
    uint32_t to; /* in a welcome: the verdict */
    uint32_t size, generation, order;
    uint8_t nonce[TCP_NONCE];
} tcp_hello;

/** This machine's byte order, as in hello.order. */
uint32_t feddc_tcp_order(void);

void feddc_tcp_hello_write(const tcp_hello *hello, const uint8_t secret[FEDDC_SECRET],
                           const uint8_t challenge[TCP_NONCE], uint8_t dst[TCP_HELLO]);

/** Read a hello. FED_EAUTH: its writer does not know the secret. */
fed_status feddc_tcp_hello_read(const uint8_t src[TCP_HELLO], const uint8_t secret[FEDDC_SECRET],
                                const uint8_t challenge[TCP_NONCE], tcp_hello *hello) FED_CHECKED;

/** The called rank's verdict on a hello. me: the called rank's data. */
tcp_verdict feddc_tcp_judge(const tcp_hello *me, const tcp_hello *hello);

/** Write a welcome. hello: the bytes of the hello that this welcome answers. */
void feddc_tcp_welcome_write(const tcp_hello *welcome, const uint8_t secret[FEDDC_SECRET],
                             const uint8_t challenge[TCP_NONCE], const uint8_t hello[TCP_HELLO],
                             uint8_t dst[TCP_WELCOME]);

/** Read a welcome. FED_EAUTH: its writer does not know the secret. */
fed_status feddc_tcp_welcome_read(const uint8_t src[TCP_WELCOME],
                                  const uint8_t secret[FEDDC_SECRET],
                                  const uint8_t challenge[TCP_NONCE],
                                  const uint8_t hello[TCP_HELLO], tcp_hello *welcome) FED_CHECKED;

void feddc_tcp_ticket(const uint8_t secret[FEDDC_SECRET], const uint8_t challenge[TCP_NONCE],
                      const uint8_t hello[TCP_HELLO], uint8_t dst[TCP_TICKET]);

/** Return whether these can be the first 8 bytes of a ticket. */
bool feddc_tcp_is_ticket(const uint8_t first[TCP_KNOCK]);

typedef enum tcp_record_type {
    TCP_INLINE = 1, /* the message's bytes follow */
    TCP_FLOATS,     /* the message's bytes come on the connection for floats */
    TCP_READY,      /* the connection for floats is accepted and may be used from now on */
    TCP_GOODBYE     /* the last record of a rank that leaves in an orderly way */
} tcp_record_type;

typedef struct tcp_record {
    uint8_t type;
    feddc_head head;
    uint32_t len; /* bytes of the message, at most TCP_MESSAGE_MAX */
} tcp_record;

void feddc_tcp_record_write(const tcp_record *record, uint8_t dst[TCP_RECORD]);

/** FED_EFORMAT: the bytes are no valid record. */
fed_status feddc_tcp_record_read(const uint8_t src[TCP_RECORD], tcp_record *record) FED_CHECKED;

#endif

/* The control connection between failure detector and member: both prove that they know the worker
 * group's secret, then exchange records with a MAC. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_CHANNEL_H
#define FEDDC_CHANNEL_H

#include "fed/bytes.h"
#include "feddc/link.h"

/*
 * The failure detector sends "feddc 1\n" and a nonce of 32 bytes. The member answers with a nonce
 * of its own and the proof HMAC(secret, "member", failure detector's nonce, member's nonce). The
 * failure detector proves the same with the label "judge ". Each direction then has a key
 * HMAC(secret, direction, nonces), and records:
 *
 *   u32 length, body, first 16 bytes of HMAC(key and u64 number of the record, length and body)
 *
 * So nobody can change, repeat, leave out or send back a record unnoticed. Records
 * are not encrypted, but the generation's secret in them is masked with a key of the session.
 *
 * Nothing here blocks. Not thread-safe.
 */
enum { FEDDC_KEY = 32, FEDDC_MAC = 16 };

typedef struct feddc_channel {
    int fd; /* non-blocking; closed by feddc_channel_close */
    bool detector, proven;
    size_t most;                 /* bytes of the longest record that is accepted */
    const uint8_t *secret;       /* the caller's memory; not read once `proven` */
    uint8_t nonce[2][FEDDC_KEY]; /* failure detector's, member's */
    uint8_t key_in[FEDDC_KEY], key_out[FEDDC_KEY], key_mask[FEDDC_KEY];
    uint64_t number_in, number_out;
    /* bytes received, in_used of them used; and bytes to send, out_sent of them sent */
    fed_writer in, out;
    size_t in_used, out_sent;
    bool ended; /* the peer sends no more */
} feddc_channel;

/** Take over a connected socket and make it non-blocking. The failure detector's side sends its
 * greeting. most: bytes of the longest record that may come in. FED_EIO: the socket's flags cannot
 * be set, or there are no random bytes. */
fed_status feddc_channel_open(feddc_channel *c, int fd, bool detector, const uint8_t *secret,
                              size_t most, fed_error *err) FED_CHECKED;

/** Read what has arrived, do the next step of the proof, and send what waits to be sent. Errors:
 * FED_EAUTH the peer cannot prove itself; FED_EFORMAT it does not speak this protocol; FED_ENET the
 * connection broke; FED_ENOMEM. */
fed_status feddc_channel_pump(feddc_channel *c, fed_error *err) FED_CHECKED;

/** Take the next complete record. *body is valid until the next pump; NULL: there is none.
 * FED_EAUTH: its MAC is wrong. FED_EFORMAT: it is longer than `most`. */
fed_status feddc_channel_next(feddc_channel *c, const uint8_t **body, size_t *len,
                              fed_error *err) FED_CHECKED;

/** Send a record. What the socket does not take now is kept and sent later. Errors: FED_ENOSPC
 * more than 1 MiB waits to be sent; FED_ENET; FED_ENOMEM */
fed_status feddc_channel_send(feddc_channel *c, const uint8_t *body, size_t len,
                              fed_error *err) FED_CHECKED;

bool feddc_channel_waits(const feddc_channel *c);

/** Mask or unmask the secret of this generation with the session's key. */
void feddc_channel_mask(const feddc_channel *c, uint32_t generation, const uint8_t *from,
                        uint8_t *to);

void feddc_channel_close(feddc_channel *c);

#endif

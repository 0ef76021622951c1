/* The control connection: proof of the worker group's secret on both sides, then records with a
 * MAC. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_CHANNEL_H
#define FEDDC_CHANNEL_H

#include "fed/bytes.h"
#include "feddc/link.h"

/*
 * The failure detector sends "feddc 1\n" and a nonce of 32 bytes. The member answers with a nonce
 * of its own and the proof HMAC(secret, "member" failure detector's nonce, member's nonce); the
 * failure detector proves the same with "judge ". Each direction then has a key HMAC(secret,
 * direction, nonces), and records:
 *
 *   u32 length, body, first 16 bytes of HMAC(key and u64 number of the record, length and body)
 *
 * So a record can be neither changed, repeated, left out nor sent back to its writer. Who sees the
 * line can read records; the generation's secret is masked with a key of the session.
 *
 * Nothing here blocks. Not thread-safe.
 */
enum { FEDDC_KEY = 32, FEDDC_MAC = 16 };

typedef struct feddc_channel {
    int fd; /* non-blocking; closed by feddc_channel_close */
    bool detector, proven;
    size_t most;                 /* bytes of a record that comes in */
    const uint8_t *secret;       /* the caller's; not read once proven */
    uint8_t nonce[2][FEDDC_KEY]; /* failure detector's, member's */
    uint8_t key_in[FEDDC_KEY], key_out[FEDDC_KEY], key_mask[FEDDC_KEY];
    uint64_t number_in, number_out;
    fed_writer in, out; /* not yet used, not yet sent */
    size_t in_used, out_sent;
    bool ended; /* the peer sends no more */
} feddc_channel;

/** Take over a connected socket: makes it non-blocking, and the failure detector's side begins.
 * most: bytes of the longest record that may come in. FED_EIO: no random bytes. */
fed_status feddc_channel_open(feddc_channel *c, int fd, bool detector, const uint8_t *secret,
                              size_t most, fed_error *err) FED_CHECKED;

/** Read what has come, and prove; also sends what is due. Errors: FED_EAUTH the peer cannot prove
 * itself; FED_EFORMAT it speaks something else; FED_ENET the connection broke; FED_ENOMEM. */
fed_status feddc_channel_pump(feddc_channel *c, fed_error *err) FED_CHECKED;

/** The next record that has come whole: *body until the next pump, or NULL. FED_EAUTH: its MAC is
 * wrong. FED_EFORMAT: it is longer than `most`. */
fed_status feddc_channel_next(feddc_channel *c, const uint8_t **body, size_t *len,
                              fed_error *err) FED_CHECKED;

/** Send a record; what the socket does not take now, waits. FED_ENOSPC: the peer has not read a
 * MiB. FED_ENET, FED_ENOMEM. */
fed_status feddc_channel_send(feddc_channel *c, const uint8_t *body, size_t len,
                              fed_error *err) FED_CHECKED;

/** Something waits to be sent. */
bool feddc_channel_waits(const feddc_channel *c);

/** Mask or unmask the secret of this generation with the session's key. */
void feddc_channel_mask(const feddc_channel *c, uint32_t generation, const uint8_t *from,
                        uint8_t *to);

/** Close the socket, forget the keys. */
void feddc_channel_close(feddc_channel *c);

#endif

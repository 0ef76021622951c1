/* The control connection: proofs that both sides know the worker group's secret, then records with
 * a MAC. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/control/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/crypto.h"
#include "fed/hash.h"

enum {
    GREETING = 8,
    HELLO = GREETING + FEDDC_KEY, /* failure detector to member: greeting, nonce */
    ANSWER = 2 * FEDDC_KEY,       /* member to failure detector: nonce, proof */
    PIECE = 16 * 1024,
    HEAD = 4,
    MOST_UNSENT = 1 << 20
};

static const char greeting[GREETING + 1] = "feddc 1\n";

/* key = HMAC(secret, label and both nonces). Each label has 6 characters. */
static void derive(const feddc_channel *c, const char *label, uint8_t *key) {
    uint8_t text[6 + 2 * FEDDC_KEY];
    memcpy(text, label, 6);
    memcpy(text + 6, c->nonce, sizeof c->nonce);
    fed_hmac_sha256(c->secret, FEDDC_SECRET, text, sizeof text, key);
}

static void derive_keys(feddc_channel *c) {
    derive(c, c->detector ? "up key" : "downky", c->key_in);
    derive(c, c->detector ? "downky" : "up key", c->key_out);
    derive(c, "maskky", c->key_mask);
    c->proven = true;
}

static fed_status flush(feddc_channel *c, fed_error *err) {
    while (c->out_sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->out_sent, c->out.len - c->out_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return FED_OK;
        }
        if (n < 0) {
            return fed_fail(err, FED_ENET, "the control connection broke: %s", strerror(errno));
        }
        c->out_sent += (size_t)n;
    }
    c->out.len = c->out_sent = 0;
    return FED_OK;
}

bool feddc_channel_waits(const feddc_channel *c) {
    return c->out_sent < c->out.len;
}

/* Compute a record's MAC. record: the record's head and body. */
static void mac(const uint8_t *key, uint64_t number, const uint8_t *record, size_t len,
                uint8_t digest[FED_SHA256_SIZE]) {
    uint8_t own[FEDDC_KEY + 8];
    fed_writer w;
    fed_writer_fixed(&w, own, sizeof own);
    fed_write_bytes(&w, key, FEDDC_KEY);
    fed_write_u64(&w, number);
    fed_hmac_sha256(own, sizeof own, record, len, digest);
}

fed_status feddc_channel_send(feddc_channel *c, const uint8_t *body, size_t len, fed_error *err) {
    if (c->out.len - c->out_sent > MOST_UNSENT) {
        return fed_fail(err, FED_ENOSPC,
                        "the control connection's peer has not read for 1 MiB of records: its "
                        "process is stopped or the line is down");
    }
    size_t begin = c->out.len;
    fed_write_u32(&c->out, (uint32_t)len);
    fed_write_bytes(&c->out, body, len);
    if (c->out.status == FED_OK) {
        uint8_t digest[FED_SHA256_SIZE];
        mac(c->key_out, c->number_out++, c->out.data + begin, c->out.len - begin, digest);
        fed_write_bytes(&c->out, digest, FEDDC_MAC);
    }
    if (c->out.status != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a control record");
    }
    return flush(c, err);
}

fed_status feddc_channel_open(feddc_channel *c, int fd, bool detector, const uint8_t *secret,
                              size_t most, fed_error *err) {
    *c = (feddc_channel){.fd = fd, .detector = detector, .secret = secret, .most = most};
    fed_writer_growing(&c->in);
    fed_writer_growing(&c->out);
    int flags = fcntl(fd, F_GETFL), one = 1;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        fed_random(c->nonce[detector ? 0 : 1], FEDDC_KEY) != FED_OK) {
        return fed_fail(err, FED_EIO,
                        "a control connection cannot be set up: the socket's flags or random bytes "
                        "are not available");
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (detector) {
        fed_write_bytes(&c->out, greeting, GREETING);
        fed_write_bytes(&c->out, c->nonce[0], FEDDC_KEY);
        FED_REQUIRE(c->out.status == FED_OK, FED_ENOMEM);
        return flush(c, err);
    }
    return FED_OK;
}

void feddc_channel_close(feddc_channel *c) {
    if (c->fd >= 0) {
        close(c->fd);
    }
    fed_writer_free(&c->in);
    fed_writer_free(&c->out);
    *c = (feddc_channel){.fd = -1};
}

static size_t unused(const feddc_channel *c) {
    return c->in.len - c->in_used;
}

static fed_status check_proof(const feddc_channel *c, const char *label, const uint8_t *proof,
                              fed_error *err) {
    uint8_t wanted[FEDDC_KEY];
    derive(c, label, wanted);
    if (fed_secret_compare(wanted, proof, FEDDC_KEY) != 0) {
        return fed_fail(err, FED_EAUTH,
                        "the other side does not know the worker group's secret: give "
                        "launcher and workers the same");
    }
    return FED_OK;
}

static fed_status prove_as_detector(feddc_channel *c, fed_error *err) {
    if (unused(c) < ANSWER) {
        return FED_OK;
    }
    const uint8_t *answer = c->in.data + c->in_used;
    memcpy(c->nonce[1], answer, FEDDC_KEY);
    FED_TRY(check_proof(c, "member", answer + FEDDC_KEY, err));
    c->in_used += ANSWER;
    uint8_t proof[FEDDC_KEY];
    derive(c, "judge ", proof);
    fed_write_bytes(&c->out, proof, sizeof proof);
    derive_keys(c);
    return flush(c, err);
}

/* Send the member's nonce and proof when the failure detector's nonce has come, then wait for the
 * failure detector's proof. Until then, number_in counts the messages received. */
static fed_status prove_as_member(feddc_channel *c, fed_error *err) {
    const uint8_t *at = c->in.data + c->in_used;
    if (c->number_in == 0 && unused(c) >= HELLO) {
        if (memcmp(at, greeting, GREETING) != 0) {
            return fed_fail(err, FED_EFORMAT,
                            "the program that answered is no failure detector of a worker group: "
                            "check the address and port that this worker joins");
        }
        memcpy(c->nonce[0], at + GREETING, FEDDC_KEY);
        c->in_used += HELLO;
        c->number_in = 1;
        uint8_t proof[FEDDC_KEY];
        derive(c, "member", proof);
        fed_write_bytes(&c->out, c->nonce[1], FEDDC_KEY);
        fed_write_bytes(&c->out, proof, FEDDC_KEY);
        FED_TRY(flush(c, err));
        at = c->in.data + c->in_used;
    }
    if (c->number_in == 1 && unused(c) >= FEDDC_KEY) {
        FED_TRY(check_proof(c, "judge ", at, err));
        c->in_used += FEDDC_KEY;
        c->number_in = 0;
        derive_keys(c);
    }
    return FED_OK;
}

/* Drop the bytes already read, so that the buffer does not grow. */
static void shift(feddc_channel *c) {
    size_t left = unused(c);
    if (c->in_used > 0 && left > 0) {
        memmove(c->in.data, c->in.data + c->in_used, left);
    }
    c->in.len = left;
    c->in_used = 0;
}

/* Return how many received bytes may wait to be read: before the peer has proved itself, only those
 * of the proofs. */
static size_t room(const feddc_channel *c) {
    if (!c->proven) {
        return c->detector ? ANSWER : HELLO + FEDDC_KEY;
    }
    return HEAD + c->most + FEDDC_MAC + PIECE;
}

fed_status feddc_channel_pump(feddc_channel *c, fed_error *err) {
    FED_TRY(flush(c, err));
    shift(c);
    while (!c->ended && c->in.len < room(c)) {
        size_t want = room(c) - c->in.len < PIECE ? room(c) - c->in.len : PIECE;
        uint8_t *at = fed_writer_reserve(&c->in, want);
        FED_REQUIRE(at != NULL, FED_ENOMEM);
        ssize_t n = recv(c->fd, at, want, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            break;
        }
        if (n < 0 && unused(c) == 0) {
            return fed_fail(err, FED_ENET, "the control connection broke: %s", strerror(errno));
        }
        c->ended = n <= 0;
        if (n > 0) {
            fed_writer_advance(&c->in, (size_t)n);
        }
        if (!c->proven) {
            FED_TRY(c->detector ? prove_as_detector(c, err) : prove_as_member(c, err));
            shift(c);
        }
    }
    return FED_OK;
}

fed_status feddc_channel_next(feddc_channel *c, const uint8_t **body, size_t *len, fed_error *err) {
    *body = NULL;
    *len = 0;
    if (!c->proven || unused(c) < HEAD) {
        return FED_OK;
    }
    const uint8_t *at = c->in.data + c->in_used;
    fed_reader r;
    fed_reader_init(&r, at, HEAD);
    size_t n = fed_read_u32(&r);
    if (n > c->most) {
        return fed_fail(err, FED_EFORMAT,
                        "a control record has %zu bytes, and at most %zu are allowed", n, c->most);
    }
    if (unused(c) < HEAD + n + FEDDC_MAC) {
        return FED_OK;
    }
    uint8_t digest[FED_SHA256_SIZE];
    mac(c->key_in, c->number_in, at, HEAD + n, digest);
    if (fed_secret_compare(digest, at + HEAD + n, FEDDC_MAC) != 0) {
        return fed_fail(err, FED_EAUTH, "a control record was changed on its way");
    }
    c->number_in++;
    c->in_used += HEAD + n + FEDDC_MAC;
    *body = at + HEAD;
    *len = n;
    return FED_OK;
}

void feddc_channel_mask(const feddc_channel *c, uint32_t generation, const uint8_t *from,
                        uint8_t *to) {
    uint8_t text[4], pad[FEDDC_SECRET];
    fed_writer w;
    fed_writer_fixed(&w, text, sizeof text);
    fed_write_u32(&w, generation);
    fed_hmac_sha256(c->key_mask, FEDDC_KEY, text, sizeof text, pad);
    for (size_t i = 0; i < FEDDC_SECRET; i++) {
        to[i] = from[i] ^ pad[i];
    }
}

/* Downloads from a cache: fetches and decrypts the pieces whose addresses the coordinator has
 * sent. A cache is not trusted: if it fails in any way, the coordinator is asked instead. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fedclient/steps/steps.h"

enum { PAUSE_MS = 5 * 60 * 1000 };

/* How often a connection may break in the middle of an answer: BREAKS_MOST times, and once more
 * for each BYTES_A_BREAK bytes received. Without this limit a cache that sends one byte a
 * connection would keep the device busy very long. */
enum { BREAKS_MOST = 8, BYTES_A_BREAK = 30 * 1000 };

/** The pieces lie in partial->bytes one after the other, after the message with their addresses. */
typedef struct pieces {
    fed_address address[FED_ADDRESSES];
    size_t count;
    size_t start; /* offset of the first piece in partial->bytes */
    size_t total; /* bytes of the message with the addresses, and of all pieces */
} pieces;

static bool has_cache(const fedclient *client, const fedclient_job *job) {
    return job->assignment.task.downloads[0] != '\0' && client->options.downloads != NULL;
}

bool fedclient_cache_download_wanted(const fedclient *client, const fedclient_job *job,
                                     const fedclient_partial_download *partial) {
    const fedclient_platform *platform = client->options.platform;
    return (job->assignment.capabilities & FED_CAN_URL) != 0 && has_cache(client, job) &&
           partial->bytes.len == 0 && /* an unfinished download continues from the same source */
           (client->cache_again_ms == 0 ||
            platform->monotonic_ms(platform->user) >= client->cache_again_ms);
}

bool fedclient_cache_download_is(const fedclient_partial_download *partial) {
    return partial->bytes.len > 0 && partial->bytes.data[0] == FED_PART_CACHE;
}

/** Read the addresses of the pieces. limit: bytes of the largest possible download. */
static fed_status read_pieces(const fedclient_partial_download *partial, size_t limit, pieces *p) {
    fed_reader r;
    fed_part part;
    uint64_t sum = 0;
    fed_reader_init(&r, partial->bytes.data, partial->bytes.len);
    FED_TRY(fed_part_read(&r, &part));
    *p = (pieces){.start = partial->bytes.len - fed_reader_left(&r)};
    fed_reader_init(&r, part.envelope, (size_t)part.envelope_len);
    while (fed_reader_left(&r) > 0) {
        FED_REQUIRE(p->count < FED_ADDRESSES, FED_EFORMAT);
        fed_address *address = &p->address[p->count++];
        FED_TRY(fed_address_read(&r, address));
        FED_REQUIRE(address->len <= limit - sum, FED_EFORMAT);
        sum += address->len;
    }
    p->total = p->start + (size_t)sum;
    return p->count > 0 ? FED_OK : FED_EFORMAT;
}

/** Append the received bytes of a piece, which begins at `start` in partial->bytes. A cache
 * without support for ranges sends the piece from its beginning again. */
static fed_status take_in(fedclient_partial_download *partial, size_t start,
                          const fedclient_range *range, const fed_writer *body, int status,
                          const char *url, fed_error *err) {
    const size_t held = partial->bytes.len - start;
    const uint64_t begin = status == 200 ? 0 : range->begin;
    if (begin > held || (status == 206 && begin != held)) {
        return fed_fail(err, FED_EFORMAT, "the cache at %s sent another range than was asked for",
                        url);
    }
    const size_t known = held - (size_t)begin;
    if (body->len > known) {
        fed_write_bytes(&partial->bytes, body->data + known, body->len - known);
    }
    return partial->bytes.status;
}

/** Send one request to the cache. FED_OK: bytes have arrived, even if the connection broke
 * afterwards. */
static fed_status ask_cache(fedclient *client, const char *url, size_t len, size_t start,
                            fedclient_partial_download *partial, fed_error *err) {
    fedclient_transport *transport = client->options.downloads;
    const size_t before = partial->bytes.len, most = fedclient_partial_download_piece(client);
    fedclient_range range = {.first = before - start, .most = len > most ? most : 0};
    const fedclient_request request = {.kind = FED_REQUEST_MODEL,
                                       .method = "GET",
                                       .url = url,
                                       .range = &range,
                                       .answer_limit = len};
    fed_writer body;
    int status = 0;
    fed_writer_growing(&body);
    fed_status sent = transport->send(transport->user, &request, &status, &body, err);
    const bool broke = (sent == FED_ENET || sent == FED_ETIMEOUT) && body.len > 0 &&
                       range.total != 0; /* total is 0 unless the status was 200 or 206 */
    if (broke) {
        status = range.begin == 0 && range.first > 0 ? 200 : 206;
    }
    fed_status taken = sent;
    if (broke || (sent == FED_OK && (status == 200 || status == 206))) {
        taken = take_in(partial, start, &range, &body, status, url, err);
    } else if (sent == FED_OK) {
        taken =
            fed_fail(err, FED_ENOTFOUND, "the cache answered %s with HTTP status %d", url, status);
    }
    fed_writer_free(&body);
    if (taken == FED_OK && partial->bytes.len == before) {
        return broke ? sent
                     : fed_fail(err, FED_EFORMAT, "the cache at %s sent none of the missing bytes",
                                url);
    }
    return taken;
}

static void url_of(const fedclient_job *job, const fed_address *address, char *url, size_t cap) {
    char name[FED_SEALED_NAME];
    fed_sealed_name(address->key, name);
    snprintf(url, cap, "%s%s", job->assignment.task.downloads, name);
}

static fed_status fetch(fedclient *client, const fedclient_job *job, const pieces *p,
                        fedclient_partial_download *partial, fed_error *err) {
    char url[FED_DOWNLOADS_URL + FED_SEALED_NAME];
    const size_t before = partial->bytes.len, most = fedclient_partial_download_piece(client);
    size_t start = p->start, breaks = 0;
    for (size_t k = 0; k < p->count; k++) {
        const size_t len = (size_t)p->address[k].len;
        url_of(job, &p->address[k], url, sizeof url);
        while (partial->bytes.len < start + len) {
            const size_t held = partial->bytes.len;
            FED_TRY(ask_cache(client, url, len, start, partial, err));
            breaks += partial->bytes.len < start + len && partial->bytes.len - held < most;
            if (breaks > BREAKS_MOST + (partial->bytes.len - before) / BYTES_A_BREAK) {
                return fed_fail(err, FED_ENET, "the connection to the cache at %s broke too often",
                                url);
            }
            if (partial->bytes.len < p->total) {
                fedclient_partial_download_keep(client, partial);
            }
        }
        start += len;
    }
    return FED_OK;
}

static fed_status open_pieces(const fedclient_job *job, const pieces *p,
                              fedclient_partial_download *partial, fed_error *err) {
    char url[FED_DOWNLOADS_URL + FED_SEALED_NAME];
    uint8_t *data = partial->bytes.data;
    size_t start = p->start;
    for (size_t k = 0; k < p->count; k++) {
        const size_t len = (size_t)p->address[k].len;
        fed_status status = fed_sealed_open(p->address[k].key, data + start, len);
        if (status != FED_OK) {
            url_of(job, &p->address[k], url, sizeof url);
            return fed_fail(err, status,
                            "the cache at %s sent other bytes than the coordinator named", url);
        }
        start += len;
    }
    /* docs/durability.md, C6: the decrypted parts take exactly the bytes of the cache's pieces. */
    assert(start == p->total);
    memmove(data, data + p->start, start - p->start);
    partial->bytes.len = start - p->start;
    return FED_OK;
}

fed_status fedclient_cache_download_fetch(fedclient *client, const fedclient_job *job, size_t limit,
                                          fedclient_partial_download *partial, fed_error *err) {
    pieces p;
    if (read_pieces(partial, limit, &p) != FED_OK) {
        return fed_fail(err, FED_EFORMAT, "the addresses from the coordinator can't be read");
    }
    if (!has_cache(client, job)) {
        return fed_fail(err, FED_ENOTFOUND,
                        "this download began from a cache, which this device no longer uses");
    }
    /* docs/durability.md, C6: the pieces lie behind the addresses that name them. */
    assert(p.start <= partial->bytes.len && p.start <= p.total);
    partial->head.total = p.total;
    if (fed_writer_reserve(&partial->bytes, p.total - partial->bytes.len) == NULL &&
        p.total > partial->bytes.len) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a download of %zu bytes", p.total);
    }
    FED_TRY(fetch(client, job, &p, partial, err));
    return open_pieces(job, &p, partial, err);
}

void fedclient_cache_download_failed(fedclient *client, fedclient_partial_download *partial,
                                     const char *why) {
    const fedclient_platform *platform = client->options.platform;
    const fedclient_download_head head = {.task = partial->head.task,
                                          .have = partial->head.have,
                                          .want = partial->head.want,
                                          .digest = partial->head.digest};
    client->cache_again_ms = platform->monotonic_ms(platform->user) + PAUSE_MS;
    fed_logf(client->options.log, FED_LOG_WARN,
             "%s; this download comes from the coordinator, and so do all others of the next %d "
             "minutes",
             why, PAUSE_MS / 60000);
    fedclient_partial_download_forget(client, partial);
    partial->head = head;
}

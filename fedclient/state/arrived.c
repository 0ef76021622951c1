/* The bytes of an unfinished download. They are kept in the store, so that a broken connection or a
 * reboot loses only the piece under way. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "fedclient/state/client_state.h"

/* A piece is four times as large as an update's, since each piece is a request and so takes the
 * network's latency. Less than this fraction of a piece is not worth a put. */
enum { UPDATES_PIECES = 4, WORTH_A_PUT = 256 };

size_t fedclient_arrived_piece(const fedclient *client) {
    return (size_t)client->options.piece_bytes * UPDATES_PIECES;
}

void fedclient_arrived_free(fedclient_arrived *arrived) {
    fed_writer_free(&arrived->bytes);
}

/** Forget the last k values, the last one first, so that a crash leaves a gapless beginning. */
static void drop_pieces(fedclient *client, unsigned count) {
    const fedclient_platform *platform = client->options.platform;
    fed_status status = FED_OK;
    while (count > 0 && status == FED_OK) {
        status = fedclient_download_drop(platform, --count, NULL);
    }
}

void fedclient_arrived_forget(fedclient *client, fedclient_arrived *arrived) {
    drop_pieces(client, arrived->pieces);
    fedclient_arrived_free(arrived);
    *arrived = (fedclient_arrived){0};
    fed_writer_growing(&arrived->bytes);
}

/** Append the k-th stored piece, if it continues the bytes. */
static bool take_piece(fedclient_arrived *arrived, const fedclient_download_head *head,
                       const fedclient_record *record) {
    const fedclient_download_head *first = &arrived->head;
    size_t len = 0;
    const uint8_t *data = fedclient_record_payload(record, &len);
    bool follows = arrived->pieces == 0
                       ? head->task != 0 && head->tag != 0
                       : head->task == first->task && head->have == first->have &&
                             head->want == first->want && head->digest == first->digest &&
                             head->tag == first->tag && head->total == first->total;
    if (!follows || head->offset != arrived->bytes.len || len == 0 ||
        len >= head->total - head->offset) {
        return false;
    }
    if (arrived->pieces == 0) {
        arrived->head = *head;
    }
    fed_write_bytes(&arrived->bytes, data, len);
    arrived->stored = arrived->bytes.len;
    arrived->pieces++;
    assert(head->tag == first->tag && head->digest == first->digest); /* C6: one answer's bytes */
    return true;
}

fed_status fedclient_arrived_load(fedclient *client, fedclient_arrived *arrived, fed_error *err) {
    *arrived = (fedclient_arrived){0};
    fed_writer_growing(&arrived->bytes);
    bool more = true;
    while (more) {
        fedclient_download_head head;
        fedclient_record record;
        fed_status status =
            fedclient_download_load(client->options.platform, arrived->pieces, &head, &record, err);
        if (status == FED_ENOTFOUND) {
            break;
        }
        FED_TRY(status);
        more = take_piece(arrived, &head, &record);
        fedclient_record_free(&record);
    }
    return arrived->bytes.status;
}

/** Store the next bytes that are not stored yet. */
static fed_status keep_piece(fedclient *client, fedclient_arrived *arrived, size_t len,
                             fed_error *err) {
    fedclient_record record;
    fedclient_download_head head = arrived->head;
    head.offset = arrived->stored;
    assert(arrived->stored + len <= arrived->bytes.len); /* C6: no byte that has not arrived */
    FED_TRY(fedclient_record_new(len, &record));
    size_t payload = 0;
    memcpy(fedclient_record_payload(&record, &payload), arrived->bytes.data + arrived->stored, len);
    fed_status status =
        fedclient_download_store(client->options.platform, arrived->pieces, &head, &record, err);
    fedclient_record_free(&record);
    FED_TRY(status);
    arrived->stored += len;
    arrived->pieces++;
    return FED_OK;
}

void fedclient_arrived_keep(fedclient *client, fedclient_arrived *arrived) {
    const size_t piece = fedclient_arrived_piece(client);
    if (arrived->head.tag == 0 || arrived->unkept ||
        arrived->bytes.len - arrived->stored < piece / WORTH_A_PUT) {
        return;
    }
    while (arrived->stored < arrived->bytes.len && !arrived->unkept) {
        fed_error why = {0};
        size_t left = arrived->bytes.len - arrived->stored;
        if (keep_piece(client, arrived, left < piece ? left : piece, &why) != FED_OK) {
            fed_logf(client->options.log, FED_LOG_WARN,
                     "what has arrived of the model can't be kept. It will be fetched again if "
                     "the connection breaks: %s",
                     why.text);
            drop_pieces(client, arrived->pieces + 1);
            arrived->pieces = 0;
            arrived->stored = 0;
            arrived->unkept = true;
        }
    }
    assert(arrived->stored == (arrived->unkept ? 0 : arrived->bytes.len)); /* C6: no gap */
}

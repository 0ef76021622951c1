/* The bytes of an unfinished download, stored so that a broken connection or a reboot loses only
 * the piece under way. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "fedclient/state/client_state.h"

/* A piece of a download is UPDATES_PIECES times as large as a piece of an update. Less than
 * 1/WORTH_A_PUT of a piece is not stored. */
enum { UPDATES_PIECES = 4, WORTH_A_PUT = 256 };

size_t fedclient_partial_download_piece(const fedclient *client) {
    return (size_t)client->options.piece_bytes * UPDATES_PIECES;
}

void fedclient_partial_download_free(fedclient_partial_download *partial) {
    fed_writer_free(&partial->bytes);
}

/** Removes the last piece first, so that a crash leaves no gap between the others. */
static void drop_pieces(fedclient *client, unsigned count) {
    const fedclient_platform *platform = client->options.platform;
    fed_status status = FED_OK;
    while (count > 0 && status == FED_OK) {
        status = fedclient_download_drop(platform, --count, NULL);
    }
}

void fedclient_partial_download_forget(fedclient *client, fedclient_partial_download *partial) {
    drop_pieces(client, partial->pieces);
    fedclient_partial_download_free(partial);
    *partial = (fedclient_partial_download){0};
    fed_writer_growing(&partial->bytes);
}

static bool take_piece(fedclient_partial_download *partial, const fedclient_download_head *head,
                       const fedclient_record *record) {
    const fedclient_download_head *first = &partial->head;
    size_t len = 0;
    const uint8_t *data = fedclient_record_payload(record, &len);
    bool follows = partial->pieces == 0
                       ? head->task != 0 && head->tag != 0
                       : head->task == first->task && head->have == first->have &&
                             head->want == first->want && head->digest == first->digest &&
                             head->tag == first->tag && head->total == first->total;
    if (!follows || head->offset != partial->bytes.len || len == 0 ||
        len >= head->total - head->offset) {
        return false;
    }
    if (partial->pieces == 0) {
        partial->head = *head;
    }
    fed_write_bytes(&partial->bytes, data, len);
    partial->stored = partial->bytes.len;
    partial->pieces++;
    /* docs/durability.md, C6: all stored pieces are from one answer. */
    assert(head->tag == first->tag && head->digest == first->digest);
    return true;
}

fed_status fedclient_partial_download_load(fedclient *client, fedclient_partial_download *partial,
                                           fed_error *err) {
    *partial = (fedclient_partial_download){0};
    fed_writer_growing(&partial->bytes);
    bool more = true;
    while (more) {
        fedclient_download_head head;
        fedclient_record record;
        fed_status status =
            fedclient_download_load(client->options.platform, partial->pieces, &head, &record, err);
        if (status == FED_ENOTFOUND) {
            break;
        }
        FED_TRY(status);
        more = take_piece(partial, &head, &record);
        fedclient_record_free(&record);
    }
    return partial->bytes.status;
}

static fed_status keep_piece(fedclient *client, fedclient_partial_download *partial, size_t len,
                             fed_error *err) {
    fedclient_record record;
    fedclient_download_head head = partial->head;
    head.offset = partial->stored;
    /* docs/durability.md, C6: only bytes that have arrived are stored. */
    assert(partial->stored + len <= partial->bytes.len);
    FED_TRY(fedclient_record_new(len, &record));
    size_t payload = 0;
    memcpy(fedclient_record_payload(&record, &payload), partial->bytes.data + partial->stored, len);
    fed_status status =
        fedclient_download_store(client->options.platform, partial->pieces, &head, &record, err);
    fedclient_record_free(&record);
    FED_TRY(status);
    partial->stored += len;
    partial->pieces++;
    return FED_OK;
}

void fedclient_partial_download_keep(fedclient *client, fedclient_partial_download *partial) {
    const size_t piece = fedclient_partial_download_piece(client);
    if (partial->head.tag == 0 || partial->unkept ||
        partial->bytes.len - partial->stored < piece / WORTH_A_PUT) {
        return;
    }
    while (partial->stored < partial->bytes.len && !partial->unkept) {
        fed_error why = {0};
        size_t left = partial->bytes.len - partial->stored;
        if (keep_piece(client, partial, left < piece ? left : piece, &why) != FED_OK) {
            fed_logf(client->options.log, FED_LOG_WARN,
                     "the part of the model that has arrived can't be stored, so it is fetched "
                     "again if the connection breaks: %s",
                     why.text);
            drop_pieces(client, partial->pieces + 1);
            partial->pieces = 0;
            partial->stored = 0;
            partial->unkept = true;
        }
    }
    /* docs/durability.md, C6: the stored bytes are all that have arrived, without a gap. */
    assert(partial->stored == (partial->unkept ? 0 : partial->bytes.len));
}

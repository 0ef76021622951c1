/* Reads and writes an edge aggregator's record of its rounds, with a checksum. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/operator/edge_record.h"

#include <stdlib.h>

#include "fed/bytes.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fedserver/paths.h"

enum { PATH_SIZE = 1024, MOST = 4096, LAYOUT = 1, GUARD = sizeof(uint64_t) };

static const char NAME[] = "site";

static fed_status read_guarded(const uint8_t *data, size_t len, fedserver_edge_record *record) {
    fed_reader r;
    fedserver_edge_record read = {0};
    FED_REQUIRE(len > GUARD, FED_EFORMAT);
    fed_reader_init(&r, data + len - GUARD, GUARD);
    FED_REQUIRE(fed_read_u64(&r) == fed_digest_bytes(data, len - GUARD), FED_EFORMAT);
    fed_reader_init(&r, data, len - GUARD);
    FED_REQUIRE(fed_read_u32(&r) == LAYOUT, FED_EFORMAT);
    read.upstream = fed_read_u64(&r);
    read.task = fed_read_u64(&r);
    read.open_round = fed_read_u32(&r);
    read.open_version = fed_read_u32(&r);
    read.closed_round = fed_read_u32(&r);
    read.closed_version = fed_read_u32(&r);
    read.closed_number = fed_read_u64(&r);
    read.closed_updates = fed_read_u32(&r);
    read.closed_samples = fed_read_u32(&r);
    read.closed_loss = fed_read_f32(&r);
    FED_TRY(fed_reader_end(&r));
    *record = read;
    return FED_OK;
}

fed_status fedserver_edge_record_read(const char *folder, fedserver_edge_record *record,
                                      fed_error *err) {
    char path[PATH_SIZE];
    uint8_t *data = NULL;
    size_t len = 0;
    fed_error absent = {0};
    *record = (fedserver_edge_record){0};
    fedserver_path(folder, NAME, path, sizeof path);
    fed_status status = fed_file_read(path, MOST, &data, &len, &absent);
    if (status == FED_ENOTFOUND) {
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", absent.text);
    }
    status = read_guarded(data, len, record);
    free(data);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status,
                          "%s is damaged; remove it, and the edge aggregator's task begins anew",
                          path);
}

fed_status fedserver_edge_record_write(const char *folder, const fedserver_edge_record *record,
                                       fed_error *err) {
    char path[PATH_SIZE];
    uint8_t bytes[MOST];
    fed_writer w;
    fedserver_path(folder, NAME, path, sizeof path);
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_write_u32(&w, LAYOUT);
    fed_write_u64(&w, record->upstream);
    fed_write_u64(&w, record->task);
    fed_write_u32(&w, record->open_round);
    fed_write_u32(&w, record->open_version);
    fed_write_u32(&w, record->closed_round);
    fed_write_u32(&w, record->closed_version);
    fed_write_u64(&w, record->closed_number);
    fed_write_u32(&w, record->closed_updates);
    fed_write_u32(&w, record->closed_samples);
    fed_write_f32(&w, record->closed_loss);
    fed_write_u64(&w, fed_digest_bytes(bytes, w.len));
    FED_REQUIRE(w.status == FED_OK, w.status);
    return fed_file_replace(path, bytes, w.len, 0600, err);
}

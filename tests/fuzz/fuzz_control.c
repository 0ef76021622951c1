/* Fuzz the records between failure detector and workers: a record that can be read must be written
 * as the same bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fedclient/datacenter/control/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fed_reader r;
    feddc_record record;
    fed_reader_init(&r, data, size);
    if (feddc_record_read(&r, &record) != FED_OK) {
        return 0;
    }
    fed_writer w;
    fed_writer_growing(&w);
    feddc_record_write(&w, &record);
    for (uint32_t k = 0; record.kind == FEDDC_RECORD_WORKER_GROUP && k < record.size; k++) {
        feddc_rank_row row;
        size_t before = r.pos;
        if (feddc_rank_row_read(&r, &row) != FED_OK) {
            r.pos = before;
            break;
        }
        feddc_rank_row_write(&w, &row);
    }
    require_same(&w, data, r.pos);
    fed_writer_free(&w);
    return 0;
}

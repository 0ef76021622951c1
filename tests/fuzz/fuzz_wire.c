/* Fuzz the readers of all messages: a message must be written as the bytes that were read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fed/own_metrics.h"
#include "fed/version.h"
#include "fed/wire.h"
#include "fed/worker_group.h"

static void check_assignment(uint8_t protocol, const uint8_t *data, size_t size) {
    fed_reader r;
    fed_reader_init(&r, data, size);
    fed_assignment m;
    if (fed_assignment_read(&r, protocol, &m) != FED_OK) {
        return;
    }
    fed_writer w;
    fed_writer_growing(&w);
    fed_assignment_write(&w, protocol, &m);
    require_same(&w, data, r.pos);
    fed_writer_free(&w);
}

#define CHECK_MESSAGE(kind)                                                                        \
    static void check_##kind(const uint8_t *data, size_t size) {                                   \
        fed_reader r;                                                                              \
        fed_reader_init(&r, data, size);                                                           \
        fed_##kind m;                                                                              \
        if (fed_##kind##_read(&r, &m) != FED_OK) {                                                 \
            return;                                                                                \
        }                                                                                          \
        fed_writer w;                                                                              \
        fed_writer_growing(&w);                                                                    \
        fed_##kind##_write(&w, &m);                                                                \
        require_same(&w, data, r.pos);                                                             \
        fed_writer_free(&w);                                                                       \
    }

CHECK_MESSAGE(task)
CHECK_MESSAGE(checkin)
CHECK_MESSAGE(part)
CHECK_MESSAGE(address)
CHECK_MESSAGE(update)
CHECK_MESSAGE(piece)
CHECK_MESSAGE(decline)
CHECK_MESSAGE(metric)
CHECK_MESSAGE(worker_group)
CHECK_MESSAGE(own_metrics)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_task(data, size);
    check_checkin(data, size);
    for (uint8_t protocol = FED_PROTOCOL_OLDEST; protocol <= FED_PROTOCOL; protocol++) {
        check_assignment(protocol, data, size);
    }
    check_part(data, size);
    check_address(data, size);
    check_update(data, size);
    check_piece(data, size);
    check_decline(data, size);
    check_metric(data, size);
    check_worker_group(data, size);
    check_own_metrics(data, size);
    return 0;
}

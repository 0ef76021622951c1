/* Fuzz the bytes on a link between coordinators: frames, requests and answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fedserver/cluster/cluster_message.h"

static void try_request(const fed_writer *head) {
    fedserver_request request;
    char known[20];
    fed_writer again;
    char *text = fuzz_allocate(head->len + 1);
    fed_writer_growing(&again);
    if (cluster_request_read(head->data, head->len, text, head->len, &request, known) == FED_OK) {
        cluster_request_write(&again, &request, known);
        require_same(&again, head->data, head->len);
    }
    fed_writer_free(&again);
    free(text);
}

static void try_answer(const fed_writer *head) {
    cluster_answer answer;
    fed_writer again;
    fed_writer_growing(&again);
    if (cluster_answer_read(head->data, head->len, &answer) == FED_OK) {
        cluster_answer_write(&again, &answer.response, answer.same);
        require_same(&again, head->data, head->len);
    }
    fed_writer_free(&again);
}

static void try_frame(const cluster_frame *frame) {
    require(frame->head.len <= CLUSTER_HEAD_MOST && frame->body.len == frame->body_len);
    try_request(&frame->head);
    try_answer(&frame->head);
}

/* The data arrives in pieces, whose sizes are also taken from the data. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cluster_frame frame;
    fed_error err = {0};
    fed_status status = FED_OK;
    cluster_frame_init(&frame);
    for (size_t at = 0; at < size && status == FED_OK;) {
        const size_t step = 1 + data[at] % 64;
        size_t used = 0;
        bool whole = false;
        status = cluster_frame_take(&frame, data + at, step < size - at ? step : size - at, &used,
                                    &whole, &err);
        require(status != FED_OK || (used > 0 && used <= step));
        at += used;
        if (whole) {
            try_frame(&frame);
            cluster_frame_clear(&frame);
        }
    }
    cluster_frame_clear(&frame);
    fed_writer_free(&frame.head);
    return 0;
}

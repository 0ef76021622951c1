/* Frames, requests and answers between coordinators: what is written can be read again, and
 * wrong bytes are refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedserver/cluster/cluster_message.h"

static const uint8_t fingerprint[FED_SHA256_SIZE] = {1, 2, 3};
static const uint8_t certificate[FED_SHA256_SIZE] = {9, 8, 7};

static const fedserver_request full = {.listener = FEDSERVER_DEVICES,
                                       .method = "POST",
                                       .path = "/v1/checkin",
                                       .query = "a=1",
                                       .range = "bytes=1-2",
                                       .if_range = "\"x\"",
                                       .agent = "fedclientd/1",
                                       .device_name = "pump 7",
                                       .computes_on = "cpu",
                                       .fingerprint = fingerprint,
                                       .certificate = certificate,
                                       .authority = 77,
                                       .wire_bytes = 1234,
                                       .waited_ms = 56,
                                       .classes = 0xabcdef};

static void assert_same_text(const char *a, const char *b) {
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL) {
        assert_string_equal(a, b);
    }
}

static void assert_same_request(const fedserver_request *a, const fedserver_request *b) {
    assert_int_equal(a->listener, b->listener);
    assert_same_text(a->method, b->method);
    assert_same_text(a->path, b->path);
    assert_same_text(a->query, b->query);
    assert_same_text(a->range, b->range);
    assert_same_text(a->if_range, b->if_range);
    assert_same_text(a->agent, b->agent);
    assert_same_text(a->device_name, b->device_name);
    assert_same_text(a->computes_on, b->computes_on);
    assert_int_equal(a->fingerprint == NULL, b->fingerprint == NULL);
    if (a->fingerprint != NULL) {
        assert_memory_equal(a->fingerprint, b->fingerprint, FED_SHA256_SIZE);
        assert_memory_equal(a->certificate, b->certificate, FED_SHA256_SIZE);
    }
    assert_int_equal(a->authority, b->authority);
    assert_int_equal(a->wire_bytes, b->wire_bytes);
    assert_int_equal(a->waited_ms, b->waited_ms);
    assert_int_equal(a->classes, b->classes);
}

static void pass_through(const fedserver_request *request, const char *known) {
    fed_writer w;
    fedserver_request read;
    char back[20];
    fed_writer_growing(&w);
    cluster_request_write(&w, request, known);
    char *text = malloc(w.len);
    assert_non_null(text);
    assert_fed_ok(cluster_request_read(w.data, w.len, text, w.len, &read, back));
    assert_same_request(request, &read);
    assert_string_equal(back, known);
    for (size_t len = 0; len < w.len; len++) {
        assert_fed_status(cluster_request_read(w.data, len, text, w.len, &read, back), FED_EFORMAT);
    }
    free(text);
    fed_writer_free(&w);
}

FED_TEST(a_request_arrives_as_it_was) {
    pass_through(&full, "");
    pass_through(&full, "\"0123456789abcde\"");
    pass_through(
        &(fedserver_request){
            .listener = FEDSERVER_FRONT, .method = "GET", .path = "/metrics", .query = ""},
        "");
}

FED_TEST(a_request_of_an_unknown_listener_or_with_unknown_parts_is_refused) {
    fed_writer w;
    fedserver_request read;
    char text[500];
    char known[20];
    fed_writer_growing(&w);
    cluster_request_write(&w, &full, "");
    w.data[0] = 2;
    assert_fed_status(cluster_request_read(w.data, w.len, text, sizeof text, &read, known),
                      FED_EFORMAT);
    w.data[0] = FEDSERVER_DEVICES;
    w.data[1] |= 128;
    assert_fed_status(cluster_request_read(w.data, w.len, text, sizeof text, &read, known),
                      FED_EFORMAT);
    fed_writer_free(&w);
}

FED_TEST(an_answer_arrives_as_it_was) {
    fed_writer w;
    cluster_answer read;
    const fedserver_response response = {.status = 206,
                                         .content_type = "application/octet-stream",
                                         .retry_after_s = 9,
                                         .etag = "\"0123456789abcde\"",
                                         .content_range = "bytes 5-6/7",
                                         .file_name = "x.csv",
                                         .immutable = true};
    fed_writer_growing(&w);
    cluster_answer_write(&w, &response, true);
    assert_fed_ok(cluster_answer_read(w.data, w.len, &read));
    assert_int_equal(read.response.status, 206);
    assert_string_equal(read.response.content_type, response.content_type);
    assert_ptr_equal(read.response.content_type, read.type);
    assert_int_equal(read.response.retry_after_s, 9);
    assert_string_equal(read.response.etag, response.etag);
    assert_string_equal(read.response.content_range, response.content_range);
    assert_string_equal(read.response.file_name, response.file_name);
    assert_true(read.same);
    assert_true(read.response.immutable);
    for (size_t len = 0; len < w.len; len++) {
        assert_fed_status(cluster_answer_read(w.data, len, &read), FED_EFORMAT);
    }
    w.data[0] = w.data[1] = 0; /* 0 is no HTTP status */
    assert_fed_status(cluster_answer_read(w.data, w.len, &read), FED_EFORMAT);
    fed_writer_free(&w);
}

static void take_in_steps(const fed_writer *w, size_t step) {
    cluster_frame frame;
    fed_error err = {0};
    unsigned frames = 0;
    cluster_frame_init(&frame);
    for (size_t at = 0; at < w->len;) {
        const size_t len = step < w->len - at ? step : w->len - at;
        size_t used = 0;
        bool complete = false;
        assert_fed_ok_err(cluster_frame_take(&frame, w->data + at, len, &used, &complete, &err));
        assert_true(used > 0 && used <= len);
        at += used;
        if (!complete) {
            continue;
        }
        assert_int_equal(frame.kind, frames == 0 ? CLUSTER_REQUEST : CLUSTER_HEARTBEAT);
        assert_int_equal(frame.id, frames == 0 ? 5000000001 : 0);
        assert_int_equal(frame.head.len, frames == 0 ? 4 : 0);
        assert_int_equal(frame.body.len, frames == 0 ? 3 : 0);
        if (frames == 0) {
            assert_memory_equal(frame.head.data, "head", 4);
            assert_memory_equal(frame.body.data, "abc", 3);
        }
        cluster_frame_clear(&frame);
        frames++;
    }
    assert_int_equal(frames, 2);
    fed_writer_free(&frame.head);
}

FED_TEST(frames_come_in_any_pieces) {
    fed_writer w, head;
    fed_writer_growing(&w);
    fed_writer_growing(&head);
    fed_write_bytes(&head, "head", 4);
    cluster_frame_write(&w, CLUSTER_REQUEST, 5000000001, &head, 3);
    fed_write_bytes(&w, "abc", 3);
    cluster_frame_write(&w, CLUSTER_HEARTBEAT, 0, NULL, 0);
    for (size_t step = 1; step <= w.len; step++) {
        take_in_steps(&w, step);
    }
    fed_writer_free(&w);
    fed_writer_free(&head);
}

static void assert_no_frame(uint8_t kind, uint32_t head_len, uint32_t body_len) {
    uint8_t bytes[CLUSTER_FRAME_SIZE];
    cluster_frame frame;
    fed_error err = {0};
    fed_writer w;
    size_t used = 0;
    bool complete = false;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_write_u8(&w, kind);
    fed_write_u32(&w, head_len);
    fed_write_u32(&w, body_len);
    fed_write_u64(&w, 1);
    cluster_frame_init(&frame);
    assert_fed_fails(cluster_frame_take(&frame, bytes, sizeof bytes, &used, &complete, &err),
                     FED_EFORMAT, "docs/link.md");
}

FED_TEST(a_frame_that_no_release_sends_ends_the_link) {
    assert_no_frame(0, 0, 0);
    assert_no_frame(6, 0, 0);
    assert_no_frame(CLUSTER_REQUEST, CLUSTER_HEAD_MOST + 1, 0);
    assert_no_frame(CLUSTER_REQUEST, 10, UINT32_MAX);
}

FED_TEST(memory_grows_with_what_came_and_not_with_what_is_announced) {
    cluster_frame frame;
    fed_error err = {0};
    fed_writer w;
    size_t used = 0;
    bool complete = false;
    fed_writer_growing(&w);
    cluster_frame_write(&w, CLUSTER_ANSWER, 1, NULL, CLUSTER_BODY_MOST);
    fed_write_bytes(&w, "abc", 3);
    cluster_frame_init(&frame);
    assert_fed_ok_err(cluster_frame_take(&frame, w.data, w.len, &used, &complete, &err));
    assert_false(complete);
    assert_int_equal(frame.body.len, 3);
    assert_true(frame.body.cap < 100000);
    cluster_frame_clear(&frame);
    fed_writer_free(&w);
}

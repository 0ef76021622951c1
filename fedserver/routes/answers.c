/* Makes answers that several routes give. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/answers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "fedserver/routes/byte_range.h"
#include "fedserver/versions/blob.h"

fed_status fedserver_answer(fedserver_response *response, int status, const char *content_type,
                            fed_writer *bytes, fed_error *err) {
    fedserver_blob *body = fedserver_blob_new(bytes);
    if (body == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for an answer");
    }
    response->status = status;
    response->content_type = content_type;
    response->body = body;
    return FED_OK;
}

static int append_text(const char *text, size_t len, void *user) {
    fed_write_bytes(user, text, len);
    return 0;
}

fed_status fedserver_json_write(json_t *value, size_t flags, fed_writer *w) {
    const int failed = json_dump_callback(value, append_text, w, flags);
    json_decref(value);
    return failed ? FED_ENOMEM : w->status;
}

fed_status fedserver_answer_json(fedserver_response *response, int status, json_t *value,
                                 fed_error *err) {
    fed_writer text;
    fed_writer_growing(&text);
    if (fedserver_json_write(value, JSON_COMPACT, &text) != FED_OK) {
        fed_writer_free(&text);
        return fed_fail(err, FED_ENOMEM, "out of memory for an answer");
    }
    return fedserver_answer(response, status, "application/json", &text, err);
}

fed_status fedserver_answer_error(fedserver_response *response, fed_error *err, int status,
                                  const char *word, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    for (char *c = message; *c != '\0'; c++) {
        /* the message may quote unprintable bytes of a request */
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    }
    return fedserver_answer_json(response, status,
                                 json_pack("{s:s, s:s}", "error", word, "message", message), err);
}

fed_status fedserver_answer_range(const fedserver_request *request, uint64_t tag,
                                  fedserver_response *response, fed_error *err) {
    size_t total = 0;
    uint64_t first = 0, len = 0;
    (void)fedserver_blob_data(response->body, &total);
    fedserver_range_kind kind =
        fedserver_range_read(request->range, request->if_range, total, tag, &first, &len);
    if (kind == FEDSERVER_RANGE_WHOLE) {
        return FED_OK;
    }
    fedserver_blob *whole = response->body;
    response->body = NULL;
    if (kind == FEDSERVER_RANGE_NONE) {
        fedserver_blob_free(whole);
        snprintf(response->content_range, sizeof response->content_range, "bytes */%zu", total);
        return fedserver_answer_error(response, err, 416, "bad_range",
                                      "the answer has %zu bytes, and the range begins behind them; "
                                      "ask for all of it",
                                      total);
    }
    response->status = 206;
    snprintf(response->content_range, sizeof response->content_range,
             "bytes %" PRIu64 "-%" PRIu64 "/%zu", first, first + len - 1, total);
    response->body = fedserver_blob_slice(whole, (size_t)first, (size_t)len);
    fedserver_blob_free(whole);
    return response->body != NULL ? FED_OK
                                  : fed_fail(err, FED_ENOMEM, "out of memory for a download");
}

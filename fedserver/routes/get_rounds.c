/* GET /rounds.csv?task=N: the committed rounds as a table for other programs, the oldest first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "fedserver/routes/answers.h"
#include "fedserver/routes/query.h"
#include "fedserver/routes/router.h"

typedef struct rows {
    fedserver_round_entry *items;
    size_t count, cap;
} rows;

static fed_status keep(void *user, const fedserver_round_entry *entry, fed_error *err) {
    rows *r = user;
    if (r->count == r->cap) {
        const size_t cap = r->cap == 0 ? 64 : 2 * r->cap;
        fedserver_round_entry *items = realloc(r->items, cap * sizeof *items);
        if (items == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for the rounds");
        }
        r->items = items;
        r->cap = cap;
    }
    r->items[r->count++] = *entry;
    return FED_OK;
}

static void write_row(fed_writer *w, const fedserver_round_entry *r) {
    fed_write_printf(w, "%u,%u,%lld,%lld,%u,%llu,%.9g,%llu,%llu,", r->number, r->attempts,
                     (long long)r->opened_ms, (long long)r->committed_ms, r->updates,
                     (unsigned long long)r->samples, r->loss, (unsigned long long)r->update_bytes,
                     (unsigned long long)r->delta_bytes);
    if (r->measured) {
        fed_write_printf(w, "%.9g,%.9g", r->accuracy, r->test_loss);
    } else {
        fed_write_printf(w, ",");
    }
    fed_write_printf(w, "\r\n");
}

fed_status fedserver_get_rounds(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    uint64_t task = 0;
    rows r = {.count = 0};
    fed_error why = {0};
    (void)fedserver_query_number(call->request->query, "task", UINT64_MAX / 2, &task);
    const fed_status status = fedserver_round_each(server, task, UINT32_MAX, keep, &r, &why);
    if (status != FED_OK) {
        free(r.items);
        return status == FED_ENOTFOUND
                   ? fedserver_answer_error(response, err, 404, "task_unknown",
                                            "there is no such task, or none has started yet")
                   : fed_fail(err, status, "%s", why.text);
    }
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_printf(&w, "round,attempts,opened_ms,committed_ms,updates,samples,loss,update_bytes,"
                         "delta_bytes,accuracy,test_loss\r\n");
    while (r.count > 0) {
        write_row(&w, &r.items[--r.count]);
    }
    free(r.items);
    snprintf(response->file_name, sizeof response->file_name, "rounds.csv");
    return fedserver_answer(response, 200, "text/csv; charset=utf-8", &w, err);
}

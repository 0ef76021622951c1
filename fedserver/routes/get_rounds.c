/* GET /rounds.csv?task=N: the committed rounds as a table for other programs, oldest first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fedserver/routes/answers.h"
#include "fedserver/routes/query.h"
#include "fedserver/routes/router.h"

/* The most columns for custom metrics, after the fixed columns. */
enum { OWN_COLUMNS = 128 };

typedef struct own_column {
    char name[FED_OWN_NAME];
    bool evaluated;
} own_column;

typedef struct own_cell {
    uint32_t round, column;
    double mean;
} own_cell;

typedef struct table {
    fed_writer rounds; /* fedserver_round_entry[], the newest first */
    fed_writer cells;  /* own_cell[], the oldest round first */
    own_column columns[OWN_COLUMNS];
    uint32_t column_count;
} table;

static fed_status keep_round(void *user, const fedserver_round_entry *entry, fed_error *err) {
    table *t = user;
    fed_write_bytes(&t->rounds, entry, sizeof *entry);
    return t->rounds.status == FED_OK
               ? FED_OK
               : fed_fail(err, t->rounds.status, "out of memory for the rounds");
}

static uint32_t column_of(table *t, const char *name, bool evaluated) {
    uint32_t k = 0;
    while (k < t->column_count &&
           (t->columns[k].evaluated != evaluated || strcmp(t->columns[k].name, name) != 0)) {
        k++;
    }
    if (k == t->column_count && k < OWN_COLUMNS) {
        own_column *column = &t->columns[t->column_count++];
        column->evaluated = evaluated;
        snprintf(column->name, sizeof column->name, "%s", name);
    }
    return k;
}

static fed_status keep_own(void *user, const fedserver_own_list *list, fed_error *err) {
    table *t = user;
    for (size_t k = 0; k < list->count; k++) {
        const own_cell cell = {.round = list->round,
                               .column = column_of(t, list->rows[k].name, list->evaluated),
                               .mean = list->rows[k].mean};
        if (cell.column < OWN_COLUMNS) {
            fed_write_bytes(&t->cells, &cell, sizeof cell);
        }
    }
    return t->cells.status == FED_OK
               ? FED_OK
               : fed_fail(err, t->cells.status, "out of memory for the rounds' metrics");
}

static void write_own(fed_writer *w, const table *t, uint32_t round, size_t *at) {
    const own_cell *cells = (const void *)t->cells.data;
    const size_t count = t->cells.len / sizeof *cells;
    const double *means[OWN_COLUMNS] = {NULL};
    for (; *at < count && cells[*at].round <= round; ++*at) {
        if (cells[*at].round == round) {
            means[cells[*at].column] = &cells[*at].mean;
        }
    }
    for (uint32_t k = 0; k < t->column_count; k++) {
        fed_write_printf(w, ",");
        if (means[k] != NULL) {
            fed_write_printf(w, "%.9g", *means[k]);
        }
    }
}

static void write_number(fed_writer *w, double number) {
    if (!isnan(number)) {
        fed_write_printf(w, "%.9g", number);
    }
}

static void write_table(fed_writer *w, const table *t) {
    const fedserver_round_entry *rounds = (const void *)t->rounds.data;
    size_t at = 0;
    fed_write_printf(w, "round,attempts,opened_ms,committed_ms,updates,samples,loss,update_bytes,"
                        "delta_bytes,accuracy,test_loss,clip");
    for (uint32_t k = 0; k < t->column_count; k++) {
        fed_write_printf(w, ",%s:%s", t->columns[k].evaluated ? "evaluators" : "devices",
                         t->columns[k].name);
    }
    fed_write_printf(w, "\r\n");
    for (size_t k = t->rounds.len / sizeof *rounds; k > 0; k--) {
        const fedserver_round_entry *r = &rounds[k - 1];
        fed_write_printf(w, "%u,%u,%lld,%lld,%u,%llu,", r->number, r->attempts,
                         (long long)r->opened_ms, (long long)r->committed_ms, r->updates,
                         (unsigned long long)r->samples);
        write_number(w, r->loss);
        fed_write_printf(w, ",%llu,%llu,", (unsigned long long)r->update_bytes,
                         (unsigned long long)r->delta_bytes);
        write_number(w, r->measured ? r->accuracy : (double)NAN);
        fed_write_printf(w, ",");
        write_number(w, r->measured ? r->test_loss : (double)NAN);
        fed_write_printf(w, ",");
        write_number(w, r->clip > 0 ? r->clip : (double)NAN);
        write_own(w, t, r->number, &at);
        fed_write_printf(w, "\r\n");
    }
}

fed_status fedserver_get_rounds(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    uint64_t task = 0;
    table t = {.column_count = 0};
    fed_error why = {0};
    fed_writer w;
    fed_writer_growing(&t.rounds);
    fed_writer_growing(&t.cells);
    fed_writer_growing(&w);
    (void)fedserver_query_number(call->request->query, "task", UINT64_MAX / 2, &task);
    fed_status status = fedserver_round_each(server, task, UINT32_MAX, keep_round, &t, &why);
    if (status == FED_OK) {
        status = fedserver_own_each(server, task, 1, keep_own, &t, &why);
    }
    if (status == FED_OK) {
        write_table(&w, &t);
    }
    fed_writer_free(&t.rounds);
    fed_writer_free(&t.cells);
    if (status != FED_OK) {
        return status == FED_ENOTFOUND
                   ? fedserver_answer_error(response, err, 404, "task_unknown",
                                            "there is no such task, or none has started yet")
                   : fed_fail(err, status, "%s", why.text);
    }
    snprintf(response->file_name, sizeof response->file_name, "rounds.csv");
    return fedserver_answer(response, 200, "text/csv; charset=utf-8", &w, err);
}

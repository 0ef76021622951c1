/* Record spans in ring buffers; write them as JSON for trace viewers, and a table of step times. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feddc/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/file.h"
#include "fed/utf8.h"

/* LANES: most threads of a row in the file. Overlapping spans need separate threads. */
enum { LANES = 64, NAME = 128, PATH = 4096 };

static const size_t largest_part = UINT32_MAX;

typedef struct trace_row {
    feddc_span *ring;       /* [room]; span k lies at k % room */
    _Atomic uint64_t added; /* increased after the span is written */
} trace_row;

struct feddc_trace {
    uint32_t rank, ranks;
    size_t room;
    trace_row rows[];
};

static uint32_t rows_of(const feddc_trace *trace) {
    return FEDDC_ROW_PEER + 2 * trace->ranks;
}

static uint32_t peer_of(uint32_t inner) {
    return (inner - FEDDC_ROW_PEER) / 2;
}

static bool is_from(uint32_t inner) {
    return (inner - FEDDC_ROW_PEER) % 2 == 1;
}

fed_status feddc_trace_open(uint32_t rank, uint32_t ranks, size_t spans, feddc_trace **trace,
                            fed_error *err) {
    if (rank >= ranks) {
        return fed_fail(err, FED_EINVAL, "rank %u does not exist in a worker group of %u", rank,
                        ranks);
    }
    if (spans == 0) {
        return fed_fail(err, FED_EINVAL,
                        "a trace of 0 spans is not possible: it needs room for at least one span");
    }
    const size_t rows = (size_t)FEDDC_ROW_PEER + 2 * (size_t)ranks;
    feddc_trace *made = calloc(1, sizeof *made + rows * sizeof *made->rows);
    if (made == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a trace of %u ranks", ranks);
    }
    made->rank = rank;
    made->ranks = ranks;
    made->room = spans;
    for (size_t r = 0; r < rows; r++) {
        made->rows[r].ring = calloc(spans, sizeof *made->rows[r].ring);
        if (made->rows[r].ring == NULL) {
            feddc_trace_close(made);
            return fed_fail(err, FED_ENOMEM, "out of memory for a trace of %zu spans a row", spans);
        }
    }
    *trace = made;
    return FED_OK;
}

void feddc_trace_close(feddc_trace *trace) {
    for (uint32_t r = 0; trace != NULL && r < rows_of(trace); r++) {
        free(trace->rows[r].ring);
    }
    free(trace);
}

void feddc_trace_add(feddc_trace *trace, uint32_t row, const feddc_span *span) {
    if (trace != NULL && row < FEDDC_ROW_PEER + trace->ranks &&
        (unsigned)span->what < FEDDC_WHATS) {
        const uint32_t peer = row - FEDDC_ROW_PEER, from = span->what == FEDDC_RECEIVE;
        trace_row *r = &trace->rows[row < FEDDC_ROW_PEER ? row : FEDDC_ROW_PEER + 2 * peer + from];
        const uint64_t k = atomic_load_explicit(&r->added, memory_order_relaxed);
        r->ring[k % trace->room] = *span;
        atomic_store_explicit(&r->added, k + 1, memory_order_release);
    }
}

int64_t feddc_trace_offset(const feddc_clock_sample *samples, size_t count, uint64_t *error) {
    const feddc_clock_sample *best = NULL;
    for (size_t k = 0; k < count; k++) {
        const feddc_clock_sample *s = &samples[k];
        if (s->received >= s->sent &&
            (best == NULL || s->received - s->sent < best->received - best->sent)) {
            best = s;
        }
    }
    if (error != NULL) {
        *error = best == NULL ? UINT64_MAX : (best->received - best->sent + 1) / 2;
    }
    return best == NULL ? 0
                        : (int64_t)(best->sent + (best->received - best->sent) / 2 - best->remote);
}

static const char *const what_names[FEDDC_WHATS] = {"forward", "backward", "update", "wait",
                                                    "encode",  "decode",   "sum",    "exchange",
                                                    "send",    "receive",  "copy"};

static void write_string(fed_writer *out, const char *text) {
    char clean[NAME];
    snprintf(clean, sizeof clean, "%s", text);
    fed_utf8_clean(clean); /* also removes control characters */
    fed_write_u8(out, '"');
    for (const char *c = clean; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fed_write_u8(out, '\\');
        }
        fed_write_bytes(out, c, 1);
    }
    fed_write_u8(out, '"');
}

static void write_name(fed_writer *out, const char *kind, uint32_t pid, uint32_t tid,
                       uint32_t place, const char *name) {
    fed_write_printf(
        out, "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s_name\",\"args\":{\"name\":", pid,
        tid, kind);
    write_string(out, name);
    fed_write_printf(out,
                     "}},\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s_sort_index\","
                     "\"args\":{\"sort_index\":%u}},\n",
                     pid, tid, kind, place);
}

static void row_name(uint32_t row, char *name, size_t cap) {
    static const char *const names[FEDDC_ROW_PEER] = {"compute", "engine", "buckets"};
    if (row < FEDDC_ROW_PEER) {
        snprintf(name, cap, "%s", names[row]);
    } else {
        snprintf(name, cap, "%s %u", is_from(row) ? "from" : "to", peer_of(row));
    }
}

/* A row's thread has the id 1 + row * LANES + lane. */
static void write_lane_name(fed_writer *out, uint32_t rank, uint32_t row, uint32_t lane,
                            uint64_t missing) {
    char name[NAME];
    row_name(row, name, sizeof name);
    const size_t len = strlen(name);
    if (lane > 0) {
        snprintf(name + len, sizeof name - len, " #%u", lane + 1);
    } else if (missing > 0) {
        snprintf(name + len, sizeof name - len, " (%" PRIu64 " spans are missing)", missing);
    }
    const uint32_t tid = 1 + row * LANES + lane;
    write_name(out, "thread", rank, tid, tid, name);
}

static uint64_t length(uint64_t begin, uint64_t end) {
    return end > begin ? end - begin : 0;
}

/* Whole microseconds: viewers read fractions as floating point, and neighbours could overlap. */
static uint64_t microseconds(uint64_t ns, uint64_t zero) {
    return length(zero, ns) / 1000;
}

static void write_span(fed_writer *out, uint32_t rank, uint32_t tid, const feddc_span *span,
                       uint64_t zero) {
    const uint64_t begin = microseconds(span->begin, zero), end = microseconds(span->end, zero);
    fed_write_printf(out,
                     "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"cat\":\"feddc\","
                     "\"ts\":%" PRIu64 ",\"dur\":%" PRIu64 ",\"args\":{\"step\":%u",
                     rank, tid, what_names[span->what], begin, length(begin, end), span->step);
    if (span->bucket != UINT32_MAX) {
        fed_write_printf(out, ",\"bucket\":%u", span->bucket);
    }
    if (span->bytes > 0) {
        fed_write_printf(out, ",\"bytes\":%" PRIu64, span->bytes);
    }
    fed_write_printf(out, "}},\n");
}

static int by_begin(const void *a, const void *b) {
    const feddc_span *left = a, *right = b;
    return left->begin != right->begin ? (left->begin < right->begin ? -1 : 1)
                                       : (left->end > right->end) - (left->end < right->end);
}

/* Messages to a peer leave one after the other: let no span begin before the previous one ends.
 * spans[count] are ordered by their ends. */
static void end_to_end(feddc_span *spans, size_t count) {
    for (size_t k = 1; k < count; k++) {
        if (spans[k].begin < spans[k - 1].end) {
            spans[k].begin = spans[k - 1].end;
        }
        if (spans[k].end < spans[k].begin) {
            spans[k].end = spans[k].begin;
        }
    }
}

/* Copy the spans in a row's ring to spans[room], oldest first; return their number. added: all
 * spans ever added to the row. */
static size_t copy_row(const feddc_trace *trace, uint32_t row, uint64_t added, feddc_span *spans) {
    const feddc_span *ring = trace->rows[row].ring;
    const size_t count = added < trace->room ? (size_t)added : trace->room;
    const size_t first = count > 0 ? (size_t)(added % count) : 0;
    memcpy(spans, ring + first, (count - first) * sizeof *spans);
    memcpy(spans + (count - first), ring, first * sizeof *spans);
    return count;
}

/* Put overlapping spans into different lanes. spans[count] are sorted by begin; missing: number of
 * spans that were overwritten. */
static void write_spans(const feddc_trace *trace, uint32_t row, const feddc_span *spans,
                        size_t count, uint64_t missing, uint64_t zero, fed_writer *out) {
    uint64_t ends[LANES] = {0};
    uint32_t used = 1;
    for (size_t k = 0; k < count; k++) {
        uint32_t lane = 0;
        while (lane < LANES && spans[k].begin < ends[lane]) {
            lane++;
        }
        if (lane == LANES) {
            missing++;
            continue;
        }
        ends[lane] = spans[k].end;
        used = lane < used ? used : lane + 1;
        write_span(out, trace->rank, 1 + row * LANES + lane, &spans[k], zero);
    }
    for (uint32_t lane = 0; lane < used; lane++) {
        write_lane_name(out, trace->rank, row, lane, missing);
    }
}

fed_status feddc_trace_events(const feddc_trace *trace, const char *name, uint64_t zero,
                              fed_writer *out) {
    if (trace == NULL) {
        return FED_OK;
    }
    feddc_span *sorted = malloc(trace->room * sizeof *sorted);
    if (sorted == NULL) {
        return FED_ENOMEM;
    }
    write_name(out, "process", trace->rank, 0, trace->rank, name);
    for (uint32_t row = 0; row < rows_of(trace); row++) {
        const uint64_t added = atomic_load_explicit(&trace->rows[row].added, memory_order_acquire);
        const size_t count = copy_row(trace, row, added, sorted);
        if (row >= FEDDC_ROW_PEER && peer_of(row) == trace->rank && count == 0) {
            continue; /* a rank sends nothing to itself */
        }
        if (row >= FEDDC_ROW_PEER && !is_from(row)) {
            end_to_end(sorted, count);
        }
        qsort(sorted, count, sizeof *sorted, by_begin);
        write_spans(trace, row, sorted, count, added - count, zero, out);
    }
    free(sorted);
    return out->status;
}

static void part_path(const char *path, uint32_t rank, char *part) {
    snprintf(part, PATH, "%s.%u", path, rank);
}

fed_status feddc_trace_write(const feddc_trace *trace, const char *name, uint64_t zero,
                             const char *path, fed_error *err) {
    if (trace == NULL) {
        return FED_OK;
    }
    char part[PATH];
    fed_writer out;
    part_path(path, trace->rank, part);
    fed_writer_growing(&out);
    fed_status status = feddc_trace_events(trace, name, zero, &out);
    if (status != FED_OK) {
        fed_fail(err, status, "out of memory to write the trace %s", part);
    } else {
        status = fed_file_replace(part, out.data, out.len, 0644, err);
    }
    fed_writer_free(&out);
    return status;
}

static fed_status merge_part(fed_file *file, const char *path, uint32_t rank, bool *there,
                             fed_error *err) {
    char part[PATH];
    uint8_t *data = NULL;
    size_t len = 0;
    fed_error why = {0};
    part_path(path, rank, part);
    fed_status status = fed_file_read(part, largest_part, &data, &len, &why);
    *there = status == FED_OK;
    if (status == FED_ENOTFOUND) {
        return FED_OK;
    }
    status = status == FED_OK ? fed_file_put(file, data, len, err)
                              : fed_fail(err, status, "%s", why.text);
    free(data);
    return status;
}

static fed_status merge(fed_file *file, const char *path, uint32_t ranks, fed_error *err) {
    static const char head[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    char text[NAME];
    uint32_t found = 0;
    FED_TRY(fed_file_put(file, head, sizeof head - 1, err));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        bool there = false;
        FED_TRY(merge_part(file, path, rank, &there, err));
        found += there;
        if (!there) {
            const int len = snprintf(text, sizeof text,
                                     "{\"ph\":\"M\",\"pid\":%u,\"tid\":0,\"name\":\"process_name\","
                                     "\"args\":{\"name\":\"worker %u left no trace\"}},\n",
                                     rank, rank);
            FED_TRY(fed_file_put(file, text, (size_t)len, err));
        }
    }
    if (found == 0) {
        return fed_fail(err, FED_ENOTFOUND,
                        "no worker has written its part of the trace: there is no file %s.RANK",
                        path);
    }
    /* JSON allows no comma after the last event, so this event, which always exists, has none. */
    const int len =
        snprintf(text, sizeof text,
                 "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_labels\",\"args\":"
                 "{\"labels\":\"traces of %u of %u workers\"}}\n]}\n",
                 found, ranks);
    return fed_file_put(file, text, (size_t)len, err);
}

fed_status feddc_trace_merge(const char *path, uint32_t ranks, fed_error *err) {
    fed_file file;
    FED_TRY(fed_file_create(path, FED_FILE_OUTPUT | 0644, &file, err));
    const fed_status status = merge(&file, path, ranks, err);
    if (status != FED_OK) {
        fed_file_abandon(&file);
        return status;
    }
    FED_TRY(fed_file_commit(&file, err));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        char part[PATH];
        part_path(path, rank, part);
        unlink(part);
    }
    return FED_OK;
}

feddc_means feddc_times_means(const feddc_times *t) {
    if (t->steps == 0) {
        return (feddc_means){0};
    }
    const double each = 1 / (double)t->steps;
    const double codec = t->encode + t->decode;
    return (feddc_means){
        .step = each * t->step,
        .compute = each * t->compute,
        .codec = each * codec,
        .sum = each * t->sum,
        .wire = each * fmax(0, t->exchange - codec - t->sum),
        .exchange = each * t->exchange,
        .exposed = each * t->exposed,
        .hidden = t->exposed < t->exchange ? 1 - t->exposed / t->exchange : 0,
    };
}

static void add_times(feddc_times *all, const feddc_times *more) {
    all->steps += more->steps;
    all->step += more->step;
    all->compute += more->compute;
    all->encode += more->encode;
    all->decode += more->decode;
    all->sum += more->sum;
    all->exchange += more->exchange;
    all->exposed += more->exposed;
    all->sent += more->sent;
    all->received += more->received;
}

static void write_line(const char *who, const feddc_times *times, double ranks, fed_writer *out) {
    const feddc_means m = feddc_times_means(times);
    fed_write_printf(out, "%-5s %8.0f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %7.1f", who,
                     (double)times->steps / ranks, 1e3 * m.step, 1e3 * m.compute, 1e3 * m.codec,
                     1e3 * m.sum, 1e3 * m.wire, 1e3 * m.exchange, 1e3 * m.exposed, 100 * m.hidden);
    fed_write_printf(out, " %10.3f %10.3f\n", 1e-6 * (double)times->sent / ranks,
                     1e-6 * (double)times->received / ranks);
}

void feddc_times_table(const feddc_times *ranks, uint32_t count, const char *rule, double predicted,
                       fed_writer *out) {
    feddc_times all = {0};
    fed_write_printf(out,
                     "A mean step, in ms; sent and received: MB in all\n"
                     "%-5s %8s %9s %9s %9s %9s %9s %9s %9s %7s %10s %10s\n",
                     "rank", "steps", "step", "compute", "codec", "sum", "wire", "exchange",
                     "exposed", "hidden%", "sent", "received");
    for (uint32_t r = 0; r < count; r++) {
        char who[16];
        snprintf(who, sizeof who, "%u", r);
        write_line(who, &ranks[r], 1, out);
        add_times(&all, &ranks[r]);
    }
    if (count > 1) {
        write_line("mean", &all, count, out);
    }
    const double measured = feddc_times_means(&all).step;
    if (rule != NULL && measured > 0) {
        fed_write_printf(out,
                         "The cost model says %.3f ms for a step of %s: %.2f of what it took.\n",
                         1e3 * predicted, rule, predicted / measured);
    }
}

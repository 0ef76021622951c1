/* Traces: what a trace file has for a viewer; clocks; the table of a mean step. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"
#include "feddc/trace.h"

enum { MS = 1000000 };

typedef struct world {
    char directory[256], path[300];
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(w->path, sizeof w->path, "%s/run.json", w->directory);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static feddc_trace *open_trace(uint32_t rank, uint32_t ranks, size_t spans) {
    fed_error err = {0};
    feddc_trace *trace = NULL;
    assert_fed_ok_err(feddc_trace_open(rank, ranks, spans, &trace, &err));
    return trace;
}

static void add(feddc_trace *trace, uint32_t row, feddc_what what, uint32_t step, uint64_t begin,
                uint64_t end) {
    const feddc_span span = {begin * MS, end * MS, 0, step, UINT32_MAX, what};
    feddc_trace_add(trace, row, &span);
}

static json_t *merged(const world *w, feddc_trace *const *traces, size_t count, uint32_t ranks,
                      const char *name, uint64_t zero) {
    fed_error err = {0};
    for (size_t k = 0; k < count; k++) {
        assert_fed_ok_err(feddc_trace_write(traces[k], name, zero, w->path, &err));
    }
    assert_fed_ok_err(feddc_trace_merge(w->path, ranks, &err));
    json_error_t why;
    json_t *root = json_load_file(w->path, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL) {
        fail_msg("line %d: %s", why.line, why.text);
    }
    return root;
}

static json_int_t number(const json_t *event, const char *key) {
    const json_t *value = json_object_get(event, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static const char *text(const json_t *event, const char *key) {
    return json_string_value(json_object_get(event, key));
}

static json_t *event_of(const json_t *root, const char *phase, const char *name, json_int_t pid,
                        size_t k) {
    size_t i;
    json_t *event;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        if (strcmp(text(event, "ph"), phase) == 0 && strcmp(text(event, "name"), name) == 0 &&
            number(event, "pid") == pid && k-- == 0) {
            return event;
        }
    }
    return NULL;
}

static const char *called(const json_t *root, const char *kind, json_int_t pid, json_int_t tid) {
    const json_t *event;
    for (size_t k = 0; (event = event_of(root, "M", kind, pid, k)) != NULL; k++) {
        if (number(event, "tid") == tid) {
            return text(json_object_get(event, "args"), "name");
        }
    }
    return "";
}

static const char *thread_of(const json_t *root, const json_t *span) {
    return called(root, "thread_name", number(span, "pid"), number(span, "tid"));
}

FED_TEST_WITH(the_file_has_a_process_for_each_rank_and_a_thread_for_each_row, const world *w) {
    feddc_trace *traces[2] = {open_trace(0, 2, 100), open_trace(1, 2, 100)};
    const feddc_span sent = {12 * MS, 15 * MS, 4096, 7, 3, FEDDC_SEND};
    add(traces[0], FEDDC_ROW_COMPUTE, FEDDC_FORWARD_PASS, 7, 1, 4);
    add(traces[0], FEDDC_ROW_COMPUTE, FEDDC_BACKWARD_PASS, 7, 4, 12);
    add(traces[0], FEDDC_ROW_ENGINE, FEDDC_ENCODE, 7, 11, 12);
    feddc_trace_add(traces[0], FEDDC_ROW_PEER + 1, &sent);
    add(traces[0], FEDDC_ROW_PEER + 1, FEDDC_RECEIVE, 7, 13, 13);
    add(traces[1], FEDDC_ROW_BUCKETS, FEDDC_EXCHANGE, 7, 2, 9);
    json_t *root = merged(w, traces, 2, 2, "worker", 0);

    assert_string_equal(called(root, "process_name", 0, 0), "worker");
    assert_string_equal(called(root, "process_name", 1, 0), "worker");
    const json_t *backward = event_of(root, "X", "backward", 0, 0);
    assert_non_null(backward);
    assert_string_equal(thread_of(root, backward), "compute");
    assert_int_equal(number(backward, "ts"), 4000);
    assert_int_equal(number(backward, "dur"), 8000);
    assert_int_equal(number(json_object_get(backward, "args"), "step"), 7);
    assert_null(json_object_get(json_object_get(backward, "args"), "bucket"));
    assert_string_equal(thread_of(root, event_of(root, "X", "encode", 0, 0)), "engine");
    assert_string_equal(thread_of(root, event_of(root, "X", "exchange", 1, 0)), "buckets");
    const json_t *send = event_of(root, "X", "send", 0, 0);
    assert_string_equal(thread_of(root, send), "to 1");
    const json_t *receive = event_of(root, "X", "receive", 0, 0);
    assert_string_equal(thread_of(root, receive), "from 1");
    assert_int_equal(number(json_object_get(send, "args"), "bucket"), 3);
    assert_int_equal(number(json_object_get(send, "args"), "bytes"), 4096);
    json_decref(root);
    feddc_trace_close(traces[0]);
    feddc_trace_close(traces[1]);
}

FED_TEST_WITH(spans_of_a_thread_never_overlap, const world *w) {
    feddc_trace *trace = open_trace(0, 2, 100);
    /* Five buckets overlap. One comes after them, and one ends where the first begins. */
    for (uint32_t k = 0; k < 5; k++) {
        add(trace, FEDDC_ROW_BUCKETS, FEDDC_EXCHANGE, k, 10 + k, 30 + 2 * k);
    }
    add(trace, FEDDC_ROW_BUCKETS, FEDDC_EXCHANGE, 5, 38, 39);
    add(trace, FEDDC_ROW_BUCKETS, FEDDC_EXCHANGE, 6, 8, 10);
    json_t *root = merged(w, &trace, 1, 1, "worker", 0);

    uint64_t end[2000] = {0};
    size_t i, spans = 0;
    json_t *event;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        if (strcmp(text(event, "ph"), "X") == 0) {
            const json_int_t tid = number(event, "tid");
            assert_in_range(tid, 1, 1999);
            assert_true((uint64_t)number(event, "ts") >= end[tid]);
            end[tid] = (uint64_t)(number(event, "ts") + number(event, "dur"));
            spans++;
        }
    }
    assert_int_equal(spans, 7);
    assert_string_equal(thread_of(root, event_of(root, "X", "exchange", 0, 0)), "buckets");
    assert_string_equal(thread_of(root, event_of(root, "X", "exchange", 0, 2)), "buckets #2");
    json_decref(root);
    feddc_trace_close(trace);
}

FED_TEST_WITH(messages_to_a_peer_are_drawn_end_to_end, const world *w) {
    feddc_trace *trace = open_trace(0, 2, 3); /* room for three spans, so the first is dropped */
    add(trace, FEDDC_ROW_PEER + 1, FEDDC_SEND, 0, 1, 9);
    add(trace, FEDDC_ROW_PEER + 1, FEDDC_SEND, 1, 10, 20);
    add(trace, FEDDC_ROW_PEER + 1, FEDDC_SEND, 2, 10, 25);
    add(trace, FEDDC_ROW_PEER + 1, FEDDC_SEND, 3, 11, 26);
    json_t *root = merged(w, &trace, 1, 1, "worker", 0);
    const json_int_t begins[] = {10000, 20000, 25000}, lengths[] = {10000, 5000, 1000};
    for (size_t k = 0; k < 3; k++) {
        const json_t *send = event_of(root, "X", "send", 0, k);
        assert_int_equal(number(send, "ts"), begins[k]);
        assert_int_equal(number(send, "dur"), lengths[k]);
        assert_string_equal(thread_of(root, send), "to 1 (1 spans are missing)");
    }
    json_decref(root);
    feddc_trace_close(trace);
}

FED_TEST_WITH(when_the_ring_is_full_the_oldest_go_and_are_counted, const world *w) {
    feddc_trace *trace = open_trace(0, 1, 4);
    for (uint32_t k = 0; k < 10; k++) {
        add(trace, FEDDC_ROW_COMPUTE, FEDDC_FORWARD_PASS, k, k, k + 1);
    }
    json_t *root = merged(w, &trace, 1, 1, "worker", 0);
    for (size_t k = 0; k < 4; k++) {
        const json_t *span = event_of(root, "X", "forward", 0, k);
        assert_int_equal(number(json_object_get(span, "args"), "step"), 6 + (json_int_t)k);
        assert_string_equal(thread_of(root, span), "compute (6 spans are missing)");
    }
    assert_null(event_of(root, "X", "forward", 0, 4));
    json_decref(root);
    feddc_trace_close(trace);
}

FED_TEST_WITH(more_spans_at_once_than_threads_are_counted_too, const world *w) {
    feddc_trace *trace = open_trace(0, 1, 100);
    for (uint32_t k = 0; k < 70; k++) {
        add(trace, FEDDC_ROW_BUCKETS, FEDDC_EXCHANGE, k, 10 + k, 1000);
    }
    json_t *root = merged(w, &trace, 1, 1, "worker", 0);
    assert_non_null(event_of(root, "X", "exchange", 0, 63));
    assert_null(event_of(root, "X", "exchange", 0, 64));
    assert_string_equal(thread_of(root, event_of(root, "X", "exchange", 0, 0)),
                        "buckets (6 spans are missing)");
    json_decref(root);
    feddc_trace_close(trace);
}

FED_TEST_WITH(a_name_from_outside_stays_a_string, const world *w) {
    feddc_trace *trace = open_trace(0, 1, 4);
    json_t *root = merged(w, &trace, 1, 1, "a \"b\" \\ c\n\x01\xff \xc3\xa9", 0);
    assert_string_equal(called(root, "process_name", 0, 0), "a \"b\" \\ c??? \xc3\xa9");
    json_decref(root);
    feddc_trace_close(trace);
}

FED_TEST_WITH(times_count_from_zero, const world *w) {
    feddc_trace *trace = open_trace(0, 1, 4);
    add(trace, FEDDC_ROW_COMPUTE, FEDDC_FORWARD_PASS, 0, 90, 110);
    add(trace, FEDDC_ROW_COMPUTE, FEDDC_BACKWARD_PASS, 0, 110, 130);
    json_t *root = merged(w, &trace, 1, 1, "worker", 100 * MS);
    const json_t *forward = event_of(root, "X", "forward", 0, 0);
    assert_int_equal(number(forward, "ts"), 0);
    assert_int_equal(number(forward, "dur"), 10000);
    assert_int_equal(number(event_of(root, "X", "backward", 0, 0), "ts"), 10000);
    json_decref(root);
    feddc_trace_close(trace);
}

FED_TEST_WITH(a_rank_without_a_part_is_named, const world *w) {
    feddc_trace *trace = open_trace(2, 3, 4);
    add(trace, FEDDC_ROW_COMPUTE, FEDDC_WAIT, 0, 1, 2);
    json_t *root = merged(w, &trace, 1, 3, "worker 2", 0);
    assert_string_equal(called(root, "process_name", 0, 0), "worker 0 left no trace");
    assert_string_equal(called(root, "process_name", 1, 0), "worker 1 left no trace");
    assert_string_equal(called(root, "process_name", 2, 0), "worker 2");
    assert_non_null(event_of(root, "X", "wait", 2, 0));
    char part[320];
    snprintf(part, sizeof part, "%s.2", w->path);
    assert_int_not_equal(access(part, F_OK), 0);
    json_decref(root);
    feddc_trace_close(trace);
}

FED_TEST_WITH(nothing_to_merge_is_an_error_and_makes_no_file, const world *w) {
    fed_error err = {0};
    assert_fed_status(feddc_trace_merge(w->path, 3, &err), FED_ENOTFOUND);
    assert_fed_says(err, "run.json.RANK");
    assert_int_not_equal(access(w->path, F_OK), 0);
}

/* Merge with a limit on the length of files, as on a full disk. */
static fed_status merge_within(const world *w, rlim_t most, fed_error *err) {
    struct rlimit kept;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &kept), 0);
    const struct rlimit small = {.rlim_cur = most, .rlim_max = kept.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const fed_status status = feddc_trace_merge(w->path, 1, err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &kept), 0);
    return status;
}

FED_TEST_WITH(a_disk_that_is_full_at_the_last_byte_leaves_the_parts_and_no_file, const world *w) {
    fed_error err = {0};
    struct stat whole;
    feddc_trace *trace = open_trace(0, 1, 4);
    add(trace, FEDDC_ROW_COMPUTE, FEDDC_FORWARD_PASS, 0, 1, 2);
    json_decref(merged(w, &trace, 1, 1, "worker", 0));
    assert_int_equal(stat(w->path, &whole), 0);
    assert_int_equal(unlink(w->path), 0);
    assert_fed_ok_err(feddc_trace_write(trace, "worker", 0, w->path, &err));
    assert_fed_status(merge_within(w, (rlim_t)whole.st_size - 1, &err), FED_EIO);
    assert_fed_says(err, "run.json");
    assert_int_not_equal(access(w->path, F_OK), 0);
    assert_fed_ok_err(merge_within(w, (rlim_t)whole.st_size, &err));
    assert_int_equal(access(w->path, F_OK), 0);
    feddc_trace_close(trace);
}

FED_TEST_WITH(no_trace_does_no_harm, const world *w) {
    const feddc_span span = {1, 2, 0, 0, 0, FEDDC_SEND};
    fed_error err = {0};
    fed_writer out;
    fed_writer_growing(&out);
    feddc_trace_add(NULL, 0, &span);
    assert_fed_ok(feddc_trace_events(NULL, "none", 0, &out));
    assert_fed_ok_err(feddc_trace_write(NULL, "none", 0, w->path, &err));
    assert_int_equal(out.len, 0);
    feddc_trace_close(NULL);
    fed_writer_free(&out);
}

FED_TEST(what_does_not_exist_is_refused_or_ignored) {
    fed_error err = {0};
    feddc_trace *trace = NULL;
    assert_fed_status(feddc_trace_open(2, 2, 4, &trace, &err), FED_EINVAL);
    assert_fed_says(err, "rank 2");
    assert_fed_status(feddc_trace_open(0, 2, 0, &trace, &err), FED_EINVAL);
    assert_fed_says(err, "at least one span");
    trace = open_trace(0, 2, 4);
    add(trace, FEDDC_ROW_PEER + 2, FEDDC_SEND, 0, 1, 2);
    add(trace, FEDDC_ROW_ENGINE, FEDDC_WHATS, 0, 1, 2);
    fed_writer out;
    fed_writer_growing(&out);
    assert_fed_ok(feddc_trace_events(trace, "worker", 0, &out));
    fed_write_u8(&out, 0);
    assert_null(strstr((const char *)out.data, "\"ph\":\"X\""));
    fed_writer_free(&out);
    feddc_trace_close(trace);
}

FED_TEST(the_least_round_trip_tells_the_offset) {
    uint64_t error = 0;
    /* The other clock is 1,000 behind; only the second answer came quickly. */
    const feddc_clock_sample samples[] = {
        {5000, 4090, 5100}, {6000, 5005, 6010}, {7000, 6010, 7500}, {9000, 1, 8000}};
    assert_int_equal(feddc_trace_offset(samples, 4, &error), 1000);
    assert_int_equal(error, 5);
    const feddc_clock_sample ahead = {100, 5000102, 104};
    assert_int_equal(feddc_trace_offset(&ahead, 1, NULL), -5000000);
    assert_int_equal(feddc_trace_offset(samples, 0, &error), 0);
    assert_true(error == UINT64_MAX);
    /* An answer before its question is impossible. */
    assert_int_equal(feddc_trace_offset(&samples[3], 1, &error), 0);
    assert_true(error == UINT64_MAX);
}

FED_TEST(means_say_what_was_hidden) {
    const feddc_times times = {.steps = 10,
                               .step = 0.5,
                               .compute = 0.4,
                               .encode = 0.01,
                               .decode = 0.02,
                               .sum = 0.03,
                               .exchange = 0.2,
                               .exposed = 0.05};
    const feddc_means m = feddc_times_means(&times);
    assert_true(fabs(m.step - 0.05) < 1e-12);
    assert_true(fabs(m.compute - 0.04) < 1e-12);
    assert_true(fabs(m.codec - 0.003) < 1e-12);
    assert_true(fabs(m.wire - 0.014) < 1e-12);
    assert_true(fabs(m.codec + m.sum + m.wire - m.exchange) < 1e-12);
    assert_true(fabs(m.hidden - 0.75) < 1e-12);
    const feddc_times all_exposed = {.steps = 1, .exchange = 1, .exposed = 1.1};
    assert_true(feddc_times_means(&all_exposed).hidden == 0);
    const feddc_times none = {0};
    assert_true(feddc_times_means(&none).step == 0);
    assert_true(feddc_times_means(&none).hidden == 0);
}

FED_TEST(the_table_has_a_line_a_rank_a_mean_and_the_prediction) {
    const feddc_times ranks[2] = {
        {.steps = 10, .step = 0.4, .exchange = 0.1, .exposed = 0.1, .sent = 3000000},
        {.steps = 10, .step = 0.6, .exchange = 0.1, .exposed = 0, .sent = 1000000}};
    fed_writer out;
    fed_writer_growing(&out);
    feddc_times_table(ranks, 2, "ssgd", 0.045, &out);
    fed_write_u8(&out, 0);
    assert_fed_ok(out.status);
    const char *table = (const char *)out.data;
    assert_non_null(strstr(table, "\n0 "));
    assert_non_null(strstr(table, "\n1 "));
    const char *mean = strstr(table, "\nmean ");
    assert_non_null(mean);
    assert_non_null(strstr(mean, " 50.000 "));
    assert_non_null(strstr(mean, " 50.0 ")); /* half of the exchange was hidden */
    assert_non_null(strstr(mean, " 2.000 "));
    assert_non_null(strstr(mean, "45.000 ms for a step of ssgd: 0.90 of what it took"));
    fed_writer_free(&out);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}

/* Tables that compare several runs, and the summary of one run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/report/run_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/report/amounts.h"
#include "deploy/sim/report/chart.h"
#include "deploy/sim/report/seeds.h"

enum { CELL = 80 };

/** Do other keys decide the key `id` in all runs? */
static bool follows(const sim_result *runs, size_t count, sim_key_id id) {
    size_t idle = 0;
    while (idle < count && sim_scenario_idle(&runs[idle].scenario, id)) {
        idle++;
    }
    return idle == count;
}

size_t sim_runs_differ(const sim_result *runs, size_t count, sim_key_id keys[SIM_KEYS]) {
    size_t found = 0;
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        const char *first = count > 0 ? runs[0].scenario.value[id] : NULL;
        bool same = true;
        for (size_t k = 1; k < count; k++) {
            const char *other = runs[k].scenario.value[id];
            same = same && strcmp(first != NULL ? first : "", other != NULL ? other : "") == 0;
        }
        if (!same && !sim_keys[id].machine && !follows(runs, count, id)) {
            keys[found++] = id;
        }
    }
    return found;
}

const char *sim_run_letter(size_t index, char dst[24]) {
    if (index < 26) {
        snprintf(dst, 24, "%c", (char)('A' + index));
    } else {
        snprintf(dst, 24, "%zu", index + 1);
    }
    return dst;
}

static void say_ratio(double ratio, char dst[CELL]) {
    if (isfinite(ratio)) {
        snprintf(dst, CELL, ratio < 9.95 ? "x%.2f" : ratio < 99.5 ? "x%.1f" : "x%.0f", ratio);
    } else {
        snprintf(dst, CELL, "-");
    }
}

static void say_share(double share, char dst[CELL]) {
    snprintf(dst, CELL, isfinite(share) ? "%.2f %%" : "-", 100 * share);
}

static void say_bits(double bits, char dst[CELL]) {
    snprintf(dst, CELL, isfinite(bits) ? "%.3g" : "-", bits);
}

static void say_accuracy(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    (void)t;
    say_share(sim_log_accuracy(log), dst);
}

/** Nothing is said where no client holds anything back. */
static void say_worst(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    sim_personal p = {0};
    (void)t;
    const bool some = sim_log_personal(log, &p) == FED_OK && p.clients > 0;
    say_share(some ? p.shared_worst : (double)NAN, dst);
}

static void say_rounds(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    (void)t;
    snprintf(dst, CELL, "%zu%s", log->round_count, log->finished ? "" : ", stopped");
}

static void say_up(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    char text[24];
    snprintf(dst, CELL, "%s",
             sim_bytes_text((double)t->up_bytes / (double)log->client_count, text));
}

static void say_down(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    char text[24];
    snprintf(dst, CELL, "%s",
             sim_bytes_text((double)t->down_bytes / (double)log->client_count, text));
}

static void say_compression(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    (void)log;
    say_ratio(t->compression, dst);
}

static void say_each_round(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    (void)log;
    say_ratio(t->compression_round, dst);
}

static void say_both(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    (void)log;
    say_ratio(t->compression_both, dst);
}

static void say_up_bits(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    (void)log;
    say_bits(t->up_bits, dst);
}

static void say_down_bits(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    (void)log;
    say_bits(t->down_bits, dst);
}

static void say_virtual(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    char text[24];
    (void)log;
    snprintf(dst, CELL, "%s", sim_time_text(t->virtual_s, text));
}

static void say_wall(const sim_log *log, const sim_totals *t, char dst[CELL]) {
    char text[24];
    (void)t;
    snprintf(dst, CELL, "%s", sim_time_text(log->wall_s, text));
}

typedef void (*say_cell)(const sim_log *log, const sim_totals *t, char dst[CELL]);

static const struct {
    const char *name, *meaning;
    say_cell say;
} columns[] = {
    {"accuracy", "accuracy of the last model that was measured, on the test data", say_accuracy},
    {"worst tenth", "mean of the tenth of the clients whom the model serves worst", say_worst},
    {"rounds", "rounds committed", say_rounds},
    {"up/client", "bytes sent, per client", say_up},
    {"down/client", "bytes received, per client", say_down},
    {"up: vs steps", "times fewer bytes up than float32 gradients of every local step",
     say_compression},
    {"vs rounds", "times fewer bytes up than one float32 update for each that counted",
     say_each_round},
    {"both: vs steps", "times fewer bytes up and down than float32 both ways at every local step",
     say_both},
    {"bits up", "bits per value of the updates that counted", say_up_bits},
    {"bits down", "bits per value of the models' deltas", say_down_bits},
    {"virtual", "time in the simulated world", say_virtual},
    {"wall", "time that the run took", say_wall},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/** List the columns to show: that of the worst tenth only where a run has it. Returns how many. */
static size_t choose_columns(const sim_result *runs, size_t count, size_t shown[COLUMNS]) {
    size_t found = 0;
    for (size_t c = 0; c < COLUMNS; c++) {
        bool some = columns[c].say != say_worst;
        for (size_t k = 0; k < count && !some; k++) {
            char cell[CELL];
            say_worst(&runs[k].log, NULL, cell);
            some = strcmp(cell, "-") != 0;
        }
        shown[found] = c;
        found += some;
    }
    return found;
}

/** Count the characters, not the bytes, of a text in UTF-8. */
static size_t length_of(const char *text) {
    size_t n = 0;
    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return n;
}

static void pad(fed_writer *w, size_t wide, const char *text, bool right) {
    const size_t len = length_of(text);
    const int blanks = len < wide ? (int)(wide - len) : 0;
    if (right) {
        fed_write_printf(w, "%*s%s", blanks, "", text);
    } else {
        fed_write_printf(w, "%s%*s", text, blanks, "");
    }
}

void sim_table_text(const sim_result *runs, size_t count, fed_writer *w) {
    size_t wide[COLUMNS], shown[COLUMNS], name = strlen("run");
    const size_t column_count = choose_columns(runs, count, shown);
    char cell[CELL];
    for (size_t k = 0; k < count; k++) {
        name = length_of(runs[k].name) > name ? length_of(runs[k].name) : name;
    }
    for (size_t c = 0; c < column_count; c++) {
        wide[c] = strlen(columns[shown[c]].name);
        for (size_t k = 0; k < count; k++) {
            const sim_totals t = sim_log_totals(&runs[k].log);
            columns[shown[c]].say(&runs[k].log, &t, cell);
            wide[c] = length_of(cell) > wide[c] ? length_of(cell) : wide[c];
        }
    }
    pad(w, name, "run", false);
    for (size_t c = 0; c < column_count; c++) {
        pad(w, wide[c] + 2, columns[shown[c]].name, true);
    }
    fed_write_printf(w, "\n");
    for (size_t k = 0; k < count; k++) {
        const sim_totals t = sim_log_totals(&runs[k].log);
        pad(w, name, runs[k].name, false);
        for (size_t c = 0; c < column_count; c++) {
            columns[shown[c]].say(&runs[k].log, &t, cell);
            pad(w, wide[c] + 2, cell, true);
        }
        fed_write_printf(w, "\n");
    }
}

/** Return whether the runs are cells of a grid, whose names list keys and values with '='. */
static bool is_grid(const sim_result *runs, size_t count) {
    for (size_t k = 0; k < count; k++) {
        if (strchr(runs[k].name, '=') == NULL) {
            return false;
        }
    }
    return true;
}

static void write_key_cells(const sim_result *run, const sim_key_id *keys, size_t count,
                            fed_writer *w) {
    for (size_t k = 0; k < count; k++) {
        const char *value = run->scenario.value[keys[k]];
        fed_write_printf(w, "<td>");
        sim_write_escaped(w, value != NULL ? value : "");
        fed_write_printf(w, "</td>");
    }
}

static void write_html_row(const sim_result *runs, size_t count, size_t index, bool named,
                           const sim_key_id *keys, size_t key_count, fed_writer *w) {
    const sim_result *run = &runs[index];
    const sim_totals t = sim_log_totals(&run->log);
    const size_t style = sim_seeds_group(runs, index);
    const size_t colour = style % SIM_COLOURS, dash = style / SIM_COLOURS % SIM_DASHES;
    char letter[24], cell[CELL];
    size_t shown[COLUMNS];
    fed_write_printf(w,
                     "<tr><td class=\"letter c%zu\">%s<svg class=\"sample\" viewBox=\"0 0 30 8\">"
                     "<path class=\"line c%zu d%zu\" d=\"M1 4H29\"/></svg></td>",
                     colour, sim_run_letter(index, letter), colour, dash);
    if (named) {
        fed_write_printf(w, "<td>");
        sim_write_escaped(w, run->name);
        fed_write_printf(w, "</td>");
    } else {
        write_key_cells(run, keys, key_count, w);
    }
    const size_t column_count = choose_columns(runs, count, shown);
    for (size_t c = 0; c < column_count; c++) {
        columns[shown[c]].say(&run->log, &t, cell);
        fed_write_printf(w, "<td class=\"number\">%s</td>", cell);
    }
    write_key_cells(run, keys, named ? key_count : 0, w);
    fed_write_printf(w, "</tr>\n");
}

static void write_key_heads(const sim_key_id *keys, size_t count, fed_writer *w) {
    for (size_t k = 0; k < count; k++) {
        fed_write_printf(w, "<th>%s</th>", sim_keys[keys[k]].name);
    }
}

/** Write the table. For a grid, the keys that differ come first, instead of names. For other runs,
 * they come after the results. */
void sim_table_html(const sim_result *runs, size_t count, fed_writer *w) {
    sim_key_id keys[SIM_KEYS];
    const size_t key_count = sim_runs_differ(runs, count, keys);
    const bool named = !is_grid(runs, count);
    size_t shown[COLUMNS];
    const size_t column_count = choose_columns(runs, count, shown);
    fed_write_printf(w, "<div class=\"wide\"><table><thead><tr><th></th>%s",
                     named ? "<th>run</th>" : "");
    write_key_heads(keys, named ? 0 : key_count, w);
    for (size_t c = 0; c < column_count; c++) {
        fed_write_printf(w, "<th class=\"number\" title=\"%s\">%s</th>", columns[shown[c]].meaning,
                         columns[shown[c]].name);
    }
    write_key_heads(keys, named ? key_count : 0, w);
    fed_write_printf(w, "</tr></thead><tbody>\n");
    for (size_t k = 0; k < count; k++) {
        write_html_row(runs, count, k, named, keys, key_count, w);
    }
    fed_write_printf(w, "</tbody></table></div>\n");
}

enum { LINES = 20, LINE = 120 };

typedef struct summary {
    const char *name[LINES];
    char value[LINES][LINE];
    size_t count;
} summary;

static FED_PRINTF(3, 4) void add(summary *s, const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    s->name[s->count] = name;
    vsnprintf(s->value[s->count++], LINE, format, args);
    va_end(args);
}

static void add_cpu(summary *s, const char *name, double part_s, const sim_log *log) {
    char text[24];
    add(s, name, "%s (%.0f %%)", sim_time_text(part_s, text),
        log->total_cpu_s > 0 ? 100 * part_s / log->total_cpu_s : 0);
}

static void add_traffic(summary *s, const sim_log *log, const sim_totals *t) {
    const double n = (double)log->client_count;
    char one[24], all[24], ratio[CELL], both[CELL];
    add(s, "up, per client", "%s; all: %s", sim_bytes_text((double)t->up_bytes / n, one),
        sim_bytes_text((double)t->up_bytes, all));
    add(s, "down, per client", "%s; all: %s", sim_bytes_text((double)t->down_bytes / n, one),
        sim_bytes_text((double)t->down_bytes, all));
    say_bits(t->up_bits, ratio);
    say_bits(t->down_bits, both);
    add(s, "bits per value", "%s up, %s down", ratio, both);
    say_ratio(t->compression, ratio);
    say_ratio(t->compression_both, both);
    add(s, "compression", "%s up, %s both ways, against float32 at every local step", ratio, both);
    say_ratio(t->compression_round, ratio);
    add(s, "", "%s up, against float32 once a round, as Federated Averaging sends it", ratio);
}

static void add_personal(summary *s, const sim_log *log) {
    sim_personal p = {0};
    if (sim_log_personal(log, &p) == FED_OK && p.clients > 0) {
        add(s, "for each client",
            "shared model %.2f %%, worst tenth %.2f %%, deviation %.2f points; on %zu clients",
            100 * p.shared, 100 * p.shared_worst, 100 * sqrt(p.shared_variance), p.clients);
    }
    if (p.clients > 0 && !isnan(p.personal)) {
        add(s, "", "personal models %.2f %%, worst tenth %.2f %%", 100 * p.personal,
            100 * p.personal_worst);
    }
}

static void summarise(const sim_log *log, summary *s) {
    const sim_totals t = sim_log_totals(log);
    char text[CELL], time[24];
    say_share(sim_log_accuracy(log), text);
    add(s, "test accuracy", "%s", text);
    if (isnan(sim_log_accuracy(log)) && !isnan(sim_log_test_loss(log))) {
        add(s, "test loss", "%.6g, the mean squared error", sim_log_test_loss(log));
    }
    add_personal(s, log);
    add(s, "rounds", "%zu%s", log->round_count, log->finished ? "" : ", then stopped");
    add(s, "clients", "%zu; %zu took part, %zu hold the coordinator's model bit for bit",
        log->client_count, t.present, t.identical);
    add(s, "updates",
        "%" PRIu64 " counted, %" PRIu64 " refused and kept, %" PRIu64 " uploads broken and resent",
        t.counted, t.refused, t.broken);
    add_traffic(s, log, &t);
    add(s, "virtual time", "%s", sim_time_text(t.virtual_s, time));
    add(s, "wall time", "%s, %.1f updates a second", sim_time_text(log->wall_s, time),
        log->wall_s > 0 ? (double)t.counted / log->wall_s : 0);
    add_cpu(s, "CPU time, training", log->train_cpu_s, log);
    add_cpu(s, "CPU time, testing models", log->evaluate_cpu_s, log);
    if (log->helper_cpu_s > 0) {
        add_cpu(s, "CPU time, the helper", log->helper_cpu_s, log);
    }
    const double named_s = log->train_cpu_s + log->evaluate_cpu_s + log->helper_cpu_s;
    add_cpu(s, "CPU time, all the rest", fmax(0, log->total_cpu_s - named_s), log);
    add(s, "final model", "%016" PRIx64, log->digest);
}

void sim_summary_text(const sim_log *log, fed_writer *w) {
    summary s = {0};
    summarise(log, &s);
    for (size_t k = 0; k < s.count; k++) {
        fed_write_printf(w, "  %-26s%s\n", s.name[k], s.value[k]);
    }
    fed_write_printf(w, "\n  Bytes are HTTP requests and answers with their heads, after "
                        "enrolment; TLS adds its own.\n");
}

void sim_summary_html(const sim_log *log, fed_writer *w) {
    summary s = {0};
    summarise(log, &s);
    fed_write_printf(w, "<table class=\"pairs\"><tbody>\n");
    for (size_t k = 0; k < s.count; k++) {
        fed_write_printf(w, "<tr><th>%s</th><td>%s</td></tr>\n", s.name[k], s.value[k]);
    }
    fed_write_printf(w, "</tbody></table>\n");
}

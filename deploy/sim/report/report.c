/* The HTML page of a run or of several: figures, plots, then the scenario's keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "deploy/sim/report/amounts.h"
#include "deploy/sim/report/curves.h"
#include "deploy/sim/report/run_table.h"
#include "deploy/sim/report/seeds.h"
#include "fed/file.h"

/* Colours for the colour-blind (after Okabe and Ito, 2008), darker on white, lighter on black. */
static const char style[] =
    ":root{color-scheme:light dark;--back:#fff;--front:#1d2126;--soft:#5d6671;--grid:#e3e6ea;"
    "--edge:#aab1ba;--card:#f6f7f9;--c0:#0067a5;--c1:#c64600;--c2:#00795b;--c3:#a8478a;"
    "--c4:#8a6d00;--c5:#3d8fc4;--c6:#6b6f76}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#14171b;--front:#e6e9ed;--soft:#9aa4b0;"
    "--grid:#2b3038;--edge:#59626e;--card:#1c2026;--c0:#56b4e9;--c1:#ff8f4d;--c2:#2fc49a;"
    "--c3:#e79bcb;--c4:#e3c53c;--c5:#9cc8ff;--c6:#aeb5bd}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--front);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    "main{max-width:1340px;margin:0 auto;padding:28px 22px 48px}"
    "h1{font-size:1.55rem;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}"
    "h2{font-size:1.06rem;margin:36px 0 10px}p{margin:4px 0;max-width:80ch}"
    ".sub,.note{color:var(--soft)}.note{font-size:.86rem;margin-top:10px}"
    ".figures{display:flex;flex-wrap:wrap;gap:10px;margin:20px 0 0;padding:0}"
    ".figures div{background:var(--card);border-radius:8px;padding:9px 15px 10px;flex:1 1 130px}"
    ".figures dt{color:var(--soft);font-size:.8rem}"
    ".figures dd{margin:0;font-size:1.3rem;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    ".plots{display:grid;gap:22px 26px;margin-top:26px;"
    "grid-template-columns:repeat(auto-fill,minmax(min(100%,370px),1fr))}"
    ".plots figure{margin:0;max-width:520px}svg{display:block;width:100%;height:auto;"
    "font-family:inherit}"
    "svg text{fill:var(--front);font-size:11.5px}svg .title{font-size:13px;font-weight:600}"
    "svg .tick,svg .name{fill:var(--soft)}svg .tick{font-variant-numeric:tabular-nums}"
    ".grid{stroke:var(--grid);stroke-width:1;fill:none}.axis{stroke:var(--edge);fill:none}"
    ".line{fill:none;stroke-width:1.7;stroke-linejoin:round;stroke-linecap:round}"
    ".band{stroke:none;opacity:.16}.d1{stroke-dasharray:6 3.5}.d2{stroke-dasharray:1.5 3.5}"
    ".cell{fill:var(--c0)}svg .heat{font-size:11.5px;font-variant-numeric:tabular-nums}"
    "svg .on{fill:var(--back)}svg .end{font-weight:600;paint-order:stroke;"
    "stroke:var(--back);stroke-width:3px;stroke-linejoin:round}\n";

static const char table_style[] =
    ".wide{overflow-x:auto}.wide "
    "td{white-space:nowrap}table{border-collapse:collapse;font-size:.88rem}"
    "th,td{text-align:left;padding:5px 14px 5px 0;vertical-align:top;"
    "border-bottom:1px solid var(--grid)}th{color:var(--soft);font-weight:500}"
    "thead th{white-space:nowrap}.number{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}"
    ".seeds th{overflow-wrap:anywhere}.sample{width:30px;height:8px;display:inline-block;"
    "margin-left:7px;vertical-align:middle}.letter{white-space:nowrap}"
    ".pairs td{overflow-wrap:anywhere}.pairs th{white-space:nowrap}"
    ".tables{display:grid;gap:0 44px;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),"
    "1fr))}td.letter{font-weight:700}@media print{main{padding:0}.plots figure{break-inside:avoid}}"
    "\n";

static void write_style(fed_writer *w) {
    fed_write_printf(w, "<style>\n%s%s", style, table_style);
    for (unsigned k = 0; k < SIM_COLOURS; k++) {
        fed_write_printf(w,
                         ".line.c%u{stroke:var(--c%u)}circle.c%u,.band.c%u,svg text.c%u{fill:"
                         "var(--c%u)}td.c%u{color:var(--c%u)}\n",
                         k, k, k, k, k, k, k, k);
    }
    fed_write_printf(w, "</style>\n");
}

static void write_head(const char *title, fed_writer *w) {
    fed_write_printf(w, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                        "<meta name=\"viewport\" content=\"width=device-width, "
                        "initial-scale=1\"/>\n<title>");
    sim_write_escaped(w, title);
    fed_write_printf(w, "</title>\n");
    write_style(w);
    fed_write_printf(w, "</head>\n<body>\n<main>\n<h1>");
    sim_write_escaped(w, title);
    fed_write_printf(w, "</h1>\n");
}

static void write_figure(fed_writer *w, const char *name, const char *value) {
    fed_write_printf(w, "<div><dt>%s</dt><dd>%s</dd></div>\n", name, value);
}

static void write_ratio(fed_writer *w, const char *name, double ratio) {
    char text[32] = "-";
    if (!isnan(ratio)) {
        snprintf(text, sizeof text, "x%.*f", ratio < 99.5 ? 1 : 0, ratio);
    }
    write_figure(w, name, text);
}

static void write_figures(const sim_log *log, fed_writer *w) {
    const sim_totals t = sim_log_totals(log);
    const double n = (double)log->client_count;
    char text[24], ratio[32];
    fed_write_printf(w, "<dl class=\"figures\">\n");
    snprintf(ratio, sizeof ratio, "%.2f %%", 100 * sim_log_accuracy(log));
    write_figure(w, "test accuracy", isnan(sim_log_accuracy(log)) ? "-" : ratio);
    if (isnan(sim_log_accuracy(log)) && !isnan(sim_log_test_loss(log))) {
        snprintf(ratio, sizeof ratio, "%.6g", sim_log_test_loss(log));
        write_figure(w, "test loss, the mean squared error", ratio);
    }
    write_figure(w, "sent, per client", sim_bytes_text((double)t.up_bytes / n, text));
    write_figure(w, "received, per client", sim_bytes_text((double)t.down_bytes / n, text));
    write_ratio(w, "fewer bytes up than float32 at every step", t.compression);
    write_ratio(w, "fewer bytes up than float32 once a round", t.compression_round);
    write_ratio(w, "fewer both ways than float32 at every step", t.compression_both);
    write_figure(w, "virtual time", sim_time_text(t.virtual_s, text));
    write_figure(w, "wall time", sim_time_text(log->wall_s, text));
    fed_write_printf(w, "</dl>\n");
}

typedef struct plot {
    sim_measure x, y[2];
    size_t y_count;
} plot;

static const plot plots[] = {
    {SIM_ROUND, {SIM_ACCURACY}, 1},
    {SIM_UP, {SIM_ACCURACY}, 1},
    {SIM_BOTH, {SIM_ACCURACY}, 1},
    {SIM_TIME, {SIM_ACCURACY}, 1},
    {SIM_ROUND, {SIM_WORST}, 1},
    {SIM_ROUND, {SIM_ERROR}, 1},
    {SIM_ROUND, {SIM_TEST_LOSS, SIM_TRAIN_LOSS}, 2},
    {SIM_ROUND, {SIM_BITS_UP, SIM_BITS_DOWN}, 2},
    {SIM_RANK, {SIM_CLIENT_UP, SIM_CLIENT_DOWN}, 2},
};

static fed_status write_plot(const sim_result *runs, size_t count, const plot *p, fed_writer *w) {
    const size_t together = count == 1 ? p->y_count : 1;
    for (size_t k = 0; k < p->y_count; k += together) {
        fed_write_printf(w, "<figure>");
        FED_TRY(sim_curves_draw(runs, count, p->x, p->y + k, together, w));
        fed_write_printf(w, "</figure>\n");
    }
    return FED_OK;
}

/** Return whether virtual time passed in any run. */
static bool has_time(const sim_result *runs, size_t count) {
    bool some = false;
    for (size_t k = 0; k < count; k++) {
        some = some || sim_log_totals(&runs[k].log).virtual_s > 0;
    }
    return some;
}

/** Return whether accuracy is worth a plot. A model that predicts numbers has only a test loss. */
static bool has_accuracy(const sim_result *runs, size_t count) {
    bool some = false;
    for (size_t k = 0; k < count; k++) {
        const sim_log *log = &runs[k].log;
        some = some || !isnan(sim_log_accuracy(log)) || isnan(sim_log_test_loss(log));
    }
    return some;
}

/** Return whether a model was measured on what clients hold back. */
static bool has_worst(const sim_result *runs, size_t count) {
    bool some = false;
    for (size_t k = 0; k < count; k++) {
        for (size_t r = 0; r < runs[k].log.round_count; r++) {
            some = some || !isnan(runs[k].log.rounds[r].worst_tenth);
        }
    }
    return some;
}

static bool has_plot(const sim_result *runs, size_t count, const plot *p) {
    const bool of_accuracy = p->y[0] == SIM_ACCURACY || p->y[0] == SIM_ERROR;
    return (p->x != SIM_TIME || has_time(runs, count)) &&
           (p->y[0] != SIM_WORST || has_worst(runs, count)) &&
           (!of_accuracy || has_accuracy(runs, count));
}

static fed_status write_plots(const sim_result *runs, size_t count, fed_writer *w) {
    fed_write_printf(w, "<div class=\"plots\">\n");
    const size_t before = w->len;
    fed_write_printf(w, "<figure>");
    const size_t opened = w->len;
    FED_TRY(sim_grid_draw(runs, count, w));
    if (w->len == opened) {
        w->len = before; /* nothing was drawn: remove the empty figure */
    } else {
        fed_write_printf(w, "</figure>\n");
    }
    for (size_t k = 0; k < sizeof plots / sizeof plots[0]; k++) {
        if (has_plot(runs, count, &plots[k])) {
            FED_TRY(write_plot(runs, count, &plots[k], w));
        }
    }
    if (count == 1) {
        fed_write_printf(w, "<figure>");
        FED_TRY(sim_attendance_draw(&runs[0].log, w));
        fed_write_printf(w, "</figure>\n");
    }
    fed_write_printf(w, "</div>\n");
    return FED_OK;
}

static void write_scenario(const sim_result *runs, size_t count, fed_writer *w) {
    sim_key_id differ[SIM_KEYS];
    const size_t differ_count = sim_runs_differ(runs, count, differ);
    size_t at = 0;
    fed_write_printf(w, "<table class=\"pairs\"><tbody>\n");
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        if (at < differ_count && differ[at] == id) {
            at++;
            continue;
        }
        const char *value = runs[0].scenario.value[id];
        if (value != NULL && value[0] != '\0') {
            fed_write_printf(w, "<tr><th title=\"%s\">%s</th><td>", sim_keys[id].meaning,
                             sim_keys[id].name);
            sim_write_escaped(w, value);
            fed_write_printf(w, "</td></tr>\n");
        }
    }
    fed_write_printf(w, "</tbody></table>\n");
}

static void write_builds(const sim_result *runs, size_t count, fed_writer *w) {
    for (size_t k = 0; k < count; k++) {
        bool said = false;
        for (size_t before = 0; before < k && !said; before++) {
            said = strcmp(runs[before].version, runs[k].version) == 0 &&
                   strcmp(runs[before].machine, runs[k].machine) == 0;
        }
        if (!said) {
            fed_write_printf(w, k > 0 ? "; " : "");
            sim_write_escaped(w, runs[k].version);
            fed_write_printf(w, runs[k].machine[0] != '\0' ? ", on " : "");
            sim_write_escaped(w, runs[k].machine);
        }
    }
}

static void write_subtitle(const sim_result *runs, size_t count, fed_writer *w) {
    const sim_log *log = &runs[0].log;
    fed_write_printf(w, "<p class=\"sub\">");
    write_builds(runs, count, w);
    if (count == 1) {
        fed_write_printf(w, "; %zu clients, %zu rounds%s", log->client_count, log->round_count,
                         log->finished ? "" : ", then stopped: --resume goes on");
    } else {
        fed_write_printf(w, "; %zu runs", count);
    }
    fed_write_printf(w, "</p>\n");
}

static void write_tables(const sim_result *runs, size_t count, fed_writer *w) {
    fed_write_printf(w, "<div class=\"tables\">\n");
    if (count == 1) {
        fed_write_printf(w, "<section><h2>Summary</h2>\n");
        sim_summary_html(&runs[0].log, w);
        fed_write_printf(w, "</section>\n");
    }
    fed_write_printf(w, "<section><h2>%s</h2>\n",
                     count == 1 ? "Scenario" : "What all scenarios have in common");
    write_scenario(runs, count, w);
    fed_write_printf(w, "</section>\n</div>\n");
}

static const char footer[] =
    "<p class=\"note\">Bytes are HTTP requests and answers with their heads, after enrolment; TLS "
    "adds its own. \"Fewer\" compares with float32 gradients of every local step, sent one by one, "
    "and for both ways with as much received. Virtual time begins with the first check-in; with "
    "transport https it is real time.</p>\n</main>\n</body>\n</html>\n";

static fed_status write_page(const char *title, const sim_result *runs, size_t count,
                             fed_writer *w) {
    write_head(title, w);
    write_subtitle(runs, count, w);
    if (count == 1) {
        write_figures(&runs[0].log, w);
    } else {
        fed_write_printf(w, "<h2>Runs</h2>\n");
        sim_table_html(runs, count, w);
        sim_seeds_html(runs, count, w);
    }
    FED_TRY(write_plots(runs, count, w));
    write_tables(runs, count, w);
    fed_write_printf(w, "%s", footer);
    return w->status;
}

static const char *title_of(const sim_result *runs, size_t count, char *dst, size_t cap) {
    sim_key_id keys[SIM_KEYS];
    const char *name = runs[0].scenario.value[SIM_NAME];
    const size_t differ = sim_runs_differ(runs, count, keys);
    const bool shared = name != NULL && name[0] != '\0' && (differ == 0 || keys[0] != SIM_NAME);
    if (shared) {
        snprintf(dst, cap, "%s", name);
    } else if (count == 1) {
        snprintf(dst, cap, "%s", runs[0].name);
    } else {
        snprintf(dst, cap, "%zu runs", count);
    }
    return dst;
}

fed_status sim_report_write(const char *path, const char *title, const sim_result *runs,
                            size_t count, fed_error *err) {
    char own[300];
    if (title == NULL || title[0] == '\0') {
        title = title_of(runs, count, own, sizeof own);
    }
    fed_writer w;
    fed_writer_growing(&w);
    fed_status status = write_page(title, runs, count, &w);
    if (status == FED_OK) {
        status = fed_file_replace(path, w.data, w.len, FED_FILE_OUTPUT | 0644, err);
    }
    fed_writer_free(&w);
    return status;
}

/* When the clients are available: reads the conditions, and finds or draws their intervals. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/conditions/presence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/conditions/streams.h"
#include "fed/file.h"
#include "fed/params.h"
#include "fed/rng.h"

#define DAY_US (86400 * (int64_t)1000000)
#define MOST_S 1e9 /* thirty years: the sum of two times stays far from SIM_NEVER */

typedef struct named_process {
    const char *name;
    fed_param params[3];
} named_process;

#define SECONDS(name, value)                                                                       \
    { .key = (name), .preset = (value), .low = 1, .high = 1e8 }

static const named_process processes[] = {
    {"dropout", {SECONDS("on", 3600), SECONDS("off", 600), {.key = NULL}}},
    {"charging", {SECONDS("on", 28800), SECONDS("off", 57600), {.key = NULL}}},
    {"wifi", {SECONDS("on", 36000), SECONDS("off", 14400), {.key = NULL}}},
};

static const fed_param day_params[] = {{.key = "hours", .preset = 8, .low = 0.01, .high = 23.9},
                                       {.key = "spread", .preset = 24, .low = 0, .high = 24},
                                       {.key = NULL}};

static fed_status bad_line(const char *path, size_t line, const char *why, fed_error *err) {
    return fed_fail(err, FED_EFORMAT, "%s:%zu: %s; a line is client,from_s,to_s", path, line, why);
}

/** Read a line of a trace. *any false: the line is blank, a comment, or a heading. */
static fed_status read_line(const char *path, size_t number, const char *text, uint32_t clients,
                            uint32_t *client, sim_interval *interval, bool *any, fed_error *err) {
    *any = false;
    if (text[strspn(text, " \t")] == '\0' || text[0] == '#' ||
        (number == 1 && strncmp(text, "client", 6) == 0)) {
        return FED_OK;
    }
    double field[3];
    for (int i = 0; i < 3; i++) {
        char *end = NULL;
        field[i] = strtod(text, &end);
        const bool any_digits = end != text;
        end += strspn(end, " \t");
        if (!any_digits || *end != (i < 2 ? ',' : '\0')) {
            return bad_line(path, number, "the line is not three numbers", err);
        }
        text = end + (i < 2);
    }
    const double k = field[0], from = field[1], to = field[2];
    if (!(k >= 0 && k < clients && k == floor(k))) {
        return bad_line(path, number, "no client has this number; clients are numbered from 0",
                        err);
    }
    if (!(from >= 0 && from < to && to <= MOST_S)) {
        return bad_line(path, number,
                        "from_s must be 0 or more and less than to_s, to_s at most 1e9", err);
    }
    *client = (uint32_t)k;
    *interval = (sim_interval){(int64_t)(from * 1e6), (int64_t)(to * 1e6)};
    *any = true;
    return FED_OK;
}

/** The lines of a trace, each with a NUL at its end. */
typedef struct trace_lines {
    const char *path, *text;
    size_t len;
} trace_lines;

/** Read all lines. If interval is NULL, count each client's intervals in first[k + 1].
 * Otherwise store them from interval[first[k]] on, and move first[k] past them. */
static fed_status walk_trace(const trace_lines *lines, const sim_condition *c, size_t *first,
                             sim_interval *interval, fed_error *err) {
    const char *path = lines->path, *text = lines->text;
    for (size_t number = 1; text < lines->text + lines->len; number++, text += strlen(text) + 1) {
        uint32_t k = 0;
        sim_interval read;
        bool any = false;
        FED_TRY(read_line(path, number, text, c->clients, &k, &read, &any, err));
        if (!any) {
            continue;
        }
        if (interval == NULL) {
            first[k + 1]++;
            continue;
        }
        if (first[k] > c->first[k] && interval[first[k] - 1].to_us > read.from_us) {
            return bad_line(path, number,
                            "the interval begins before the client's previous one has ended", err);
        }
        interval[first[k]++] = read;
    }
    return FED_OK;
}

static fed_status read_trace(const trace_lines *lines, sim_condition *c, fed_error *err) {
    c->first = calloc(c->clients + 1U, sizeof *c->first);
    FED_REQUIRE(c->first != NULL, FED_ENOMEM);
    FED_TRY(walk_trace(lines, c, c->first, NULL, err));
    for (uint32_t k = 0; k < c->clients; k++) {
        c->first[k + 1] += c->first[k];
    }
    c->interval = malloc((c->first[c->clients] + 1) * sizeof *c->interval);
    size_t *at = malloc((c->clients + 1U) * sizeof *at);
    fed_status status = c->interval != NULL && at != NULL ? FED_OK : FED_ENOMEM;
    if (status == FED_OK) {
        memcpy(at, c->first, (c->clients + 1U) * sizeof *at);
        status = walk_trace(lines, c, at, c->interval, err);
    }
    free(at);
    return status;
}

static fed_status open_trace(const char *path, sim_condition *c, fed_error *err) {
    char *text = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read_text(path, SIZE_MAX / 2, &text, &len, err));
    for (size_t k = 0; k < len; k++) {
        text[k] = (char)(text[k] == '\n' ? '\0' : text[k]);
    }
    c->kind = SIM_TRACE;
    const fed_status status = read_trace(&(trace_lines){path, text, len}, c, err);
    free(text);
    return status;
}

/** Read one condition, such as "charging:on=1,off=2". Changes text. */
static fed_status parse_condition(char *text, sim_condition *c, fed_error *err) {
    if (strncmp(text, "trace:", 6) == 0) {
        return open_trace(text + 6, c, err);
    }
    const char *rest = text;
    fed_word name = fed_word_take(&rest, ":");
    double value[2];
    if (fed_word_is(name, "day")) {
        FED_TRY(fed_params_read("presence", "day", day_params, rest, value, err));
        c->kind = SIM_EVERY_DAY;
        c->hours = value[0];
        c->spread = value[1];
        return FED_OK;
    }
    for (size_t i = 0; i < sizeof processes / sizeof processes[0]; i++) {
        if (fed_word_is(name, processes[i].name)) {
            FED_TRY(fed_params_read("presence", processes[i].name, processes[i].params, rest, value,
                                    err));
            c->kind = SIM_ON_AND_OFF;
            c->on_s = value[0];
            c->off_s = value[1];
            return FED_OK;
        }
    }
    return fed_fail(err, FED_EINVAL,
                    "unknown presence \"%.60s\": write always, dropout, day, charging, wifi or "
                    "trace:FILE, joined by '+'",
                    text);
}

fed_status sim_presence_parse(const char *spec, uint32_t clients, sim_presence *presence,
                              fed_error *err) {
    char text[1024];
    *presence = (sim_presence){0};
    if (spec == NULL || spec[0] == '\0' || strcmp(spec, "always") == 0) {
        return FED_OK;
    }
    if (strlen(spec) >= sizeof text) {
        return fed_fail(err, FED_EINVAL, "the presence's spec is longer than %zu characters",
                        sizeof text - 1);
    }
    memcpy(text, spec, strlen(spec) + 1);
    for (char *part = text; part != NULL;) {
        char *plus = fed_spec_plus(part);
        if (plus != NULL) {
            *plus++ = '\0';
        }
        if (presence->count == SIM_CONDITIONS) {
            return fed_fail(err, FED_EINVAL, "presence has at most %d conditions", SIM_CONDITIONS);
        }
        sim_condition *c = &presence->condition[presence->count++];
        c->clients = clients;
        FED_TRY(parse_condition(part, c, err));
        part = plus;
    }
    return FED_OK;
}

void sim_presence_free(sim_presence *presence) {
    for (size_t i = 0; i < presence->count; i++) {
        free(presence->condition[i].interval);
        free(presence->condition[i].first);
    }
    *presence = (sim_presence){0};
}

static void start_drawing(const sim_attendance *a, size_t i, uint32_t skip, fed_rng *rng) {
    fed_rng_init(rng, a->seed ^ skip * UINT64_C(0x9e3779b97f4a7c15), a->k,
                 SIM_STREAM_PRESENCE + (uint32_t)i);
}

static int64_t draw_us(fed_rng *rng, double mean_s) {
    double s = -mean_s * log(1 - (double)fed_rng_float(rng));
    return 1 + (int64_t)(s * 1e6);
}

/** Draw the interval after a->kept.now[i], the first one from the steady state: the client is on
 * with probability on / (on + off), and the rest of an exponential time is exponential, too. */
static void next_on(sim_attendance *a, size_t i, const sim_condition *c) {
    fed_rng rng;
    uint32_t n = a->kept.drawn[i]++;
    start_drawing(a, i, n, &rng);
    int64_t off_us = draw_us(&rng, c->off_s), on_us = draw_us(&rng, c->on_s);
    bool begins_on = n == 0 && (double)fed_rng_float(&rng) * (c->on_s + c->off_s) < c->on_s;
    int64_t from_us = a->kept.now[i].to_us + (begins_on ? 0 : off_us);
    a->kept.now[i] = (sim_interval){from_us, from_us + on_us};
}

static void next_day(sim_attendance *a, size_t i, const sim_condition *c) {
    fed_rng rng;
    start_drawing(a, i, 0, &rng);
    double phase_h = (double)fed_rng_float(&rng) * c->spread;
    /* The first interval may have begun the day before. */
    int64_t from_us = (int64_t)(phase_h * 3600e6) + DAY_US * ((int64_t)a->kept.drawn[i]++ - 1);
    a->kept.now[i] = (sim_interval){from_us, from_us + (int64_t)(c->hours * 3600e6)};
}

static void next_traced(sim_attendance *a, size_t i, const sim_condition *c) {
    size_t at = c->first[a->k] + a->kept.drawn[i];
    if (at >= c->first[a->k + 1]) {
        a->kept.now[i] = (sim_interval){SIM_NEVER, SIM_NEVER};
        return;
    }
    a->kept.drawn[i]++;
    a->kept.now[i] = c->interval[at];
}

/** Return the interval of condition i that contains the time `us`, or else the next interval. */
static const sim_interval *look(sim_attendance *a, size_t i, int64_t us) {
    const sim_condition *c = &a->presence->condition[i];
    while (a->kept.now[i].to_us <= us && a->kept.now[i].from_us < SIM_NEVER) {
        switch (c->kind) {
        case SIM_ON_AND_OFF:
            next_on(a, i, c);
            break;
        case SIM_EVERY_DAY:
            next_day(a, i, c);
            break;
        case SIM_TRACE:
            next_traced(a, i, c);
            break;
        }
    }
    return &a->kept.now[i];
}

void sim_attendance_open(sim_attendance *a, const sim_presence *presence, uint64_t seed,
                         uint32_t k) {
    *a = (sim_attendance){.presence = presence, .seed = seed, .k = k};
}

int64_t sim_attendance_from(sim_attendance *a, int64_t us) {
    size_t hold = 0; /* how many conditions in a row hold at `us` */
    for (size_t i = 0; hold < a->presence->count && us < SIM_NEVER; i++) {
        int64_t from_us = look(a, i % a->presence->count, us)->from_us;
        hold = from_us <= us ? hold + 1 : 1;
        us = from_us <= us ? us : from_us;
    }
    return us < SIM_NEVER ? us : SIM_NEVER;
}

int64_t sim_attendance_until(sim_attendance *a, int64_t us) {
    int64_t until_us = SIM_NEVER;
    for (size_t i = 0; i < a->presence->count; i++) {
        const sim_interval *now = look(a, i, us);
        int64_t end_us = now->from_us <= us ? now->to_us : us;
        until_us = end_us < until_us ? end_us : until_us;
    }
    return until_us;
}

/* Scenario files: lines of `key = value`. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/scenario/scenario.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"
#include "fed/optimizer_spec.h"

static const char blanks[] = " \t\r";

fed_status sim_scenario_set(sim_scenario *s, sim_key_id id, const char *value, const char *origin,
                            fed_error *err) {
    if (strlen(value) > SIM_VALUE_LIMIT) {
        return fed_fail(err, FED_EINVAL, "%s: key \"%s\": its value is longer than %d characters",
                        origin, sim_keys[id].name, SIM_VALUE_LIMIT);
    }
    char *own = strdup(value), *where = strdup(origin);
    if (own == NULL || where == NULL) {
        free(own);
        free(where);
        return FED_ENOMEM;
    }
    free(s->value[id]);
    free(s->origin[id]);
    s->value[id] = own;
    s->origin[id] = where;
    return FED_OK;
}

static char *trim(char *text, size_t len) {
    while (len > 0 && strchr(blanks, text[len - 1]) != NULL) {
        len--;
    }
    text[len] = '\0';
    return text + strspn(text, blanks);
}

static void cut_comment(char *line) {
    for (char *at = strchr(line, '#'); at != NULL; at = strchr(at + 1, '#')) {
        if (at == line || strchr(blanks, at[-1]) != NULL) {
            *at = '\0';
            return;
        }
    }
}

const sim_pair *sim_scenario_pair(const sim_scenario *s, sim_key_id id) {
    for (size_t p = 0; p < s->pairs; p++) {
        for (size_t k = 0; k < s->pair[p].keys; k++) {
            if (s->pair[p].key[k] == id) {
                return &s->pair[p];
            }
        }
    }
    return NULL;
}

static fed_status find_key(const sim_scenario *s, const char *name, size_t len, const char *origin,
                           bool once, sim_key_id *id, fed_error *err) {
    fed_error why = {0};
    if (sim_key_find(name, len, id, &why) != FED_OK) {
        return fed_fail(err, FED_EINVAL, "%s: %s", origin, why.text);
    }
    if ((once && s->value[*id] != NULL) || sim_scenario_pair(s, *id) != NULL) {
        return fed_fail(err, FED_EINVAL,
                        "%s: key \"%.*s\" was given at %s already; remove one of the two", origin,
                        (int)len, name, s->origin[*id]);
    }
    return FED_OK;
}

/** Find the keys of `a,b,c`. */
static fed_status read_names(const sim_scenario *s, const char *names, const char *origin,
                             bool once, sim_pair *pair, fed_error *err) {
    for (bool more = true; more;) {
        const size_t len = strcspn(names, ",");
        size_t first = strspn(names, blanks), end = len;
        while (end > first && strchr(blanks, names[end - 1]) != NULL) {
            end--;
        }
        if (pair->keys == SIM_PAIR_KEYS) {
            return fed_fail(err, FED_EINVAL, "%s: at most %d keys vary together", origin,
                            SIM_PAIR_KEYS);
        }
        first = first < end ? first : end;
        sim_key_id id = 0;
        FED_TRY(find_key(s, names + first, end - first, origin, once, &id, err));
        for (size_t k = 0; k < pair->keys; k++) {
            if (pair->key[k] == id) {
                return fed_fail(err, FED_EINVAL, "%s: key \"%s\" stands there twice", origin,
                                sim_keys[id].name);
            }
        }
        pair->key[pair->keys++] = id;
        more = names[len] == ',';
        names += len + more;
    }
    return FED_OK;
}

/** Write the k-th values of all alternatives to `dst`, with '|' between them. The last key's values
 * may have commas. */
static fed_status column_of(const char *text, size_t k, size_t keys, fed_writer *dst) {
    for (const char *at = text; at != NULL;) {
        const char *end = at + strcspn(at, "|");
        for (size_t skip = 0; skip < k; skip++) {
            at += strcspn(at, ",");
            FED_REQUIRE(at < end, FED_EINVAL);
            at++;
        }
        const size_t all = (size_t)(end - at), upto = strcspn(at, ",|");
        FED_REQUIRE(k + 1 == keys || at[upto] == ',', FED_EINVAL);
        fed_write_printf(dst, "%s%.*s", dst->len > 0 ? " | " : "",
                         (int)(k + 1 == keys ? all : upto), at);
        at = *end == '|' ? end + 1 : NULL;
    }
    return dst->status;
}

static fed_status take_column(sim_scenario *s, const sim_pair *pair, size_t k, const char *text,
                              const char *origin, fed_error *err) {
    fed_writer column;
    fed_writer_growing(&column);
    fed_status status = column_of(text, k, pair->keys, &column);
    fed_write_printf(&column, "%c", '\0');
    if (status == FED_EINVAL) {
        status = fed_fail(err, status,
                          "%s: each alternative needs %zu values with commas between them, as in "
                          "`strategy,learning_rate = fedavg,0.05 | fedadam,0.01`",
                          origin, pair->keys);
    } else if (status == FED_OK) {
        status = sim_scenario_set(s, pair->key[k], (const char *)column.data, origin, err);
    }
    fed_writer_free(&column);
    return status;
}

/** Read a line `a,b = x,y | z,w`. */
static fed_status take_pair(sim_scenario *s, const char *names, const char *text,
                            const char *origin, bool once, fed_error *err) {
    sim_pair pair = {.keys = 0};
    if (s->pairs == SIM_PAIRS) {
        return fed_fail(err, FED_EINVAL, "%s: at most %d lines have several keys", origin,
                        SIM_PAIRS);
    }
    FED_TRY(read_names(s, names, origin, once, &pair, err));
    for (size_t k = 0; k < pair.keys; k++) {
        FED_TRY(take_column(s, &pair, k, text, origin, err));
    }
    pair.text = strdup(text);
    FED_REQUIRE(pair.text != NULL, FED_ENOMEM);
    s->pair[s->pairs++] = pair;
    return FED_OK;
}

/** Read one line `key = value`; this changes `line`. once: a key may be given only once. */
static fed_status take_line(sim_scenario *s, char *line, const char *origin, bool once,
                            fed_error *err) {
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "%s: \"%.60s\" is not `key = value`; `fedsim keys` lists "
                        "the keys",
                        origin, line);
    }
    const char *name = trim(line, (size_t)(equals - line));
    const char *value = trim(equals + 1, strlen(equals + 1));
    sim_key_id id = 0;
    if (strchr(name, ',') != NULL) {
        return take_pair(s, name, value, origin, once, err);
    }
    FED_TRY(find_key(s, name, strlen(name), origin, once, &id, err));
    return sim_scenario_set(s, id, value, origin, err);
}

fed_status sim_scenario_parse(const char *name, const char *text, sim_scenario *s, fed_error *err) {
    char *copy = strdup(text);
    free(s->file);
    s->file = strdup(name);
    fed_status status = copy != NULL && s->file != NULL ? FED_OK : FED_ENOMEM;
    unsigned number = 0;
    for (char *line = copy; status == FED_OK && line != NULL;) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        cut_comment(line);
        char *content = trim(line, strlen(line));
        char origin[1100];
        snprintf(origin, sizeof origin, "%.1024s:%u", name, ++number);
        status = *content != '\0' ? take_line(s, content, origin, true, err) : FED_OK;
        line = end != NULL ? end + 1 : NULL;
    }
    free(copy);
    return status;
}

fed_status sim_scenario_read(const char *path, sim_scenario *s, fed_error *err) {
    char *text = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read_text(path, SIM_SCENARIO_LIMIT, &text, &len, err));
    fed_status status = strlen(text) == len
                            ? sim_scenario_parse(path, text, s, err)
                            : fed_fail(err, FED_EINVAL,
                                       "%s: this is not a text file: it contains a NUL byte", path);
    free(text);
    return status;
}

fed_status sim_scenario_override(sim_scenario *s, const char *argument, fed_error *err) {
    char *copy = strdup(argument);
    FED_REQUIRE(copy != NULL, FED_ENOMEM);
    fed_status status = take_line(s, copy, "the command line", false, err);
    free(copy);
    return status;
}

fed_status sim_scenario_refuse(const sim_scenario *s, sim_key_id id, const char *why,
                               fed_error *err) {
    return fed_fail(err, FED_EINVAL, "%s: key \"%s\" %s", s->origin[id], sim_keys[id].name, why);
}

fed_status sim_scenario_number(const sim_scenario *s, sim_key_id id, double *value,
                               fed_error *err) {
    const sim_key *key = &sim_keys[id];
    char *end = NULL;
    double v = strtod(s->value[id], &end);
    bool whole = key->kind != SIM_INTEGER || v == floor(v);
    if (end == s->value[id] || *end != '\0' || !(v >= key->low && v <= key->high) || !whole) {
        char why[200];
        snprintf(why, sizeof why, "is \"%.60s\"; it must be %s from %.12g to %.12g", s->value[id],
                 key->kind == SIM_INTEGER ? "a whole number" : "a number", key->low, key->high);
        return sim_scenario_refuse(s, id, why, err);
    }
    *value = v;
    return FED_OK;
}

static bool is_given(const sim_scenario *s, sim_key_id id) {
    return s->value[id] != NULL && s->value[id][0] != '\0';
}

/** Set `rounds` from `iterations`, if that is given, and `local_steps`: at least 1. */
static fed_status complete_rounds(sim_scenario *s, fed_error *err) {
    double iterations = 0;
    if (is_given(s, SIM_ITERATIONS)) {
        FED_TRY(sim_scenario_number(s, SIM_ITERATIONS, &iterations, err));
    }
    if (iterations == 0) {
        return FED_OK;
    }
    const char *steps =
        is_given(s, SIM_LOCAL_STEPS) ? s->value[SIM_LOCAL_STEPS] : sim_keys[SIM_LOCAL_STEPS].preset;
    const double local_steps = strtod(steps, NULL); /* the coordinator checks local_steps */
    char rounds[24];
    snprintf(rounds, sizeof rounds, "%.0f", fmax(1, floor(iterations / fmax(1, local_steps))));
    if (is_given(s, SIM_ROUNDS) && strcmp(s->value[SIM_ROUNDS], rounds) != 0) {
        char why[160];
        snprintf(why, sizeof why,
                 "is \"%.20s\", but iterations and local_steps make %s rounds: leave rounds or "
                 "iterations out",
                 s->value[SIM_ROUNDS], rounds);
        return sim_scenario_refuse(s, SIM_ROUNDS, why, err);
    }
    return sim_scenario_set(s, SIM_ROUNDS, rounds, "iterations and local_steps", err);
}

/** An optimizer that names lr decides on learning_rate, which may say the same or be left out. */
static fed_status complete_rate(sim_scenario *s, fed_error *err) {
    fed_optimizer optimizer;
    if (!sim_scenario_idle(s, SIM_LEARNING_RATE) ||
        fed_optimizer_parse(s->value[SIM_OPTIMIZER], 1, &optimizer, NULL) != FED_OK) {
        return FED_OK; /* the coordinator says what is wrong with the optimizer */
    }
    if (!is_given(s, SIM_LEARNING_RATE)) {
        return sim_scenario_set(s, SIM_LEARNING_RATE, "", "optimizer", err);
    }
    const char *given = s->value[SIM_LEARNING_RATE];
    if ((double)strtof(given, NULL) != optimizer.learning_rate) {
        char why[160];
        snprintf(why, sizeof why,
                 "is \"%.20s\", but optimizer names lr=%g, which counts: leave one of the two out",
                 given, optimizer.learning_rate);
        return sim_scenario_refuse(s, SIM_LEARNING_RATE, why, err);
    }
    return FED_OK;
}

static void say_here(double clients, double offline, char here[24]) {
    snprintf(here, 24, "%.0f", clients - floor(offline * clients));
}

/** Set the defaults of cohort and goal: the clients that are not offline, and the cohort. */
static fed_status complete_cohort(sim_scenario *s, fed_error *err) {
    double clients = 0, offline = 0;
    FED_TRY(sim_scenario_number(s, SIM_CLIENTS, &clients, err));
    FED_TRY(sim_scenario_number(s, SIM_OFFLINE, &offline, err));
    char here[24];
    say_here(clients, offline, here);
    if (!is_given(s, SIM_COHORT)) {
        FED_TRY(sim_scenario_set(s, SIM_COHORT, here, "clients and offline", err));
    }
    if (!is_given(s, SIM_GOAL)) {
        FED_TRY(sim_scenario_set(s, SIM_GOAL, s->value[SIM_COHORT], s->origin[SIM_COHORT], err));
    }
    return FED_OK;
}

/** The task is that of a coordinator of one's own, so the scenario says nothing of it. */
static fed_status empty_task(sim_scenario *s, fed_error *err) {
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        if (!sim_key_of_task(id) || id == SIM_SEED || id == SIM_NAME) {
            continue;
        }
        if (is_given(s, id)) {
            return sim_scenario_refuse(s, id,
                                       "is for the coordinator's task to say: with server leave it "
                                       "out",
                                       err);
        }
        FED_TRY(sim_scenario_set(s, id, "", "the coordinator's task", err));
    }
    return is_given(s, SIM_TRANSPORT) ? FED_OK
                                      : sim_scenario_set(s, SIM_TRANSPORT, "https", "server", err);
}

fed_status sim_scenario_fill(sim_scenario *s, fed_error *err) {
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        if (s->value[id] == NULL && sim_keys[id].preset != NULL) {
            FED_TRY(sim_scenario_set(s, id, sim_keys[id].preset, "the default", err));
        }
    }
    return FED_OK;
}

fed_status sim_scenario_complete(sim_scenario *s, fed_error *err) {
    const bool foreign = is_given(s, SIM_SERVER);
    FED_TRY(foreign ? empty_task(s, err) : complete_rounds(s, err));
    FED_TRY(foreign ? FED_OK : complete_rate(s, err));
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        const sim_key *key = &sim_keys[id];
        const bool spare =
            (id == SIM_DATA && is_given(s, SIM_TRAINERS)) || (foreign && sim_key_of_task(id));
        if (key->preset == NULL && !is_given(s, id) && !spare) {
            return fed_fail(err, FED_EINVAL, "%s: key \"%s\" is missing: %s",
                            s->file != NULL ? s->file : "the command line", key->name,
                            key->meaning);
        }
        if (s->value[id] == NULL) {
            const char *preset = key->preset != NULL ? key->preset : "";
            FED_TRY(sim_scenario_set(s, id, preset, "the default", err));
        }
    }
    return foreign ? FED_OK : complete_cohort(s, err);
}

void sim_scenario_write(const sim_scenario *s, fed_writer *w) {
    for (size_t p = 0; p < s->pairs; p++) {
        for (size_t k = 0; k < s->pair[p].keys; k++) {
            fed_write_printf(w, "%s%s", k > 0 ? "," : "", sim_keys[s->pair[p].key[k]].name);
        }
        fed_write_printf(w, " = %s\n", s->pair[p].text);
    }
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        if (s->value[id] != NULL && sim_scenario_pair(s, id) == NULL) {
            fed_write_printf(w, "%s =%s%s\n", sim_keys[id].name, s->value[id][0] != '\0' ? " " : "",
                             s->value[id]);
        }
    }
}

fed_status sim_scenario_copy(const sim_scenario *from, sim_scenario *to, fed_error *err) {
    *to = (sim_scenario){.file = from->file != NULL ? strdup(from->file) : NULL};
    FED_REQUIRE(from->file == NULL || to->file != NULL, FED_ENOMEM);
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        if (from->value[id] != NULL) {
            FED_TRY(sim_scenario_set(to, id, from->value[id], from->origin[id], err));
        }
    }
    return FED_OK;
}

sim_key_id sim_scenario_difference(const sim_scenario *a, const sim_scenario *b) {
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        const char *x = a->value[id] != NULL ? a->value[id] : "";
        const char *y = b->value[id] != NULL ? b->value[id] : "";
        const bool idle = sim_scenario_idle(a, id) && sim_scenario_idle(b, id);
        if (!sim_keys[id].machine && !idle && strcmp(x, y) != 0) {
            return id;
        }
    }
    return SIM_KEYS;
}

static const char *text_of(const sim_scenario *s, sim_key_id id) {
    return s->value[id] != NULL ? s->value[id] : "";
}

static bool is_everybody(const sim_scenario *s) {
    char here[24];
    say_here(strtod(text_of(s, SIM_CLIENTS), NULL), strtod(text_of(s, SIM_OFFLINE), NULL), here);
    return strcmp(text_of(s, SIM_COHORT), here) == 0;
}

bool sim_scenario_idle(const sim_scenario *s, sim_key_id id) {
    const char *optimizer = text_of(s, SIM_OPTIMIZER);
    switch (id) {
    case SIM_ROUNDS:
        return strtod(text_of(s, SIM_ITERATIONS), NULL) > 0;
    case SIM_LEARNING_RATE:
        return strstr(optimizer, ":lr=") != NULL || strstr(optimizer, ",lr=") != NULL;
    case SIM_COHORT:
        return is_everybody(s);
    case SIM_GOAL:
        return strcmp(text_of(s, SIM_GOAL), text_of(s, SIM_COHORT)) == 0;
    case SIM_DELTA:
    case SIM_PARTICIPATIONS:
    case SIM_APART:
        return text_of(s, SIM_EPSILON)[0] == '\0';
    default:
        return false;
    }
}

void sim_scenario_free(sim_scenario *s) {
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        free(s->value[id]);
        free(s->origin[id]);
    }
    for (size_t p = 0; p < s->pairs; p++) {
        free(s->pair[p].text);
    }
    free(s->file);
    *s = (sim_scenario){0};
}

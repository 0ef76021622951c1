/* Makes the task and the options of a run from a scenario. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/scenario/task_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deploy/sim/conditions/network.h"
#include "deploy/sim/conditions/presence.h"
#include "deploy/sim/conditions/speed.h"
#include "deploy/sim/scenario/helper_key.h"
#include "fedserver/operator.h"

static const char blanks[] = " \t";

/** Make a JSON number of the text. A text that is no number becomes a string, which the coordinator
 * refuses. */
static json_t *number_of(const char *text) {
    json_t *number = json_loads(text, JSON_DECODE_ANY, NULL);
    if (json_is_number(number)) {
        return number;
    }
    json_decref(number);
    return json_string(text);
}

/** Return `mark`, then the file's absolute path. A scenario's paths are relative to the current
 * directory, but a task's paths would be relative to the task file. */
static json_t *path_of(const char *mark, const char *file) {
    char here[SIM_VALUE_LIMIT];
    const bool whole = file[0] == '/' || getcwd(here, sizeof here) == NULL;
    return whole ? json_sprintf("%s%s", mark, file) : json_sprintf("%s%s/%s", mark, here, file);
}

static json_t *value_of(sim_key_id id, const char *text) {
    if (id == SIM_MODEL && text[0] == '@') {
        return path_of("@", text + 1);
    }
    if (sim_keys[id].kind == SIM_TASK_PATH) {
        return path_of("", text);
    }
    return sim_keys[id].kind == SIM_TASK_NUMBER || id == SIM_SEED ? number_of(text)
                                                                  : json_string(text);
}

/* --- Phases: "20: codec_up=sbc:p=0.01 local_steps=10; 60: ..." --- */

static fed_status add_change(const sim_scenario *s, json_t *phase, const char *text, size_t len,
                             fed_error *err) {
    char word[256], why[400];
    snprintf(word, sizeof word, "%.*s", len < sizeof word ? (int)len : (int)sizeof word - 1, text);
    char *equals = strchr(word, '=');
    sim_key_id id = 0;
    fed_error unknown = {.text = "it is not key=value"};
    if (equals == NULL || sim_key_find(word, (size_t)(equals - word), &id, &unknown) != FED_OK) {
        snprintf(why, sizeof why, "holds \"%.100s\": %.200s", word, unknown.text);
        return sim_scenario_refuse(s, SIM_PHASES, why, err);
    }
    return json_object_set_new(phase, sim_keys[id].name, value_of(id, equals + 1)) == 0
               ? FED_OK
               : FED_ENOMEM;
}

static fed_status add_phase(const sim_scenario *s, json_t *list, const char *text, size_t len,
                            fed_error *err) {
    char *after = NULL;
    const unsigned long round = strtoul(text, &after, 10);
    const char *end = text + len, *at = after + strspn(after, blanks);
    if (after == text || at >= end || *at != ':') {
        return sim_scenario_refuse(s, SIM_PHASES,
                                   "must be `ROUND: key=value key=value; ROUND: ...`, such as "
                                   "20: codec_up=sbc:p=0.01 local_steps=10",
                                   err);
    }
    json_t *phase = json_object();
    if (json_array_append_new(list, phase) != 0 ||
        json_object_set_new(phase, "round", json_integer((json_int_t)round)) != 0) {
        return FED_ENOMEM;
    }
    for (at++; at < end;) {
        at += strspn(at, blanks);
        size_t word = strcspn(at, " \t;");
        if (word > 0 && at < end) {
            FED_TRY(add_change(s, phase, at, word, err));
        }
        at += word + (word == 0);
    }
    return FED_OK;
}

static fed_status add_phases(const sim_scenario *s, json_t *list, fed_error *err) {
    for (const char *at = s->value[SIM_PHASES]; *at != '\0';) {
        at += strspn(at, blanks);
        const size_t len = strcspn(at, ";");
        if (len > 0) {
            FED_TRY(add_phase(s, list, at, len, err));
        }
        at += len + (at[len] == ';');
    }
    return FED_OK;
}

/** Turn the coordinator's error "PATH:LINE: what" into one that names the key's place in the
 * scenario. Line k + 2 of the task has keys[k]. */
static fed_status translate(const sim_scenario *s, const sim_key_id *keys, size_t count,
                            const fed_error *why, fed_error *err) {
    const char *colon = strchr(why->text, ':');
    const char *what = colon == NULL ? why->text : colon + 1;
    char *after = NULL;
    const unsigned long line = strtoul(what, &after, 10);
    const bool known = after != what && *after == ':' && line >= 2 && line - 2 < count;
    what = after != what && *after == ':' ? after + 1 : what;
    const char *origin = known ? s->origin[keys[line - 2]] : s->file;
    return fed_fail(err, why->status, "%s: %s", origin != NULL ? origin : "the command line",
                    what + strspn(what, blanks));
}

static fed_status write_key(const sim_scenario *s, sim_key_id id, fed_writer *w, bool first,
                            fed_error *err) {
    json_t *value = id == SIM_PHASES ? json_array() : value_of(id, s->value[id]);
    fed_status status = id == SIM_PHASES ? add_phases(s, value, err) : FED_OK;
    char *text =
        value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(value);
    if (status == FED_OK && text == NULL) {
        status = sim_scenario_refuse(s, id, "is not a text in UTF-8", err);
    }
    if (status == FED_OK) {
        fed_write_printf(w, "%s  \"%s\": %s", first ? "" : ",\n", sim_keys[id].name, text);
    }
    free(text);
    return status;
}

/** With helper=1 the task names the helper's key. */
static fed_status write_helper(const sim_scenario *s, fed_writer *w, bool *written,
                               fed_error *err) {
    char hex[SIM_HELPER_HEX];
    double seed = 0, helper = 0;
    FED_TRY(sim_scenario_number(s, SIM_HELPER, &helper, err));
    FED_TRY(sim_scenario_number(s, SIM_SEED, &seed, err));
    *written = helper > 0;
    if (*written) {
        FED_TRY(sim_helper_hex((uint64_t)seed, hex, err));
        fed_write_printf(w, ",\n  \"helper\": \"%s\"", hex);
    }
    return FED_OK;
}

fed_status sim_task_write(const sim_scenario *s, fed_writer *w, fed_error *err) {
    sim_key_id keys[SIM_KEYS];
    size_t count = 0;
    fed_write_printf(w, "{\n");
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        if (sim_key_of_task(id) && s->value[id] != NULL && s->value[id][0] != '\0') {
            FED_TRY(write_key(s, id, w, count == 0, err));
            keys[count++] = id;
        }
    }
    bool helped = false;
    FED_TRY(write_helper(s, w, &helped, err));
    keys[count] = SIM_HELPER;
    count += helped;
    fed_write_printf(w, "\n}\n");
    FED_TRY(w->status);
    fed_error why = {0};
    if (fedserver_task_check("task", (const char *)w->data, w->len, &why) != FED_OK) {
        return translate(s, keys, count, &why, err);
    }
    return FED_OK;
}

static fed_status read_transport(const sim_scenario *s, sim_options *o, fed_error *err) {
    const char *name = s->value[SIM_TRANSPORT];
    o->transport = strcmp(name, "https") == 0 ? SIM_HTTPS : SIM_INPROC;
    return o->transport == SIM_HTTPS || strcmp(name, "inproc") == 0
               ? FED_OK
               : sim_scenario_refuse(s, SIM_TRANSPORT, "must be inproc or https", err);
}

static fed_status refuse_spec(const sim_scenario *s, sim_key_id id, const fed_error *why,
                              fed_error *err) {
    char text[420];
    snprintf(text, sizeof text, "can't be read: %s", why->text);
    return sim_scenario_refuse(s, id, text, err);
}

static fed_status read_split(const sim_scenario *s, sim_options *o, fed_error *err) {
    fed_error why = {0};
    return fedtrain_split_parse(s->value[SIM_SPLIT], &o->split, &why) == FED_OK
               ? FED_OK
               : refuse_spec(s, SIM_SPLIT, &why, err);
}

static fed_status check_spec(sim_key_id id, const sim_options *o, fed_error *why) {
    sim_network network;
    sim_speed speed;
    sim_presence presence = {0};
    if (id == SIM_LINE) {
        return sim_network_parse(o->line, &network, why);
    }
    if (id == SIM_SPEED) {
        return sim_speed_parse(o->speed, &speed, why);
    }
    fed_status status = sim_presence_parse(o->presence, o->clients, &presence, why);
    sim_presence_free(&presence);
    return status;
}

static fed_status check_virtual(const sim_scenario *s, const sim_options *o, fed_error *err) {
    static const sim_key_id ids[] = {SIM_LINE, SIM_SPEED, SIM_PRESENCE};
    for (size_t k = 0; k < sizeof ids / sizeof ids[0]; k++) {
        fed_error why = {0};
        if (o->transport == SIM_HTTPS && s->value[ids[k]][0] != '\0') {
            return sim_scenario_refuse(
                s, ids[k], "needs virtual time: set transport = inproc, or leave the key out", err);
        }
        if (check_spec(ids[k], o, &why) != FED_OK) {
            return refuse_spec(s, ids[k], &why, err);
        }
    }
    return FED_OK;
}

/** Check that a round has as many clients as its goal, unless clients send several updates. */
static fed_status check_goal(const sim_scenario *s, const sim_options *o, fed_error *err) {
    const double here = o->clients - floor(o->offline * o->clients);
    if (strtod(s->value[SIM_STALENESS], NULL) > 0 || strtod(s->value[SIM_GOAL], NULL) <= here) {
        return FED_OK;
    }
    char why[160];
    snprintf(why, sizeof why,
             "is %.20s, but only %.0f of %u clients are there in a round; set it "
             "to %.0f or less",
             s->value[SIM_GOAL], here, o->clients, here);
    return sim_scenario_refuse(s, SIM_GOAL, why, err);
}

fed_status sim_options_read(const sim_scenario *s, uint32_t cores, sim_options *o, fed_error *err) {
    *o = (sim_options){0};
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        double number = 0;
        if (sim_keys[id].kind == SIM_NUMBER || sim_keys[id].kind == SIM_INTEGER) {
            FED_TRY(sim_scenario_number(s, id, &number, err));
        }
        sim_options_set(o, id, s->value[id], number);
    }
    FED_TRY(read_transport(s, o, err));
    if (o->trainers[0] != '\0') {
        o->threads = 1;
        for (const char *at = o->trainers; (at = strchr(at, ',')) != NULL; at++) {
            o->threads++;
        }
    } else if (o->threads == 0) {
        /* Over HTTPS a step waits for answers at times; another step can use the core meanwhile. */
        o->threads = o->transport == SIM_HTTPS ? 2 * cores : cores;
    }
    FED_TRY(check_virtual(s, o, err));
    FED_TRY(check_goal(s, o, err));
    return read_split(s, o, err);
}

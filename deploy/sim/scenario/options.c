/* The options of a run: set and written by their keys, and checked before the run begins. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/scenario/options.h"

#include <stddef.h>

#include <stdio.h>
#include <string.h>

#include "deploy/sim/conditions/network.h"
#include "deploy/sim/conditions/presence.h"
#include "deploy/sim/conditions/speed.h"
#include "fed/gpu.h"
#include "fedtrain/net.h"

typedef enum member_type { NONE, TEXT, BOOL, U16, U32, U64, F64 } member_type;

typedef struct member {
    member_type type;
    size_t offset;
} member;

#define TYPE_OF(expression)                                                                        \
    _Generic((expression), const char *: TEXT, bool: BOOL, uint16_t: U16, uint32_t: U32,           \
             uint64_t: U64, double: F64)

static const member members[SIM_KEYS] = {
#define SIM_KEY(id, name, ...)                                                                     \
    [SIM_##id] = {TYPE_OF(((sim_options *)0)->name), offsetof(sim_options, name)},
#define SIM_KEY_APART(...)
#define SIM_KEY_OF_TASK(...)
#include "deploy/sim/scenario/keys.def"
};

void sim_options_set(sim_options *options, sim_key_id id, const char *text, double number) {
    void *at = (char *)options + members[id].offset;
    switch (members[id].type) {
    case TEXT:
        *(const char **)at = text;
        break;
    case BOOL:
        *(bool *)at = number > 0;
        break;
    case U16:
        *(uint16_t *)at = (uint16_t)number;
        break;
    case U32:
        *(uint32_t *)at = (uint32_t)number;
        break;
    case U64:
        *(uint64_t *)at = (uint64_t)number;
        break;
    case F64:
        *(double *)at = number;
        break;
    case NONE:
        break;
    }
}

static void write_member(const sim_options *options, sim_key_id id, fed_writer *w) {
    const void *at = (const char *)options + members[id].offset;
    const char *text;
    switch (members[id].type) {
    case TEXT:
        text = *(const char *const *)at;
        fed_write_printf(w, "|%s", text != NULL ? text : "");
        break;
    case BOOL:
        fed_write_printf(w, "|%d", *(const bool *)at);
        break;
    case U16:
        fed_write_printf(w, "|%u", *(const uint16_t *)at);
        break;
    case U32:
        fed_write_printf(w, "|%u", *(const uint32_t *)at);
        break;
    case U64:
        fed_write_printf(w, "|%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case F64:
        fed_write_printf(w, "|%.17g", *(const double *)at);
        break;
    case NONE:
        break;
    }
}

void sim_options_write(const sim_options *options, fed_writer *w) {
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        if (!sim_keys[id].machine) {
            write_member(options, id, w);
        }
    }
    fed_write_printf(w, "|%u %u %.17g", (unsigned)options->split.kind, options->split.k,
                     options->split.alpha);
}

static bool given(const char *spec) {
    return spec != NULL && spec[0] != '\0';
}

static fed_status check_numbers(const sim_options *o, fed_error *err) {
    if (o->clients == 0 || o->threads == 0) {
        return fed_fail(err, FED_EINVAL, "clients and threads must be 1 or more, not %u and %u",
                        o->clients, o->threads);
    }
    if (!(o->offline >= 0 && o->offline < 1 && o->broken >= 0 && o->broken < 1 && o->hostile >= 0 &&
          o->hostile <= 1 && o->swapped >= 0 && o->swapped <= 1)) {
        return fed_fail(err, FED_EINVAL,
                        "offline (%g) and broken (%g) must be fractions from 0 to below 1, and "
                        "hostile (%g) and swapped (%g) from 0 to 1",
                        o->offline, o->broken, o->hostile, o->swapped);
    }
    return FED_OK;
}

static fed_status check_https(const sim_options *o, fed_error *err) {
    if (o->transport != SIM_HTTPS) {
        return FED_OK;
    }
    if (given(o->line) || given(o->speed) || given(o->presence)) {
        return fed_fail(err, FED_EINVAL,
                        "line, speed and presence need virtual time: choose transport=inproc, or "
                        "leave these keys out");
    }
    if (given(o->trainers)) {
        return fed_fail(err, FED_EINVAL,
                        "over https fedsim itself trains: leave the key \"trainers\" out, or "
                        "choose transport=inproc");
    }
    if (given(o->crowd)) {
        return fed_fail(err, FED_EINVAL,
                        "over https the clients have to enrol anew: leave the key \"crowd\" out, "
                        "or choose transport=inproc");
    }
    if (o->state != NULL) {
        return fed_fail(
            err, FED_EINVAL,
            "a run over https can't be resumed: choose transport=inproc, or keep no state");
    }
    return FED_OK;
}

const char *sim_options_backend(const sim_options *options) {
    return given(options->device) ? options->device : NULL;
}

bool sim_measures_clients(const sim_options *options) {
    return options->evaluate != NULL && strcmp(options->evaluate, "clients") == 0;
}

static fed_status check_evaluate(const sim_options *o, fed_error *err) {
    const bool test = !given(o->evaluate) || strcmp(o->evaluate, "test") == 0;
    if (!test && !sim_measures_clients(o)) {
        return fed_fail(err, FED_EINVAL, "evaluate=%.40s: it must be test or clients", o->evaluate);
    }
    if (sim_measures_clients(o) && given(o->trainers)) {
        return fed_fail(err, FED_EINVAL,
                        "trainers of your own measure by themselves: leave evaluate=clients out");
    }
    return FED_OK;
}

bool sim_is_foreign(const sim_options *options) {
    return given(options->server);
}

static fed_status check_foreign(const sim_options *o, fed_error *err) {
    if (!sim_is_foreign(o)) {
        return given(o->tokens) || given(o->ca)
                   ? fed_fail(err, FED_EINVAL,
                              "tokens and ca are for a coordinator of your own: give server, too")
                   : FED_OK;
    }
    if (strncmp(o->server, "https://", strlen("https://")) != 0) {
        return fed_fail(err, FED_EINVAL,
                        "server=%.200s: it must be the URL that devices enrol at, such as "
                        "https://fed.example:8443",
                        o->server);
    }
    if (o->transport != SIM_HTTPS) {
        return fed_fail(err, FED_EINVAL, "server needs real connections: give transport=https");
    }
    if (!given(o->tokens) || !given(o->ca)) {
        return fed_fail(err, FED_EINVAL,
                        "server needs tokens=FILE, which `fedserver token --count %u` prints, and "
                        "ca=FILE, the coordinator's ca.pem",
                        o->clients);
    }
    if (o->kill_round > 0 || o->helper || sim_measures_clients(o)) {
        return fed_fail(err, FED_EINVAL,
                        "kill_round, helper and evaluate=clients need a coordinator that fedsim "
                        "started: leave them out, or server");
    }
    return FED_OK;
}

static const char bfloat16[] = "bfloat16";

bool sim_options_slow_bfloat16(const sim_options *options) {
    return given(options->device) && strcmp(options->device, bfloat16) == 0 &&
           strcmp(fedtrain_isa(bfloat16), "bfloat16_avx512bf16") != 0;
}

static fed_status check_device(const sim_options *o, fed_error *err) {
    fed_gpu *gpu = NULL;
    fed_error why = {0};
    if (!given(o->device) || strcmp(o->device, bfloat16) == 0) {
        return FED_OK;
    }
    const fed_status status = fed_gpu_open(o->device, NULL, &gpu, &why);
    fed_gpu_close(gpu);
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "device=%.40s: %s", o->device, why.text);
}

fed_status sim_options_check(const sim_options *o, fed_error *err) {
    FED_TRY(check_numbers(o, err));
    FED_TRY(check_https(o, err));
    FED_TRY(check_evaluate(o, err));
    FED_TRY(check_foreign(o, err));
    FED_TRY(check_device(o, err));
    if (o->resume && o->state == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "a run can't be resumed without the directory that keeps its state");
    }
    sim_network network;
    sim_speed speed;
    sim_presence presence = {0};
    FED_TRY(sim_network_parse(o->line, &network, err));
    FED_TRY(sim_speed_parse(o->speed, &speed, err));
    fed_status status = sim_presence_parse(o->presence, o->clients, &presence, err);
    sim_presence_free(&presence);
    return status;
}

void sim_options_state_path(const sim_options *options, const char *name, char *path, size_t cap) {
    snprintf(path, cap, "%s/%s", options->state, name);
}

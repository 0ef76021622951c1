/* The rules of synchronization: what each demands at a step. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feddc/sync.h"

#include <string.h>

#include "fed/params.h"

static const fed_param params_ssgd[] = {{.key = NULL}};
static const fed_param params_bitsgd[] = {{.key = NULL}};
static const fed_param params_odsgd[] = {{.key = NULL}};
static const fed_param params_local[] = {
    {.key = "n", .preset = 2, .low = 1, .high = 1e6, .help = "steps an exchange", .whole = true},
    {.key = NULL}};
static const fed_param params_cdsgd[] = {
    {.key = "n", .preset = 5, .low = 0, .high = 1e9, .help = "steps to warm up", .whole = true},
    {.key = "k",
     .preset = 2,
     .low = 0,
     .high = 1e6,
     .help = "each k-th step in float32; 0: none",
     .whole = true},
    {.key = NULL}};

static feddc_act act_ssgd(const double *param, uint32_t t) {
    (void)param, (void)t;
    return (feddc_act){.exchange = true, .plain = true};
}

static feddc_act act_bitsgd(const double *param, uint32_t t) {
    (void)param, (void)t;
    return (feddc_act){.exchange = true};
}

static feddc_act act_local(const double *param, uint32_t t) {
    const uint32_t n = (uint32_t)param[0];
    return (feddc_act){.exchange = t % n == n - 1};
}

static feddc_act act_odsgd(const double *param, uint32_t t) {
    (void)param, (void)t;
    return (feddc_act){.exchange = true, .plain = true, .local = true, .behind = 1};
}

/* Yu et al. 2021 (CD-SGD), Algorithm 1, whose iteration i is step t = i - 1 here. The last warm-up
 * step already updates the local weights (line 6), so the next step does not wait for a sum. That
 * next step is exchanged as float32 (if k > 0), because the paper's `count` begins at 0. */
static feddc_act act_cdsgd(const double *param, uint32_t t) {
    const uint32_t n = (uint32_t)param[0], k = (uint32_t)param[1];
    const bool formal = t >= n;
    return (feddc_act){.exchange = true,
                       .plain = !formal || (k > 0 && (t - n) % k == 0),
                       .local = formal,
                       .behind = (uint64_t)t + 1 >= n ? 1 : 0};
}

static const struct {
    uint8_t id;
    const char *name, *about;
    const fed_param *params;
    feddc_act (*act)(const double *param, uint32_t t);
} rows[] = {
#define FEDDC_SYNC(number, name, about) {number, #name, about, params_##name, act_##name},
#include "fedclient/datacenter/syncs.def"
#undef FEDDC_SYNC
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static size_t row_of(const feddc_sync *sync) {
    size_t k = 0;
    while (k + 1 < ROWS && rows[k].id != sync->id) {
        k++;
    }
    return k;
}

fed_status feddc_sync_parse(const char *spec, feddc_sync *sync, fed_error *err) {
    const char *rest = spec;
    const fed_word name = fed_word_take(&rest, ":");
    fed_names known = {0};
    for (size_t k = 0; k < ROWS; k++) {
        if (fed_word_is(name, rows[k].name)) {
            *sync = (feddc_sync){.id = rows[k].id};
            return fed_params_read("sync", rows[k].name, rows[k].params, rest, sync->param, err);
        }
        fed_names_add(&known, rows[k].name);
    }
    return fed_fail(err, FED_EINVAL, "there is no rule of synchronization \"%.*s\"; there are %s",
                    (int)name.len, name.text, known.text);
}

feddc_act feddc_sync_act(const feddc_sync *sync, uint32_t t) {
    return rows[row_of(sync)].act(sync->param, t);
}

fed_status feddc_sync_takes(const feddc_sync *sync, const char *codec, fed_error *err) {
    const size_t k = row_of(sync);
    const bool raw = codec == NULL || strcmp(codec, "float32") == 0;
    const bool plain = rows[k].act == act_ssgd || rows[k].act == act_odsgd;
    return raw || !plain
               ? FED_OK
               : fed_fail(err, FED_EINVAL,
                          "the rule %s always exchanges float32, and would never use \"%.60s\": to "
                          "use a codec or a nic, take the rule %s",
                          rows[k].name, codec, rows[k].act == act_ssgd ? "bitsgd" : "cdsgd");
}

const char *feddc_sync_name(size_t k) {
    return k < ROWS ? rows[k].name : NULL;
}

const char *feddc_sync_about(size_t k) {
    return k < ROWS ? rows[k].about : NULL;
}

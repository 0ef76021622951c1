/* Parse spec strings such as "sbc:p=0.01" to a codec with its parameters, and write them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "codecs/ring_spec.h"
#include "codecs/stage.h"
#include "fedcodec/codec_vtable.h"

static fed_status find_codec(fed_word name, const fedcodec_vtable **codec, fed_error *err) {
    fed_names names = {""};
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        if (fed_word_is(name, fedcodec_at(k)->name)) {
            *codec = fedcodec_at(k);
            return FED_OK;
        }
        fed_names_add(&names, fedcodec_at(k)->name);
    }
    if (fed_word_is(name, fedcodec_ring_spec.name)) {
        *codec = &fedcodec_ring_spec;
        return FED_OK;
    }
    return fed_fail(err, FED_EINVAL, "unknown codec \"%.*s\"; there are %s", (int)name.len,
                    name.text, names.text);
}

/* Cut a second stage such as "+runs" off the end of the text. */
static fed_status take_stage(char *text, uint8_t *stage, fed_error *err) {
    char *plus = fed_spec_plus(text);
    if (plus == NULL) {
        return FED_OK;
    }
    *plus = '\0';
    fed_names names = {""};
    for (size_t k = 0; fedcodec_stage_at(k) != NULL; k++) {
        if (strcmp(plus + 1, fedcodec_stage_at(k)->name) == 0) {
            *stage = fedcodec_stage_at(k)->id;
            return FED_OK;
        }
        fed_names_add(&names, fedcodec_stage_at(k)->name);
    }
    if (strcmp(plus + 1, "zstd") == 0) {
        return fed_fail(err, FED_EINVAL,
                        "this build has no second stage \"zstd\": it was made without libzstd; "
                        "install that with its headers (libzstd-dev) and build again");
    }
    return fed_fail(err, FED_EINVAL, "unknown second stage \"%s\"; there are %s", plus + 1,
                    names.text);
}

/* Write the canonical spec as snprintf does: at most cap characters with the NUL. Returns its
 * length. */
static size_t write_spec(const fedcodec *codec, char *dst, size_t cap) {
    const fedcodec_param *param = codec->vtable->params;
    size_t used = (size_t)snprintf(dst, cap, "%s", codec->vtable->name);
    char separator = ':';
    for (size_t k = 0; param[k].key != NULL && used < cap; k++) {
        char number[32];
        const char *value = number;
        const bool newer = codec->vtable->newer > 0 && k >= codec->vtable->newer;
        if ((param[k].names != NULL || newer) && codec->param[k] == param[k].preset) {
            continue;
        }
        if (param[k].names != NULL) {
            value = param[k].names[(size_t)codec->param[k]];
        } else {
            fed_param_write(codec->param[k], number, sizeof number);
        }
        used += (size_t)snprintf(dst + used, cap - used, "%c%s=%s", separator, param[k].key, value);
        separator = ',';
    }
    if (codec->stage != 0 && used < cap) {
        used += (size_t)snprintf(dst + used, cap - used, "+%s", fedcodec_stage_name(codec->stage));
    }
    return used;
}

void fedcodec_format(const fedcodec *codec, char *dst) {
    (void)write_spec(codec, dst, FEDCODEC_SPEC);
}

/* Do the parameters, each in range, go together, and is the canonical spec short enough? */
static fed_status check_whole(const fedcodec *codec, fed_error *err) {
    const char *conflict =
        codec->vtable->conflict != NULL ? codec->vtable->conflict(codec->param) : NULL;
    if (conflict != NULL) {
        return fed_fail(err, FED_EINVAL, "codec %s: %s", codec->vtable->name, conflict);
    }
    char whole[4 * FEDCODEC_SPEC];
    if (write_spec(codec, whole, sizeof whole) >= FEDCODEC_SPEC) {
        return fed_fail(err, FED_EINVAL,
                        "the codec spec is too long: with all its numbers it is %s; at most %d "
                        "characters are allowed",
                        whole, FEDCODEC_SPEC - 1);
    }
    return FED_OK;
}

fed_status fedcodec_parse(const char *spec, fedcodec *codec, fed_error *err) {
    if (strlen(spec) >= FEDCODEC_SPEC) {
        return fed_fail(err, FED_EINVAL,
                        "the codec spec is too long: at most %d characters are allowed",
                        FEDCODEC_SPEC - 1);
    }
    char base[FEDCODEC_SPEC];
    memcpy(base, spec, strlen(spec) + 1);
    const char *text = base;
    fedcodec parsed = {.vtable = NULL};
    FED_TRY(take_stage(base, &parsed.stage, err));
    FED_TRY(find_codec(fed_word_take(&text, ":"), &parsed.vtable, err));
    FED_TRY(fed_params_read("codec", parsed.vtable->name, parsed.vtable->params, text, parsed.param,
                            err));
    FED_TRY(check_whole(&parsed, err));
    *codec = parsed;
    return FED_OK;
}

fed_status fedcodec_parse_pair(const char *spec, const char *variates, fedcodec codec[2],
                               fed_error *err) {
    fedcodec pair[2] = {{.vtable = NULL}};
    FED_TRY(fedcodec_parse(spec, &pair[0], err));
    if (variates[0] != '\0') {
        FED_TRY(fedcodec_parse(variates, &pair[1], err));
        pair[0].variates = &codec[1];
    }
    memcpy(codec, pair, sizeof pair);
    return FED_OK;
}

/* The collectives of this build, and their specs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/collective.h"
#include "feddc/exchange.h"

#define FEDDC_COLLECTIVE(number, folder)                                                           \
    extern const feddc_collective_vtable feddc_collective_##folder;
#include "fedclient/datacenter/collectives.def"
#undef FEDDC_COLLECTIVE

static const feddc_collective_vtable *const collectives[] = {
#define FEDDC_COLLECTIVE(number, folder) &feddc_collective_##folder,
#include "fedclient/datacenter/collectives.def"
#undef FEDDC_COLLECTIVE
    NULL};

const feddc_collective_vtable *feddc_collective_at(size_t k) {
    return k < sizeof collectives / sizeof collectives[0] ? collectives[k] : NULL;
}

const char *feddc_collective_name(size_t k) {
    const feddc_collective_vtable *collective = feddc_collective_at(k);
    return collective != NULL ? collective->name : NULL;
}

const char *feddc_collective_about(size_t k) {
    const feddc_collective_vtable *collective = feddc_collective_at(k);
    return collective != NULL ? collective->about : NULL;
}

fed_status feddc_collective_parse(const char *spec, const feddc_collective_vtable **collective,
                                  double param[FEDDC_COLLECTIVE_PARAMS], fed_error *err) {
    const char *rest = spec;
    fed_word name = fed_word_take(&rest, ":");
    fed_names known = {0};
    for (size_t k = 0; feddc_collective_at(k) != NULL; k++) {
        const feddc_collective_vtable *row = feddc_collective_at(k);
        if (fed_word_is(name, row->name)) {
            *collective = row;
            return fed_params_read("collective", row->name, row->params, rest, param, err);
        }
        fed_names_add(&known, row->name);
    }
    return fed_fail(err, FED_EINVAL, "there is no collective \"%.*s\"; this build has %s",
                    (int)name.len, name.text, known.text);
}

fed_status feddc_collective_aggregators(const char *spec, uint32_t *aggregators, fed_error *err) {
    const feddc_collective_vtable *collective = NULL;
    double param[FEDDC_COLLECTIVE_PARAMS];
    FED_TRY(feddc_collective_parse(spec, &collective, param, err));
    *aggregators = collective->aggregators != NULL ? collective->aggregators(param) : 0;
    return FED_OK;
}

/* Parse the option that names a compressing NIC. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/nic.h"

#include <stddef.h>

#include "fed/params.h"

static const fed_param params[] = {
    {.key = "e", .preset = 10, .low = 1, .high = 15, .help = "bound 2^-e", .whole = true},
    {.key = NULL}};

fed_status feddc_nic_parse(const char *spec, feddc_nic *nic, fed_error *err) {
    static const char *const names[] = {
        [FEDDC_NIC_INLINE] = "inline", [FEDDC_NIC_PACKET] = "packet"};
    *nic = (feddc_nic){.kind = FEDDC_NIC_NONE};
    if (spec == NULL) {
        return FED_OK;
    }
    const char *rest = spec;
    const fed_word name = fed_word_take(&rest, ":");
    for (int kind = FEDDC_NIC_INLINE; kind <= FEDDC_NIC_PACKET; kind++) {
        double e = 0;
        if (fed_word_is(name, names[kind])) {
            FED_TRY(fed_params_read("nic", names[kind], params, rest, &e, err));
            *nic = (feddc_nic){.kind = (feddc_nic_kind)kind, .e = (int)e};
            return FED_OK;
        }
    }
    return fed_fail(err, FED_EINVAL, "there is no nic \"%.*s\"; there are inline and packet",
                    name.len < 60 ? (int)name.len : 60, name.text);
}

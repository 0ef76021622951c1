/* Remembers the first failure of a store's transaction, and returns it to later calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/undone.h"

#include <assert.h>

bool fedserver_undone(const fed_error *undone) {
    return undone->status != FED_OK;
}

fed_status fedserver_undone_report(const fed_error *undone, fed_error *err) {
    return fedserver_undone(undone) ? fed_fail(err, undone->status, "%s", undone->text) : FED_OK;
}

fed_status fedserver_undone_note(fed_error *undone, fed_status status, const fed_error *why,
                                 fed_error *err) {
    if (status == FED_OK) {
        return FED_OK;
    }
    const fed_error now = {.status = status};
    const char *sentence = fed_error_text(why->text[0] != '\0' ? why : &now);
    if (!fedserver_undone(undone)) {
        (void)fed_fail(undone, status, "%s", sentence);
    }
    /* S18 in docs/durability.md: a failed transaction can't be committed. */
    assert(fedserver_undone(undone));
    return fed_fail(err, status, "%s", sentence);
}

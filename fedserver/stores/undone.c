/* Remembers the first failure of a transaction, and tells it again. */
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
    assert(fedserver_undone(undone)); /* S18: until somebody hears of it, nothing is committed */
    return fed_fail(err, status, "%s", sentence);
}

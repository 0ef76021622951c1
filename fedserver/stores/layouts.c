/* Errors about a store's layout: the version of its tables, which a release may change. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/layouts.h"

#include <inttypes.h>
#include <stdio.h>

#include "fed/version.h"

fed_status fedserver_layout_older(const fedserver_older *older, fed_error *err) {
    char served[60] = "";
    if (older->holder != 0) {
        snprintf(served, sizeof served, ", and process %ld serves it", older->holder);
    }
    return fed_fail(err, FED_EVERSION,
                    "%s has layout %" PRId64 ", of %s%s; fedserver " FED_VERSION
                    " needs layout %" PRId64
                    ": stop the coordinator and start it with this release, or use the older "
                    "release; to read a backup, restore it into a new directory",
                    older->place, older->layout, older->release, served, older->needed);
}

fed_status fedserver_layout_newer(const char *place, int64_t layout, int64_t known,
                                  fed_error *err) {
    return fed_fail(err, FED_EVERSION,
                    "%s has tables of layout %" PRId64
                    ", but this program knows layouts 1 to %" PRId64 "; use a newer fedserver",
                    place, layout, known);
}

fed_status fedserver_layout_changed(const char *place, fed_error *err) {
    return fed_fail(err, FED_EVERSION,
                    "%s: another release has changed the tables, so this process of "
                    "fedserver " FED_VERSION
                    " writes nothing more and ends; start the coordinator with that release",
                    place);
}

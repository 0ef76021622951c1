/* The links that this build has. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feddc/link.h"

#include <string.h>

#define FEDDC_LINK(number, folder) extern const feddc_link_vtable feddc_link_##folder;
#include "fedclient/datacenter/links.def"
#undef FEDDC_LINK

static const feddc_link_vtable *const links[] = {
#define FEDDC_LINK(number, folder) &feddc_link_##folder,
#include "fedclient/datacenter/links.def"
#undef FEDDC_LINK
    NULL};

const feddc_link_vtable *feddc_link_at(size_t k) {
    return k < sizeof links / sizeof links[0] ? links[k] : NULL;
}

const feddc_link_vtable *feddc_link_named(const char *name) {
    const feddc_link_vtable *const *link = links;
    while (*link != NULL && strcmp((*link)->name, name) != 0) {
        link++;
    }
    return *link;
}

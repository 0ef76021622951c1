/* Host and port of an address. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/address.h"

#include <string.h>

fed_status feddc_address_split(const char *address, char *host, size_t host_room, char *port,
                               size_t port_room, fed_error *err) {
    const char *colon = strrchr(address, ':');
    const char *first = address, *end = colon;
    if (colon != NULL && address[0] == '[' && colon > address + 1 && colon[-1] == ']') {
        first++;
        end--;
    }
    const size_t len = colon != NULL ? (size_t)(end - first) : 0;
    if (len == 0 || len >= host_room || colon[1] == '\0' || strlen(colon + 1) >= port_room) {
        return fed_fail(err, FED_EINVAL, "\"%s\" is no address: write host:port or [host]:port",
                        address);
    }
    memcpy(host, first, len);
    host[len] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return FED_OK;
}

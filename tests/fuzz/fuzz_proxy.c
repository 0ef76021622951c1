/* Fuzz: the header of the PROXY protocol, on any first bytes of a connection. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fedserver/http/http_proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is taken lies inside of what came, and does not depend on what comes behind it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    http_address address = {.known = false}, again = {.known = false};
    size_t used = 0, used_again = 0;
    uint8_t *exact = malloc(size + 1);
    if (exact == NULL) {
        return 0;
    }
    memcpy(exact, data, size);
    if (http_proxy_read(exact, size, &used, &address) == HTTP_PROXY_DONE &&
        (used > size || used > HTTP_PROXY_MOST ||
         http_proxy_read(exact, used, &used_again, &again) != HTTP_PROXY_DONE ||
         used != used_again || memcmp(address.bytes, again.bytes, sizeof address.bytes) != 0)) {
        abort();
    }
    free(exact);
    return 0;
}

/* Fuzz the header of the PROXY protocol. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fedserver/http/http_proxy.h"

/* The header must end within the data, and must not depend on the bytes after it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    http_address address = {.known = false}, again = {.known = false};
    size_t used = 0, used_again = 0;
    uint8_t *exact = fuzz_copy(data, size);
    if (http_proxy_read(exact, size, &used, &address) == HTTP_PROXY_DONE) {
        require(used <= size && used <= HTTP_PROXY_MOST);
        require(http_proxy_read(exact, used, &used_again, &again) == HTTP_PROXY_DONE);
        require(used == used_again);
        require(memcmp(address.bytes, again.bytes, sizeof address.bytes) == 0);
    }
    free(exact);
    return 0;
}

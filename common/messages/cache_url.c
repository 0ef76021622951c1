/* Checks the URL of an HTTP cache, which a task names for its downloads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>

#include "fed/wire.h"

fed_status fed_cache_url_check(const char *url, fed_error *err) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-._~!$&'()*+,;=:@%/[]";
    const size_t len = strlen(url);
    const char *host = strncmp(url, "https://", 8) == 0  ? url + 8
                       : strncmp(url, "http://", 7) == 0 ? url + 7
                                                         : "/";
    const bool named = strchr("/:", *host) == NULL; /* strchr finds the NUL of "/:", too */
    const bool user = memchr(host, '@', strcspn(host, "/")) != NULL;
    const bool right = named && !user && url[len - 1] == '/' && strspn(url, allowed) == len;
    return len == 0 || right
               ? FED_OK
               : fed_fail(err, FED_EINVAL,
                          "a cache's URL is http:// or https://, a host, and a path that ends with "
                          "'/', without user and password: https://cdn.example.org/v1/blob/");
}

/* Reads the PROXY protocol's headers: a line of text (version 1) or a binary header (version 2). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { V1_MOST = 107, V2_HEAD = 16 };

fed_status http_proxies_read(const char *list, http_proxies *proxies, fed_error *err) {
    *proxies = (http_proxies){.count = 0};
    for (const char *at = list; at != NULL && *at != '\0';) {
        char word[HTTP_ADDRESS_TEXT];
        const size_t len = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), at);
        if (proxies->count == HTTP_PROXIES) {
            return fed_fail(err, FED_EINVAL, "--proxy-protocol takes %d addresses at most",
                            HTTP_PROXIES);
        }
        if (!http_address_read(word, &proxies->items[proxies->count])) {
            return fed_fail(err, FED_EINVAL,
                            "--proxy-protocol: \"%s\" is not an IP address: write those of the "
                            "proxies, with commas between them",
                            word);
        }
        proxies->count++;
        at += len + (at[len] == ',');
    }
    return FED_OK;
}

bool http_proxies_have(const http_proxies *proxies, const http_address *address) {
    bool found = false;
    for (size_t k = 0; k < proxies->count && address->known; k++) {
        found = found || memcmp(proxies->items[k].bytes, address->bytes, 16) == 0;
    }
    return found;
}

static char *next_word(char **line) {
    char *word = *line;
    *line += strcspn(word, " ");
    if (**line == ' ') {
        *(*line)++ = '\0';
    }
    return word;
}

static bool is_port(const char *word) {
    const size_t len = strlen(word);
    return len > 0 && len <= 5 && strspn(word, "0123456789") == len &&
           strtoul(word, NULL, 10) <= UINT16_MAX;
}

/* Read a header such as "PROXY TCP4 192.0.2.1 192.0.2.2 50000 8443", without its CRLF. */
static http_proxy_found read_line(char *line, http_address *address) {
    http_address client, ignored;
    (void)next_word(&line);
    const char *family = next_word(&line);
    if (strcmp(family, "UNKNOWN") == 0) {
        address->known = false;
        return HTTP_PROXY_DONE;
    }
    const char *source = next_word(&line), *target = next_word(&line);
    const char *from = next_word(&line), *to = next_word(&line);
    const bool v6 = strcmp(family, "TCP6") == 0;
    if ((!v6 && strcmp(family, "TCP4") != 0) || (strchr(source, ':') != NULL) != v6 ||
        !http_address_read(source, &client) || !http_address_read(target, &ignored) ||
        !is_port(from) || !is_port(to) || *line != '\0') {
        return HTTP_PROXY_NONE;
    }
    *address = client;
    return HTTP_PROXY_DONE;
}

static http_proxy_found read_text(const uint8_t *bytes, size_t len, size_t *used,
                                  http_address *address) {
    char line[V1_MOST + 1] = "";
    const size_t most = len < V1_MOST ? len : V1_MOST;
    const uint8_t *end = memchr(bytes, '\n', most);
    if (end == NULL) {
        return len < V1_MOST ? HTTP_PROXY_MORE : HTTP_PROXY_NONE;
    }
    const size_t size = (size_t)(end - bytes) + 1;
    if (end[-1] != '\r' || memchr(bytes, '\0', size) != NULL) {
        return HTTP_PROXY_NONE;
    }
    memcpy(line, bytes, size - 2);
    const http_proxy_found found = read_line(line, address);
    *used = found == HTTP_PROXY_DONE ? size : *used;
    return found;
}

static http_proxy_found read_binary(const uint8_t *bytes, size_t len, size_t *used,
                                    http_address *address) {
    enum { LOCAL = 0x20, PROXY = 0x21, TCP4 = 0x11, TCP6 = 0x21 };
    if (len < V2_HEAD) {
        return HTTP_PROXY_MORE;
    }
    const size_t size = V2_HEAD + ((size_t)bytes[14] << 8 | bytes[15]);
    const uint8_t command = bytes[12], family = bytes[13];
    const size_t least = family == TCP4 ? V2_HEAD + 12 : family == TCP6 ? V2_HEAD + 36 : V2_HEAD;
    if ((command != LOCAL && command != PROXY) || size > HTTP_PROXY_MOST ||
        (command == PROXY && size < least)) {
        return HTTP_PROXY_NONE;
    }
    if (len < size) {
        return HTTP_PROXY_MORE;
    }
    *used = size;
    if (command == PROXY) {
        address->known = family == TCP6;
        if (family == TCP4) {
            *address = http_address_v4(bytes + V2_HEAD);
        } else if (family == TCP6) {
            memcpy(address->bytes, bytes + V2_HEAD, sizeof address->bytes);
        }
    }
    return HTTP_PROXY_DONE;
}

http_proxy_found http_proxy_read(const uint8_t *bytes, size_t len, size_t *used,
                                 http_address *address) {
    static const uint8_t text[] = {'P', 'R', 'O', 'X', 'Y', ' '};
    static const uint8_t binary[] = {'\r', '\n', '\r', '\n', 0,   '\r',
                                     '\n', 'Q',  'U',  'I',  'T', '\n'};
    if (memcmp(bytes, text, len < sizeof text ? len : sizeof text) == 0) {
        return len < sizeof text ? HTTP_PROXY_MORE : read_text(bytes, len, used, address);
    }
    if (memcmp(bytes, binary, len < sizeof binary ? len : sizeof binary) == 0) {
        return len < sizeof binary ? HTTP_PROXY_MORE : read_binary(bytes, len, used, address);
    }
    return HTTP_PROXY_NONE;
}

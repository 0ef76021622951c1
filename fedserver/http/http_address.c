/* Reads, writes and hashes IP addresses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t v4_prefix[12] = {[10] = 0xFF, [11] = 0xFF};

static bool is_v4(const http_address *address) {
    return memcmp(address->bytes, v4_prefix, sizeof v4_prefix) == 0;
}

http_address http_address_v4(const uint8_t bytes[4]) {
    http_address address = {.known = true};
    memcpy(address.bytes, v4_prefix, sizeof v4_prefix);
    memcpy(address.bytes + sizeof v4_prefix, bytes, 4);
    return address;
}

typedef int (*get_name)(int fd, struct sockaddr *name, socklen_t *len);

static http_address address_by(get_name get, int fd) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer = {.any = {0}};
    socklen_t len = sizeof peer;
    http_address address = {.known = false};
    if (get(fd, &peer.any, &len) != 0) {
        return address;
    }
    if (peer.any.sa_family == AF_INET) {
        return http_address_v4((const uint8_t *)&peer.v4.sin_addr);
    }
    if (peer.any.sa_family == AF_INET6) {
        address.known = true;
        memcpy(address.bytes, peer.v6.sin6_addr.s6_addr, sizeof address.bytes);
    }
    return address;
}

http_address http_address_of(int fd) {
    return address_by(getpeername, fd);
}

http_address http_address_of_socket(int fd) {
    return address_by(getsockname, fd);
}

bool http_address_read(const char *text, http_address *address) {
    uint8_t v4[4];
    http_address read = {.known = true};
    if (inet_pton(AF_INET, text, v4) == 1) {
        *address = http_address_v4(v4);
        return true;
    }
    if (inet_pton(AF_INET6, text, read.bytes) != 1) {
        return false;
    }
    *address = read;
    return true;
}

void http_address_write(const http_address *address, char text[HTTP_ADDRESS_TEXT]) {
    const bool v4 = is_v4(address);
    const void *bytes = v4 ? address->bytes + sizeof v4_prefix : address->bytes;
    if (!address->known ||
        inet_ntop(v4 ? AF_INET : AF_INET6, bytes, text, HTTP_ADDRESS_TEXT) == NULL) {
        snprintf(text, HTTP_ADDRESS_TEXT, "?");
    }
}

void http_address_key(const http_address *address, uint8_t key[FED_SHA256_SIZE]) {
    fed_sha256(address->bytes, is_v4(address) ? 16 : 8, key);
}

bool http_address_loopback(const http_address *address) {
    static const uint8_t v6_loopback[16] = {[15] = 1};
    return address->known &&
           (is_v4(address) ? address->bytes[sizeof v4_prefix] == IN_LOOPBACKNET
                           : memcmp(address->bytes, v6_loopback, sizeof v6_loopback) == 0);
}

/* Write subjectAltName (RFC 5280, 4.2.1.6), for which mbedTLS 2.28 has no function. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/system/hosts.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "fed/bytes.h"

enum {
    SEQUENCE = 0x30,
    DNS_NAME = 0x82, /* tag: context-specific 2 */
    ADDRESS = 0x87,  /* tag: context-specific 7 */
    HEAD_MAX = 4,    /* tag and length of up to 65,535 bytes */
    DNS_NAME_MAX = 253
};

/* Is the text a host name: letters, digits, '-', '_' and '.', perhaps after "*."? Compose and
 * Windows make names with '_'. A text of digits and dots alone is refused. */
static bool is_dns_name(const char *host) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.0123456789";
    const char *name = strncmp(host, "*.", 2) == 0 ? host + 2 : host;
    size_t len = strlen(name);
    return len > 0 && len <= DNS_NAME_MAX && strspn(name, allowed) == len &&
           strspn(name, "0123456789.") < len && name[0] != '.' && strstr(name, "..") == NULL;
}

static void write_element(fed_writer *w, uint8_t tag, const void *value, size_t len) {
    fed_write_u8(w, tag);
    if (len > 0xFF) {
        fed_write_u8(w, 0x82);
        fed_write_u8(w, (uint8_t)(len >> 8));
    } else if (len > 0x7F) {
        fed_write_u8(w, 0x81);
    }
    fed_write_u8(w, (uint8_t)len);
    fed_write_bytes(w, value, len);
}

static bool read_ipv6(const char *host, uint8_t ip[16]) {
    char plain[INET6_ADDRSTRLEN];
    const size_t len = strlen(host);
    const bool bracketed = len > 2 && host[0] == '[' && host[len - 1] == ']';
    if (!bracketed || len - 2 >= sizeof plain) {
        return inet_pton(AF_INET6, host, ip) == 1;
    }
    memcpy(plain, host + 1, len - 2);
    plain[len - 2] = '\0';
    return inet_pton(AF_INET6, plain, ip) == 1;
}

static fed_status write_host(fed_writer *w, const char *host, fed_error *err) {
    uint8_t ip[16];
    if (inet_pton(AF_INET, host, ip) == 1) {
        write_element(w, ADDRESS, ip, 4);
    } else if (read_ipv6(host, ip)) {
        write_element(w, ADDRESS, ip, 16);
    } else if (is_dns_name(host)) {
        write_element(w, DNS_NAME, host, strlen(host));
    } else {
        return fed_fail(err, FED_EINVAL, "\"%.100s\" is neither a host name nor an IP address",
                        host);
    }
    return FED_OK;
}

fed_status fed_hosts_write(const char *const *hosts, uint8_t der[FED_HOSTS_DER], size_t *len,
                           fed_error *err) {
    uint8_t inner[FED_HOSTS_DER - HEAD_MAX];
    fed_writer names, list;
    fed_writer_fixed(&names, inner, sizeof inner);
    fed_writer_fixed(&list, der, FED_HOSTS_DER);
    if (hosts == NULL || hosts[0] == NULL) {
        return fed_fail(err, FED_EINVAL, "a server's certificate needs at least one host");
    }
    for (size_t i = 0; hosts[i] != NULL; i++) {
        FED_TRY(write_host(&names, hosts[i], err));
    }
    if (names.status != FED_OK) {
        return fed_fail(err, FED_ENOSPC, "these are too many hosts for one certificate");
    }
    write_element(&list, SEQUENCE, names.data, names.len);
    *len = list.len;
    return FED_OK;
}

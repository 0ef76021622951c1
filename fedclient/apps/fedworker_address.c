/* Find out whether other machines can reach an address. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/fedworker_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "fed/host_port.h"

typedef enum reach { UNKNOWN, EVERY_ADDRESS, THIS_MACHINE, OTHERS_TOO } reach;

static reach reach_of_four(uint32_t address) {
    return address == INADDR_ANY    ? EVERY_ADDRESS
           : address >> 24 == 0x7FU ? THIS_MACHINE
                                    : OTHERS_TOO;
}

static reach reach_of_six(const struct in6_addr *address) {
    if (IN6_IS_ADDR_V4MAPPED(address)) {
        uint32_t four = 0;
        memcpy(&four, address->s6_addr + 12, sizeof four);
        return reach_of_four(ntohl(four));
    }
    return IN6_IS_ADDR_UNSPECIFIED(address) ? EVERY_ADDRESS
           : IN6_IS_ADDR_LOOPBACK(address)  ? THIS_MACHINE
                                            : OTHERS_TOO;
}

/* Look at the host's first address, which a listener would take, and write it to text. flags: of
 * getaddrinfo. */
static reach find_reach(const char *host, int flags, char text[64]) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;
    reach result = UNKNOWN;
    text[0] = '\0';
    if (getaddrinfo(host, NULL, &hints, &found) != 0) {
        return UNKNOWN; /* opening the address will report what is wrong with it */
    }
    if (found->ai_family == AF_INET) {
        struct sockaddr_in at;
        memcpy(&at, found->ai_addr, sizeof at);
        result = reach_of_four(ntohl(at.sin_addr.s_addr));
    } else if (found->ai_family == AF_INET6) {
        struct sockaddr_in6 at;
        memcpy(&at, found->ai_addr, sizeof at);
        result = reach_of_six(&at.sin6_addr);
    }
    (void)getnameinfo(found->ai_addr, found->ai_addrlen, text, 64, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    return result;
}

/* Does the user say clearly that this machine is meant? A host name in /etc/hosts does not. */
static bool means_loopback(const char *host) {
    char text[64];
    return strcmp(host, "localhost") == 0 || strncmp(host, "localhost.", 10) == 0 ||
           strncmp(host, "ip6-l", 5) == 0 || find_reach(host, AI_NUMERICHOST, text) != UNKNOWN;
}

static fed_status check_host(const fedworker_options *o, reach met, fed_error *err) {
    char text[64];
    const reach own = find_reach(o->host, 0, text);
    if (own == EVERY_ADDRESS || (own == THIS_MACHINE && met != THIS_MACHINE)) {
        return fed_fail(err, FED_EINVAL,
                        "--host %.100s is no address at which other machines reach this one: give "
                        "one that `ip address` shows",
                        o->host);
    }
    return FED_OK;
}

static fed_status check_listen(const fedworker_options *o, const char *host, reach met,
                               const char *text, fed_error *err) {
    if (met == EVERY_ADDRESS && o->host == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--listen %.100s is every address of this machine, and the others must "
                        "know one of them: add --host ADDRESS, at which they reach this machine",
                        o->listen);
    }
    if (met == THIS_MACHINE && !means_loopback(host)) {
        return fed_fail(err, FED_EINVAL,
                        "--listen %.100s: the name is %s on this machine, which other machines "
                        "don't reach: give an address that `ip address` shows, or 0.0.0.0 with "
                        "--host ADDRESS",
                        o->listen, text);
    }
    return FED_OK;
}

fed_status fedworker_address_check(const fedworker_options *o, fed_error *err) {
    const char *meet = o->listen != NULL ? o->listen : o->join;
    fed_host_port at;
    char text[64];
    if (meet == NULL) {
        return FED_OK;
    }
    FED_TRY(fed_host_port_read(meet, o->listen != NULL ? 0 : 1, &at, err));
    const reach met = find_reach(at.host, 0, text);
    if (o->host != NULL) {
        FED_TRY(check_host(o, met, err));
    }
    if (o->listen != NULL) {
        FED_TRY(check_listen(o, at.host, met, text, err));
    }
    if (met == THIS_MACHINE && o->host == NULL) {
        fprintf(stderr,
                "fedworker: %s is reached from only this machine: all workers must run here\n",
                meet);
    }
    return FED_OK;
}

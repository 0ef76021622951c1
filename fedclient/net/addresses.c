/* The coordinator's addresses: one, or several by which the same coordinator can be reached. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fedclient/net/requests.h"

/* A coordinator that hangs is silent on connections that stay open. So a device that knows several
 * addresses gives each SILENT_MS without a byte. A check-in is held for HELD_MS of these at most. A
 * change of the leader takes up to three seconds, and must fit into the rest. Each time that all
 * addresses were silent doubles the rest, up to the transport's own patience: the network may be
 * slow. */
enum { SILENT_MS = 5000, HELD_MS = 2000, DOUBLINGS = 4 };

/** The k-th address of a list with commas between them, without a '/' at its end. NULL: the list is
 * shorter. */
static const char *address_at(const char *list, unsigned k, size_t *len) {
    for (; k > 0 && list != NULL; k--) {
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
    *len = list != NULL ? strcspn(list, ",") : 0;
    *len -= *len > 0 && list[*len - 1] == '/';
    return list;
}

/** Does the text begin with https://, without a path at its end? */
static bool is_address(const char *text, size_t len) {
    static const char scheme[] = "https://";
    const size_t min = sizeof scheme - 1;
    return len > min && len < FEDCLIENT_URL - 8 && strncmp(text, scheme, min) == 0 &&
           memchr(text + min, '/', len - min) == NULL && memchr(text + min, '@', len - min) == NULL;
}

/** Length of url without its port: "https://host:8443" -> 12. */
static int host_len(const char *url) {
    const char *host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    const char *bracket = strchr(host, ']'); /* IPv6: colons before it belong to the address */
    const char *colon = strchr(bracket != NULL ? bracket : host, ':');
    return (int)(colon != NULL ? (size_t)(colon - url) : strlen(url));
}

static void go_to(fedclient *client, unsigned k) {
    size_t len = 0;
    const char *text = address_at(client->options.server, k, &len);
    client->address = k;
    snprintf(client->front, sizeof client->front, "%.*s", (int)len, text);
    fedclient_addresses_port(client, client->devices_port);
}

void fedclient_addresses_port(fedclient *client, uint16_t port) {
    client->devices_port = port;
    client->devices[0] = '\0';
    if (port != 0) {
        snprintf(client->devices, sizeof client->devices, "%.*s:%u", host_len(client->front),
                 client->front, port);
    }
}

fed_status fedclient_addresses_open(fedclient *client, fed_error *err) {
    const char *list = client->options.server != NULL ? client->options.server : "";
    size_t len = 0;
    const char *text = NULL;
    for (unsigned k = 0; (text = address_at(list, k, &len)) != NULL; k++) {
        if (!is_address(text, len)) {
            const char *host = memchr(text, '@', len); /* the log gets no password */
            len -= host != NULL ? (size_t)(host + 1 - text) : 0;
            text = host != NULL ? host + 1 : text;
            return fed_fail(err, FED_EINVAL,
                            "--server or options.server: \"%.*s\" is not a coordinator's address: "
                            "write https://HOST:PORT, without a user, a password or a path",
                            (int)(len < 100 ? len : 100), text);
        }
        client->addresses = k + 1;
    }
    go_to(client, 0);
    return FED_OK;
}

void fedclient_addresses_spread(fedclient *client) {
    const uint64_t place = fed_digest_bytes(client->device, strlen(client->device));
    go_to(client, (unsigned)(place % client->addresses));
}

void fedclient_addresses_next(fedclient *client) {
    if (client->addresses > 1) {
        go_to(client, (client->address + 1) % client->addresses);
        fed_logf(client->options.log, FED_LOG_INFO,
                 "the next try is at the coordinator's address %s", client->front);
    }
}

uint32_t fedclient_addresses_hold(const fedclient *client) {
    const uint32_t hold_ms = client->options.hold_ms;
    return client->addresses > 1 && hold_ms > HELD_MS ? HELD_MS : hold_ms;
}

uint32_t fedclient_addresses_patience(const fedclient *client, uint32_t hold_ms) {
    const unsigned all = client->silences / client->addresses; /* how often all were silent */
    return client->addresses > 1 ? (SILENT_MS - hold_ms) << (all < DOUBLINGS ? all : DOUBLINGS) : 0;
}

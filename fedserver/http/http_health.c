/* Asks the listeners of a directory whether they answer, each at the address where it serves. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_health.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fedserver/http/http_proxy.h"
#include "fedserver/paths.h"

/* PATIENCE_MS: how long a listener may take. AGAIN_MS: between two connections. A listener that has
 * too many handshakes closes a connection without an answer. */
enum { PATIENCE_MS = 4000, AGAIN_MS = 200, PATH_SIZE = 1024, NOTE_MOST = 2048 };

static const struct {
    const char *note, *what;
} listeners[] = {[FEDSERVER_FRONT] = {"front-listener", "the front"},
                 [FEDSERVER_DEVICES] = {"devices-listener", "the devices' listener"}};

/* -- notes: "ADDRESS PORT\n" or "ADDRESS PORT PROXIES\n" -- */

typedef struct listener {
    char bind[HTTP_ADDRESS_TEXT];
    uint16_t port; /* 0: nobody serves */
    http_proxies proxies;
} listener;

fed_status http_health_note(const char *directory, fedserver_listener kind,
                            const fedserver_http_options *options, uint16_t port, fed_error *err) {
    char path[PATH_SIZE], text[NOTE_MOST];
    fedserver_path(directory, listeners[kind].note, path, sizeof path);
    const int len = snprintf(text, sizeof text, "%s %u%s%s\n", options->bind, port,
                             options->proxies != NULL ? " " : "",
                             options->proxies != NULL ? options->proxies : "");
    FED_REQUIRE((size_t)len < sizeof text, FED_ERANGE);
    return fed_file_replace(path, text, (size_t)len, FED_FILE_SHARED, err);
}

void http_health_forget(const char *directory, fedserver_listener kind) {
    char path[PATH_SIZE];
    fedserver_path(directory, listeners[kind].note, path, sizeof path);
    (void)unlink(path);
}

static fed_status read_note(const char *directory, fedserver_listener kind, listener *found,
                            fed_error *err) {
    char path[PATH_SIZE];
    uint8_t *bytes = NULL;
    size_t len = 0;
    *found = (listener){.port = 0};
    fedserver_path(directory, listeners[kind].note, path, sizeof path);
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return FED_OK;
    }
    FED_TRY(fed_file_read(path, NOTE_MOST, &bytes, &len, err));
    char *rest = NULL;
    const char *address = strtok_r((char *)bytes, " \n", &rest);
    const char *port = strtok_r(NULL, " \n", &rest);
    const char *proxies = strtok_r(NULL, " \n", &rest);
    const unsigned long number = port != NULL ? strtoul(port, NULL, 10) : 0;
    fed_status status = http_proxies_read(proxies, &found->proxies, err);
    if (status == FED_OK && number > 0 && number <= UINT16_MAX) {
        snprintf(found->bind, sizeof found->bind, "%s", address);
        found->port = (uint16_t)number;
    } else if (status == FED_OK) {
        status = fed_fail(err, FED_EFORMAT, "%s is damaged: start the coordinator again", path);
    }
    free(bytes);
    return status;
}

/* -- a connection -- */

typedef union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} socket_address;

/* The address to connect to. A listener on all addresses is asked on loopback. */
static socklen_t address_of(const listener *l, socket_address *address) {
    const bool v6 = strchr(l->bind, ':') != NULL;
    const char *any = v6 ? "::" : "0.0.0.0", *loopback = v6 ? "::1" : "127.0.0.1";
    const char *text = strcmp(l->bind, any) == 0 ? loopback : l->bind;
    *address = (socket_address){.any = {0}};
    if (v6) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons(l->port);
        return inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1 ? sizeof address->v6 : 0;
    }
    address->v4.sin_family = AF_INET;
    address->v4.sin_port = htons(l->port);
    return inet_pton(AF_INET, text, &address->v4.sin_addr) == 1 ? sizeof address->v4 : 0;
}

/* Returns a connected socket; -1: errno says why not. */
static int connect_to(const listener *l, int64_t left_ms) {
    socket_address address;
    const socklen_t len = address_of(l, &address);
    const struct timeval patience = {.tv_sec = left_ms / 1000, .tv_usec = left_ms % 1000 * 1000};
    const int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (len == 0 || connect(fd, &address.any, len) != 0) {
        const int why = len == 0 ? EADDRNOTAVAIL : errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

/* This connection may come from an address from which the listener takes only connections that
 * begin with a PROXY header. The command LOCAL says that the proxy itself asks. */
static bool send_header(const listener *l, int fd) {
    static const uint8_t local[16] = {'\r', '\n', '\r', '\n', 0,    '\r', '\n',
                                      'Q',  'U',  'I',  'T',  '\n', 0x20};
    const http_address own = http_address_of_socket(fd);
    return !http_proxies_have(&l->proxies, &own) ||
           send(fd, local, sizeof local, MSG_NOSIGNAL) == sizeof local;
}

/* The answer of any status shows that the front serves. Its certificate need not name the address
 * that is asked, so it is not verified. */
static bool has_answer(int fd) {
    static const char question[] =
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    gnutls_session_t session = NULL;
    gnutls_certificate_credentials_t none = NULL;
    char answer[16] = "";
    int result = gnutls_certificate_allocate_credentials(&none);
    result = result == 0 ? gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL) : result;
    result = result == 0 ? gnutls_set_default_priority(session) : result;
    result = result == 0 ? gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, none) : result;
    if (result == 0) {
        gnutls_transport_set_int(session, fd);
        gnutls_handshake_set_timeout(session, PATIENCE_MS);
        do {
            result = gnutls_handshake(session);
        } while (result < 0 && gnutls_error_is_fatal(result) == 0 && result != GNUTLS_E_AGAIN);
    }
    const bool asked =
        result == 0 && gnutls_record_send(session, question, sizeof question - 1) > 0;
    const bool heard = asked && gnutls_record_recv(session, answer, sizeof answer - 1) > 0;
    if (session != NULL) {
        gnutls_deinit(session);
    }
    if (none != NULL) {
        gnutls_certificate_free_credentials(none);
    }
    return heard && strncmp(answer, "HTTP/1.", 7) == 0;
}

/* The thread that serves devices may make a version for seconds, so it is enough that it listens.
 * alive.sock tells whether its process is well. */
static bool try_once(const listener *l, fedserver_listener kind, int64_t left_ms, int *why) {
    const int fd = connect_to(l, left_ms);
    *why = fd < 0 ? errno : 0;
    if (fd < 0) {
        return false;
    }
    const bool answers = send_header(l, fd) && (kind == FEDSERVER_DEVICES || has_answer(fd));
    close(fd);
    return answers;
}

static fed_status ask(const char *directory, fedserver_listener kind, fed_error *err) {
    listener l;
    int why = 0;
    bool answers = false;
    FED_TRY(read_note(directory, kind, &l, err));
    if (l.port == 0) {
        return FED_OK;
    }
    const int64_t end_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    for (int64_t now_ms = 0; !answers && (now_ms = fed_clock_monotonic_ms()) < end_ms;) {
        answers = try_once(&l, kind, end_ms - now_ms, &why);
        if (!answers) {
            fed_sleep_ms(AGAIN_MS);
        }
    }
    const bool v6 = strchr(l.bind, ':') != NULL;
    return answers
               ? FED_OK
               : fed_fail(err, FED_EIO,
                          "%s of %s does not answer at https://%s%s%s:%u (%s): see its log; if "
                          "it need not serve any more, remove %s there",
                          listeners[kind].what, directory, v6 ? "[" : "", l.bind, v6 ? "]" : "",
                          l.port, why != 0 ? strerror(why) : "it is connected, but says nothing",
                          listeners[kind].note);
}

fed_status fedserver_http_health(const char *directory, fed_error *err) {
    FED_TRY(ask(directory, FEDSERVER_DEVICES, err));
    return ask(directory, FEDSERVER_FRONT, err);
}

/* The TCP connection of the mbedTLS transport on lwIP, instead of the POSIX sockets of tcp.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lwip/ip_addr.h>
#include <lwip/tcp.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>

#include "fed/clock.h"
#include "fedclient/examples/baremetal/board.h"
#include "fedclient/transports/mbedtls/tcp.h"

/* A transport has one connection, so one state is enough. lwIP's callbacks, which run only within
 * board_network_poll, change the state. */
static struct {
    struct tcp_pcb *pcb; /* NULL: closed, or broken */
    struct pbuf *in;     /* bytes that were received and not read yet */
    u16_t in_read;       /* bytes of the first pbuf of line.in that were read already */
    bool connected, ended;
} line;

static fed_status fail(fedclient_tcp *tcp, fed_status status, const char *what) {
    snprintf(tcp->problem, sizeof tcp->problem, "%s", what);
    return status;
}

static err_t on_connected(void *arg, struct tcp_pcb *pcb, err_t error) {
    (void)arg;
    (void)pcb;
    line.connected = error == ERR_OK;
    return ERR_OK;
}

static err_t on_received(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t error) {
    (void)arg;
    (void)pcb;
    (void)error;
    if (p == NULL) {
        line.ended = true;
    } else if (line.in == NULL) {
        line.in = p;
        line.in_read = 0;
    } else {
        pbuf_cat(line.in, p);
    }
    return ERR_OK;
}

static void on_error(void *arg, err_t error) {
    (void)arg;
    (void)error;
    line.pcb = NULL; /* lwIP has freed the pcb */
}

fed_status fedclient_tcp_stopped(fedclient_tcp *tcp) {
    const fedclient_transport_options *options = tcp->options;
    return options->stopped != NULL && options->stopped(options->user)
               ? fail(tcp, FED_ECANCELED, "stopped on request")
               : FED_OK;
}

static bool can_move(int ways) {
    const bool broken = line.pcb == NULL || line.ended;
    return broken || ((ways & FEDCLIENT_TCP_IN) != 0 && line.in != NULL) ||
           ((ways & FEDCLIENT_TCP_OUT) != 0 && line.connected && tcp_sndbuf(line.pcb) > 0);
}

fed_status fedclient_tcp_wait(fedclient_tcp *tcp, int ways, int64_t until_ms) {
    for (;;) {
        FED_TRY(fedclient_tcp_stopped(tcp));
        board_network_poll();
        const int64_t now_ms = fed_clock_monotonic_ms();
        if (can_move(ways) || now_ms >= until_ms) {
            return FED_OK;
        }
        if (now_ms >= tcp->moved_ms + tcp->patience_ms) {
            return fail(tcp, FED_ETIMEOUT, "timed out: no byte came or went");
        }
        board_doze();
    }
}

size_t fedclient_tcp_address(const char *host, uint8_t address[16]) {
    ip4_addr_t ip;
    if (ip4addr_aton(host, &ip) == 0) {
        return 0;
    }
    memcpy(address, &ip, sizeof ip);
    return sizeof ip;
}

fed_status fedclient_tcp_connect(fedclient_tcp *tcp, const char *host, const char *port) {
    ip_addr_t to;
    fedclient_tcp_close(tcp);
    if (ipaddr_aton(host, &to) == 0) {
        return fail(tcp, FED_ENET, "this board has no DNS: give the coordinator's IP address");
    }
    line.pcb = tcp_new();
    if (line.pcb == NULL) {
        return fail(tcp, FED_ENET, "out of memory for a connection");
    }
    tcp_err(line.pcb, on_error);
    tcp_recv(line.pcb, on_received);
    tcp_nagle_disable(line.pcb);
    tcp->fd = 0;
    tcp->moved_ms = fed_clock_monotonic_ms();
    fed_status status = tcp_connect(line.pcb, &to, (u16_t)atoi(port), on_connected) == ERR_OK
                            ? fedclient_tcp_wait(tcp, FEDCLIENT_TCP_OUT, INT64_MAX)
                            : FED_ENET;
    if (status == FED_OK && !line.connected) {
        status = fail(tcp, FED_ENET, "can't connect: no program listens there");
    }
    if (status != FED_OK) {
        fedclient_tcp_close(tcp);
    }
    tcp->moved_ms = fed_clock_monotonic_ms();
    return status;
}

void fedclient_tcp_close(fedclient_tcp *tcp) {
    if (line.pcb != NULL) {
        tcp_err(line.pcb, NULL);
        tcp_recv(line.pcb, NULL);
        if (tcp_close(line.pcb) != ERR_OK) {
            tcp_abort(line.pcb);
        }
    }
    if (line.in != NULL) {
        (void)pbuf_free(line.in);
    }
    memset(&line, 0, sizeof line);
    tcp->fd = -1;
}

int fedclient_tcp_send(void *user, const unsigned char *src, size_t len) {
    fedclient_tcp *tcp = user;
    board_network_poll();
    if (line.pcb == NULL) {
        (void)fail(tcp, FED_ENET, "the connection broke");
        return MBEDTLS_ERR_NET_SEND_FAILED;
    }
    const size_t room = tcp_sndbuf(line.pcb), n = len < room ? len : room;
    if (n == 0 || tcp_write(line.pcb, src, (u16_t)n, TCP_WRITE_FLAG_COPY) != ERR_OK) {
        return MBEDTLS_ERR_SSL_WANT_WRITE;
    }
    (void)tcp_output(line.pcb);
    tcp->moved_ms = fed_clock_monotonic_ms();
    return (int)n;
}

static void consume(u16_t n) {
    line.in_read = (u16_t)(line.in_read + n);
    if (line.in_read == line.in->len) {
        struct pbuf *rest = line.in->next;
        if (rest != NULL) {
            pbuf_ref(rest);
        }
        (void)pbuf_free(line.in);
        line.in = rest;
        line.in_read = 0;
    }
    if (line.pcb != NULL) {
        tcp_recved(line.pcb, n);
    }
}

int fedclient_tcp_receive(void *user, unsigned char *dst, size_t cap) {
    fedclient_tcp *tcp = user;
    board_network_poll();
    if (line.in == NULL) {
        if (line.ended) {
            return 0;
        }
        if (line.pcb == NULL) {
            (void)fail(tcp, FED_ENET, "the connection broke");
            return MBEDTLS_ERR_NET_RECV_FAILED;
        }
        return MBEDTLS_ERR_SSL_WANT_READ;
    }
    const size_t here = (size_t)(line.in->len - line.in_read), n = cap < here ? cap : here;
    memcpy(dst, (const uint8_t *)line.in->payload + line.in_read, n);
    consume((u16_t)n);
    tcp->moved_ms = fed_clock_monotonic_ms();
    return (int)n;
}

/* A connection to the port for links costs a handshake from a budget, as at the other ports. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_curl.h"

#include <sys/socket.h>
#include <unistd.h>

#include "fedserver/http.h"
#include "fedserver/http/http_exchange.h"

static http_address address(uint8_t last) {
    return http_address_v4((const uint8_t[4]){192, 0, 2, last});
}

static unsigned handshakes_of(http_peers *peers, http_handshake kind, uint8_t last) {
    enum { MANY = 100000 };
    const http_address from = address(last);
    unsigned count = 0;
    while (count < MANY && http_peers_admit(peers, kind, &from)) {
        count++;
    }
    assert_true(count < MANY);
    return count;
}

FED_TEST(each_address_has_a_budget_of_links_and_all_have_one) {
    http_peers peers = {.oldest = NULL};
    http_peers_open(&peers, 1, 0); /* 1: requests per second of a device */
    assert_true(handshakes_of(&peers, HTTP_HANDSHAKE_LINK, 1) >= 2000);
    assert_true(handshakes_of(&peers, HTTP_HANDSHAKE_LINK, 2) >= 1500);
    const http_address third = address(3);
    (void)handshakes_of(&peers, HTTP_HANDSHAKE_LINK, 3);
    assert_true(http_peers_admit(&peers, HTTP_HANDSHAKE_FULL, &third));
    http_peers_free(&peers);
}

/* With an empty budget the connection is closed at once. */
FED_TEST(who_connects_for_a_link_pays_from_that_budget) {
    http h = {.server = NULL};
    fed_error err = {0};
    uint16_t port = 0;
    uint64_t moved = 0;
    int fd = -1;
    char byte;
    const http_limits_rules none = {.bytes_burst = 1, .connections = UINT32_MAX};
    http_peers_open(&h.peers, 0, 0);
    http_limits_open(&h.peers.handshakes[HTTP_HANDSHAKE_LINK], &none);
    assert_fed_ok_err(fedserver_http_listen("127.0.0.1", &port, &fd, &err));
    assert_fed_ok_err(http_cluster_open(&h, fd, &err));
    const int stranger = fed_dial(port);
    cluster_poll(h.cluster, true, "", 0, &moved);
    assert_int_equal(recv(stranger, &byte, 1, 0), 0);
    close(stranger);
    cluster_close(h.cluster);
    http_peers_free(&h.peers);
}

/* The board's network: lwIP without an operating system. Code that waits must call
 * board_network_poll. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <lwip/dhcp.h>
#include <lwip/init.h>
#include <lwip/timeouts.h>
#include <netif/ethernet.h>

#include "fed/clock.h"
#include "fedclient/examples/baremetal/board.h"
#include "fedclient/examples/baremetal/lan9118.h"

enum { ADDRESS_MS = 30000 };

static struct netif ethernet;

u32_t sys_now(void) {
    return (u32_t)fed_clock_monotonic_ms();
}

void board_network_poll(void) {
    lan9118_poll(&ethernet);
    sys_check_timeouts();
}

bool board_network_start(void) {
    lwip_init();
    if (netif_add(&ethernet, NULL, NULL, NULL, NULL, lan9118_init, ethernet_input) == NULL) {
        return false;
    }
    netif_set_default(&ethernet);
    netif_set_up(&ethernet);
    if (dhcp_start(&ethernet) != ERR_OK) {
        return false;
    }
    const int64_t until = fed_clock_monotonic_ms() + ADDRESS_MS;
    while (!dhcp_supplied_address(&ethernet) && fed_clock_monotonic_ms() < until) {
        board_network_poll();
        board_doze();
    }
    printf("address %s\n", ip4addr_ntoa(netif_ip4_addr(&ethernet)));
    return dhcp_supplied_address(&ethernet) != 0;
}

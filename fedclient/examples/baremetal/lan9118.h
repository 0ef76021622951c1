/* The board's Ethernet chip, a LAN9118, as a network interface of lwIP. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAN9118_H
#define LAN9118_H

#include <lwip/netif.h>

/** The init function for netif_add: starts the chip. ERR_IF: there is no such chip. */
err_t lan9118_init(struct netif *netif);

/** Pass each received frame to lwIP. */
void lan9118_poll(struct netif *netif);

#endif

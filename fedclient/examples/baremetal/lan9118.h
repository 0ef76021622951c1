/* The board's Ethernet, a LAN9118, as an interface of lwIP. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAN9118_H
#define LAN9118_H

#include <lwip/netif.h>

/** For netif_add: starts the chip. ERR_IF: there is none. */
err_t lan9118_init(struct netif *netif);

/** Hand each frame that has come to lwIP. */
void lan9118_poll(struct netif *netif);

#endif

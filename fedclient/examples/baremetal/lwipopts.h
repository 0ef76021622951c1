/* lwIP's settings: one TCP connection, no operating system, an address by DHCP. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

#define NO_SYS                    1
#define SYS_LIGHTWEIGHT_PROT      0 /* interrupts only count milliseconds: no locks needed */
#define LWIP_SOCKET               0
#define LWIP_NETCONN              0
#define LWIP_DHCP                 1
#define LWIP_DHCP_DOES_ACD_CHECK  0
#define LWIP_ACD                  0
#define LWIP_IPV6                 0
#define LWIP_STATS                0
#define LWIP_NETIF_TX_SINGLE_PBUF 0
#define MEM_ALIGNMENT             4

/* lwIP's memory and TCP. */
#define MEM_SIZE                           8192
#define LWIP_RANDOMIZE_INITIAL_LOCAL_PORTS 1
#define TCP_MSS                            1460
#define TCP_WND                            (4 * TCP_MSS)
#define TCP_SND_BUF                        (4 * TCP_MSS)
#define TCP_SND_QUEUELEN                   16
#define MEMP_NUM_TCP_SEG                   16
#define MEMP_NUM_TCP_PCB                   3
#define MEMP_NUM_TCP_PCB_LISTEN            1
#define MEMP_NUM_UDP_PCB                   2
#define MEMP_NUM_PBUF                      8
#define PBUF_POOL_SIZE                     8

#endif

/* A driver for the LAN9118: frames go through its FIFOs, a word at a time, without interrupts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/examples/baremetal/lan9118.h"

#include <stdbool.h>
#include <string.h>

#include <lwip/etharp.h>
#include <netif/ethernet.h>

enum {
    /* Registers, by their offsets. */
    RX_DATA = 0x00,
    TX_DATA = 0x20,
    RX_STATUS = 0x40,
    BYTE_TEST = 0x64,
    TX_CFG = 0x70,
    HW_CFG = 0x74,
    RX_FIFO_INF = 0x7C,
    TX_FIFO_INF = 0x80,
    MAC_CMD = 0xA4,
    MAC_DATA = 0xA8,
    /* The MAC's own registers, behind MAC_CMD and MAC_DATA. */
    MAC_CR = 1,
    MAC_ADDRESS_HIGH = 2,
    MAC_ADDRESS_LOW = 3,
    TX_ON = 0x2,
    HW_MUST_BE_ONE = 1 << 20,
    HW_TX_FIFO_KB = 5 << 16,
    MAC_RX_ON = 1 << 2,
    MAC_TX_ON = 1 << 3,
    MAC_READ = 1 << 30,
    RX_ERROR = 1 << 15,
    TX_FIRST = 1 << 13,
    TX_LAST = 1 << 12,
    CRC_BYTES = 4,
    FRAME_MOST = 1514,
    WORD = 4
};

static const uint32_t mac_busy = UINT32_C(1) << 31;
static const uint32_t byte_test = 0x87654321;

static volatile uint32_t *reg(uint32_t offset) {
    return (volatile uint32_t *)(0x40200000 + offset);
}

static void mac_wait(void) {
    while ((*reg(MAC_CMD) & mac_busy) != 0) {
    }
}

static void mac_write(uint32_t number, uint32_t value) {
    mac_wait();
    *reg(MAC_DATA) = value;
    *reg(MAC_CMD) = mac_busy | number;
    mac_wait();
}

static uint32_t mac_read(uint32_t number) {
    mac_wait();
    *reg(MAC_CMD) = mac_busy | MAC_READ | number;
    mac_wait();
    return *reg(MAC_DATA);
}

static err_t send(struct netif *netif, struct pbuf *p) {
    static uint32_t frame[(FRAME_MOST + WORD - 1) / WORD];
    (void)netif;
    const uint32_t len = p->tot_len, words = (len + WORD - 1) / WORD;
    if (len > FRAME_MOST || (*reg(TX_FIFO_INF) & 0xFFFF) < (words + 2) * WORD) {
        return ERR_MEM; /* lwIP's TCP sends the bytes again */
    }
    (void)pbuf_copy_partial(p, frame, (u16_t)len, 0);
    *reg(TX_DATA) = TX_FIRST | TX_LAST | len;
    *reg(TX_DATA) = len;
    for (uint32_t k = 0; k < words; k++) {
        *reg(TX_DATA) = frame[k];
    }
    return ERR_OK;
}

/** Take a frame with its CRC out of the FIFO. NULL: a broken frame, or no memory for a pbuf. */
static struct pbuf *receive(uint32_t status) {
    static uint32_t frame[(FRAME_MOST + CRC_BYTES + WORD) / WORD];
    const uint32_t len = status >> 16 & 0x3FFF, words = (len + WORD - 1) / WORD;
    const bool good = (status & RX_ERROR) == 0 && len > CRC_BYTES && len <= sizeof frame;
    for (uint32_t k = 0; k < words; k++) {
        const uint32_t word = *reg(RX_DATA);
        if (good) {
            frame[k] = word;
        }
    }
    struct pbuf *p = good ? pbuf_alloc(PBUF_RAW, (u16_t)(len - CRC_BYTES), PBUF_POOL) : NULL;
    if (p != NULL) {
        (void)pbuf_take(p, frame, (u16_t)(len - CRC_BYTES));
    }
    return p;
}

void lan9118_poll(struct netif *netif) {
    while ((*reg(RX_FIFO_INF) >> 16 & 0xFF) > 0) {
        struct pbuf *p = receive(*reg(RX_STATUS));
        if (p != NULL && netif->input(p, netif) != ERR_OK) {
            (void)pbuf_free(p);
        }
    }
}

err_t lan9118_init(struct netif *netif) {
    if (*reg(BYTE_TEST) != byte_test) {
        return ERR_IF;
    }
    *reg(HW_CFG) = HW_MUST_BE_ONE | HW_TX_FIFO_KB;
    *reg(TX_CFG) = TX_ON;
    mac_write(MAC_CR, mac_read(MAC_CR) | MAC_RX_ON | MAC_TX_ON);
    const uint32_t low = mac_read(MAC_ADDRESS_LOW), high = mac_read(MAC_ADDRESS_HIGH);
    memcpy(netif->hwaddr, &low, 4);
    memcpy(netif->hwaddr + 4, &high, 2);
    netif->hwaddr_len = ETH_HWADDR_LEN;
    netif->mtu = 1500;
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_LINK_UP;
    netif->name[0] = 'e';
    netif->name[1] = 'n';
    netif->output = etharp_output;
    netif->linkoutput = send;
    return ERR_OK;
}

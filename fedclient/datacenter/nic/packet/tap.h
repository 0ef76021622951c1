/* The host's side of the NIC: a TAP device, whose frames may be TCP's super-segments. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_TAP_H
#define FEDNIC_TAP_H

#include "fedclient/datacenter/nic/packet/packet_nic.h"

typedef struct fednic_tap {
    int fd;    /* non-blocking */
    bool made; /* fednic_tap_open made the device, so closing removes it */
    uint32_t index, mtu;
} fednic_tap;

/**
 * Make the device `name`, or take over an existing one that no program uses, and set it up. A
 * device outlives a program that is killed, and so do its TCP connections.
 *
 * mtu: the device's largest MTU; a new device gets it. address: that of the line's interface, from
 * which a new device's different address is made.
 *
 * Errors: FED_ENOTFOUND no /dev/net/tun; FED_EAUTH; FED_EBUSY; FED_EINVAL name is another kind of
 * device; FED_EIO.
 */
fed_status fednic_tap_open(const char *name, uint32_t mtu, const uint8_t address[6],
                           fednic_tap *tap, fed_error *err) FED_CHECKED;
void fednic_tap_close(fednic_tap *tap);

typedef enum fednic_got { FEDNIC_FRAME_GOT, FEDNIC_NONE, FEDNIC_GONE } fednic_got;

/** Read the next frame into slot[FEDNIC_SLOT]. FEDNIC_NONE: none waits. FEDNIC_GONE: the device was
 * removed. */
fednic_got fednic_tap_read(const fednic_tap *tap, uint8_t *slot, fednic_frame *frame);

/** Give the host a frame. false: Linux refuses it: the device is down or the frame is wrong. */
bool fednic_tap_write(const fednic_tap *tap, const fednic_frame *frame);

#endif

/* Read and write struct virtio_net_hdr, which precedes a frame of TAP devices and packet
 * sockets. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_VNET_HEADER_H
#define FEDNIC_VNET_HEADER_H

#include <linux/virtio_net.h>

#include "fedclient/datacenter/nic/packet/packet_nic.h"

enum {
    FEDNIC_VNET = sizeof(struct virtio_net_hdr), /* 10 bytes, in the machine's byte order */
    /* room for a frame, its virtio header and a VLAN tag */
    FEDNIC_SLOT = (FEDNIC_FRAME + 16 + 63) / 64 * 64
};

void fednic_vnet_read(const uint8_t *header, fednic_offload *offload);
void fednic_vnet_write(const fednic_offload *offload, struct virtio_net_hdr *header);

/** Linux removes a received frame's VLAN tag; put it back behind the addresses. The four bytes
 * before frame->data must be writable; data, len and offload change. */
void fednic_vnet_tag(fednic_frame *frame, uint16_t type, uint16_t tag);

#endif

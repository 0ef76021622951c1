/* Convert struct virtio_net_hdr, and put VLAN tags back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/packet/vnet_header.h"

#include <string.h>

enum { ADDRESSES = 12, TAG = 4 };

void fednic_vnet_read(const uint8_t *header, fednic_offload *offload) {
    struct virtio_net_hdr h;
    memcpy(&h, header, sizeof h);
    *offload = (fednic_offload){.flags = h.flags,
                                .gso_type = h.gso_type,
                                .hdr_len = h.hdr_len,
                                .gso_size = h.gso_size,
                                .csum_start = h.csum_start,
                                .csum_offset = h.csum_offset};
}

void fednic_vnet_write(const fednic_offload *offload, struct virtio_net_hdr *header) {
    *header = (struct virtio_net_hdr){.flags = offload->flags,
                                      .gso_type = offload->gso_type,
                                      .hdr_len = offload->hdr_len,
                                      .gso_size = offload->gso_size,
                                      .csum_start = offload->csum_start,
                                      .csum_offset = offload->csum_offset};
}

void fednic_vnet_tag(fednic_frame *frame, uint16_t type, uint16_t tag) {
    uint8_t *data = (uint8_t *)frame->data - TAG;
    if (frame->len < ADDRESSES) {
        return;
    }
    memmove(data, frame->data, ADDRESSES);
    data[ADDRESSES] = (uint8_t)(type >> 8);
    data[ADDRESSES + 1] = (uint8_t)type;
    data[ADDRESSES + 2] = (uint8_t)(tag >> 8);
    data[ADDRESSES + 3] = (uint8_t)tag;
    frame->data = data;
    frame->len += TAG;
    if ((frame->offload.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0) {
        frame->offload.csum_start = (uint16_t)(frame->offload.csum_start + TAG);
    }
    if (frame->offload.gso_type != VIRTIO_NET_HDR_GSO_NONE) {
        frame->offload.hdr_len = (uint16_t)(frame->offload.hdr_len + TAG);
    }
}

/* The offload header before a frame, and a VLAN tag that is put back into its frame. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fedclient/datacenter/nic/packet/vnet_header.h"

FED_TEST(there_and_back) {
    const fednic_offload offload = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                    .gso_type = VIRTIO_NET_HDR_GSO_TCPV6 | VIRTIO_NET_HDR_GSO_ECN,
                                    .hdr_len = 86,
                                    .gso_size = 1428,
                                    .csum_start = 54,
                                    .csum_offset = 16};
    struct virtio_net_hdr header;
    uint8_t bytes[FEDNIC_VNET];
    fednic_offload again;
    fednic_vnet_write(&offload, &header);
    assert_int_equal(header.gso_size, 1428);
    memcpy(bytes, &header, sizeof bytes);
    fednic_vnet_read(bytes, &again);
    assert_memory_equal(&again, &offload, sizeof offload);
}

FED_TEST(a_tag) {
    uint8_t room[4 + 20];
    for (size_t k = 0; k < sizeof room; k++) {
        room[k] = (uint8_t)(k - 4);
    }
    fednic_frame frame = {.data = room + 4,
                          .len = 20,
                          .offload = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                      .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
                                      .hdr_len = 54,
                                      .csum_start = 34,
                                      .csum_offset = 16}};
    fednic_vnet_tag(&frame, 0x8100, 0x2064);
    assert_int_equal(frame.len, 24);
    for (uint8_t k = 0; k < 12; k++) {
        assert_int_equal(frame.data[k], k);
    }
    const uint8_t tag[] = {0x81, 0x00, 0x20, 0x64};
    assert_memory_equal(frame.data + 12, tag, sizeof tag);
    for (uint8_t k = 12; k < 20; k++) {
        assert_int_equal(frame.data[k + 4], k);
    }
    assert_int_equal(frame.offload.hdr_len, 58);
    assert_int_equal(frame.offload.csum_start, 38);
    assert_int_equal(frame.offload.csum_offset, 16);
}

FED_TEST(a_plain_frame_and_a_short_one) {
    uint8_t room[4 + 14] = {0};
    fednic_frame frame = {.data = room + 4, .len = 14};
    fednic_vnet_tag(&frame, 0x88a8, 7);
    assert_int_equal(frame.len, 18);
    assert_int_equal(frame.offload.hdr_len, 0);
    assert_int_equal(frame.offload.csum_start, 0);
    frame = (fednic_frame){.data = room + 4, .len = 11};
    fednic_vnet_tag(&frame, 0x8100, 7);
    assert_int_equal(frame.len, 11); /* too short for Ethernet, so it is unchanged */
}

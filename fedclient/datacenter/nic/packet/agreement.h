/* Two NICs find each other by an option in a marked connection's SYN and in the SYN's answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_AGREEMENT_H
#define FEDNIC_AGREEMENT_H

#include "fedclient/datacenter/nic/packet/flows.h"

/** Handle a segment with SYN from the host. true: the NIC's option must be added. */
bool fednic_agree_host(fednic_flows *flows, const uint8_t *data, const fednic_segment *s,
                       uint32_t mtu, int64_t now_ms);

/** Handle a segment with SYN from the network. */
void fednic_agree_wire(fednic_flows *flows, const uint8_t *data, const fednic_segment *s,
                       int64_t now_ms);

/** Copy a frame to `bytes` with the option added; `bytes` must have room for frame and option. *dst
 * becomes the new frame. Bytes after the IP packet are left out. */
void fednic_option_add(const fednic_frame *frame, const fednic_segment *s, uint8_t *bytes,
                       fednic_frame *dst);

#endif

/* How two NICs find each other: an option in a marked connection's SYN and in its answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_AGREEMENT_H
#define FEDNIC_AGREEMENT_H

#include "fedclient/datacenter/nic/packet/flows.h"

/** A segment with SYN came from the host. True: the NIC's option belongs into it. */
bool fednic_agree_host(fednic_flows *flows, const uint8_t *data, const fednic_segment *s,
                       uint32_t mtu, int64_t now_ms);

/** A segment with SYN came from the wire. */
void fednic_agree_wire(fednic_flows *flows, const uint8_t *data, const fednic_segment *s,
                       int64_t now_ms);

/** Write a frame's segment with the option to dst, which has room for it. dst->data: those bytes.
 * Bytes after the IP packet are left out. */
void fednic_option_add(const fednic_frame *frame, const fednic_segment *s, uint8_t *bytes,
                       fednic_frame *dst);

#endif

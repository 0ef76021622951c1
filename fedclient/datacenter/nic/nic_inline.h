/* The card inside the process: a link around another one, which rounds floats as a card would. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_NIC_INLINE_H
#define FEDDC_NIC_INLINE_H

#include <stddef.h>

#include "feddc/link.h"

/**
 * Wrap an open link: of each FEDDC_FLOATS message a rounded copy is sent
 * (fedcodec_bursts_round), everything else as it is. The sender's data is never changed.
 *
 * link, self  in: the open link; out: the wrapped one, whose close closes both. Unchanged after an
 *             error
 * most        bytes of the largest FEDDC_FLOATS message
 * Errors      FED_ENOMEM
 */
fed_status feddc_nic_wrap(const feddc_link_vtable **link, void **self, int e, size_t most,
                          fed_error *err) FED_CHECKED;

#endif

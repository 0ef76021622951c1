/* "auto:bytes=N" as a task's codec_up: the coordinator chooses a codec whose updates take at most N
 * bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_AUTO_CODEC_H
#define FEDSERVER_TASK_AUTO_CODEC_H

#include "fed/model.h"
#include "fedcodec/codec.h"

/** Does the spec leave the choice to the coordinator? */
bool fedserver_codec_is_auto(const char *spec);

/**
 * Replace such a spec by the spec of eden which adds the least error to an update of this layout
 * and these small tensors, among those whose updates never take more than N bytes. An update is the
 * envelope, without its head and that of HTTP.
 *
 * FED_EINVAL: N is wrong, or less than the smallest update takes; *err says how much that is.
 */
fed_status fedserver_codec_choose(const fed_layout *layout, uint32_t small,
                                  char spec[FEDCODEC_SPEC], fed_error *err) FED_CHECKED;

#endif

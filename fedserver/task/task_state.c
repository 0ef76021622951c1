/* The words for a task's states. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/operator.h"

const char *fedserver_task_state_name(fedserver_task_state state) {
    static const char *const names[] = {"queued", "running", "finished", "paused", "cancelled"};
    return (size_t)state < sizeof names / sizeof names[0] ? names[state] : "?";
}

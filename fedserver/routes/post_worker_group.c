/* POST /v1/gang: takes a device's report about its worker group. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

fed_status fedserver_post_worker_group(fedserver *server, const fedserver_call *call,
                                       fedserver_response *response, fed_error *err) {
    fed_worker_group *told = calloc(1, sizeof *told);
    if (told == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a worker group");
    }
    fed_reader r;
    fed_reader_init(&r, call->request->body, call->request->body_len);
    fed_status status = fed_worker_group_read(&r, told);
    status = status == FED_OK ? fed_reader_end(&r) : status;
    if (status == FED_OK) {
        fedserver_worker_groups_forget(&server->groups, &server->rounds.devices, call->now_ms);
        fedserver_worker_groups_take(&server->groups, call->device, told, call->now_ms);
    }
    free(told);
    if (status == FED_EVERSION) {
        return fedserver_answer_error(
            response, err, 400, "gang_layout",
            "this coordinator has another layout of a worker group's message; "
            "bring device and coordinator to the same release");
    }
    return status == FED_OK
               ? FED_OK
               : fedserver_answer_error(response, err, 400, "bad_gang",
                                        "the body is not a worker group's message as in "
                                        "fed/worker_group.h: workers in the order of their "
                                        "ranks, at most 64, all numbers finite");
}

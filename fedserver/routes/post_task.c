/* POST /v1/task: an operator pauses, resumes or cancels a task, or sets its priority. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedserver/rounds/rounds.h"
#include "fedserver/routes/acting.h"
#include "fedserver/routes/router.h"

enum { PRIORITY = FEDSERVER_RESUME + 1, DEEDS };

static const struct {
    const char *word;
    fedserver_task_state to; /* a task in this state needs no change; of no meaning for PRIORITY */
} deeds[DEEDS] = {[FEDSERVER_CANCEL] = {"cancel", FEDSERVER_TASK_CANCELLED},
                  [FEDSERVER_PAUSE] = {"pause", FEDSERVER_TASK_PAUSED},
                  [FEDSERVER_RESUME] = {"resume", FEDSERVER_TASK_QUEUED},
                  [PRIORITY] = {"priority", FEDSERVER_TASK_QUEUED}};

typedef struct wish {
    uint64_t task;
    int deed;
    uint32_t priority;
    char name[FEDSERVER_TASK_NAME]; /* what the operator typed, for a cancel */
} wish;

static bool read_wish(const json_t *body, wish *w) {
    const json_int_t task = json_integer_value(json_object_get(body, "task"));
    const json_int_t priority = json_integer_value(json_object_get(body, "priority"));
    const char *deed = json_string_value(json_object_get(body, "do"));
    const char *name = json_string_value(json_object_get(body, "name"));
    *w = (wish){.task = (uint64_t)task, .priority = (uint32_t)priority};
    while (deed != NULL && w->deed < DEEDS && strcmp(deeds[w->deed].word, deed) != 0) {
        w->deed++;
    }
    if (name != NULL && strlen(name) < sizeof w->name) {
        strcpy(w->name, name);
    }
    return deed != NULL && w->deed < DEEDS && task > 0 && priority >= 0 && priority <= UINT32_MAX;
}

/* A wish that a first request has fulfilled already, whose answer was lost, changes nothing. */
static fed_status fulfil(fedserver *server, int64_t now_ms, const wish *w,
                         const fedserver_task *task, fed_error *err) {
    if (w->deed == PRIORITY) {
        return fedserver_task_prioritize(server, now_ms, w->task, w->priority, err);
    }
    const bool done = w->deed != FEDSERVER_RESUME && task->state == deeds[w->deed].to;
    return done ? FED_OK
                : fedserver_task_change(server, now_ms, w->task, (fedserver_task_deed)w->deed, err);
}

static fed_status answer_task(fedserver *server, uint64_t id, fedserver_response *response,
                              fed_error *err) {
    fedserver_task task;
    FED_TRY(server->store->task_find(server->db, FEDSERVER_PICK_ID, id, &task, err));
    return fedserver_answer_json(
        response, 200,
        json_pack("{s:I, s:s, s:s, s:I}", "task", (json_int_t)id, "name", task.name, "state",
                  fedserver_task_state_name(task.state), "priority", (json_int_t)task.priority),
        err);
}

fed_status fedserver_post_task(fedserver *server, const fedserver_call *call,
                               fedserver_response *response, fed_error *err) {
    fed_error why = {0};
    fed_status status;
    fedserver_task task;
    wish w;
    json_t *body = fedserver_acting_body(call->request, response, &status, err);
    if (body == NULL) {
        return status;
    }
    const bool understood = read_wish(body, &w);
    json_decref(body);
    if (!understood) {
        return fedserver_answer_error(response, err, 400, "format",
                                      "\"task\" is a task's number, and \"do\" is pause, resume, "
                                      "cancel or priority");
    }
    status = server->store->task_find(server->db, FEDSERVER_PICK_ID, w.task, &task, &why);
    if (status == FED_OK && w.deed == FEDSERVER_CANCEL && strcmp(w.name, task.name) != 0) {
        return fedserver_answer_error(response, err, 409, "name",
                                      "to cancel task %llu, type its name exactly: nothing was "
                                      "changed",
                                      (unsigned long long)w.task);
    }
    status = status == FED_OK ? fulfil(server, call->now_ms, &w, &task, &why) : status;
    return status == FED_OK ? answer_task(server, w.task, response, err)
                            : fedserver_acting_refusal(status, &why, response, err);
}

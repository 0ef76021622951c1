/* The layout that a task's model names: from this device's store, or else from the coordinator. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fed/small.h"
#include "fedclient/steps/steps.h"

/* Bytes of a layout: a tensor has a name, a shape and a few words between. A text of layers has
 * other words, too. */
enum { TENSOR_TEXT = 176, OTHER_TEXT = 1 << 19 };

/* Bytes of memory for each tensor, while its layout is read: its text four times, the tensor in the
 * arch, and its words (docs/client-memory.md). */
enum { TENSOR_MEMORY = 4 * TENSOR_TEXT + 448 };

/** Find the slot that keeps the layout with this digest; NULL: none does. */
static const fedclient_slot *find(const fedclient *client, const uint8_t *sha256) {
    for (unsigned k = 0; k < client->options.slots; k++) {
        const fedclient_layout_head *held = &client->slots[k].layout;
        if (held->task != 0 && memcmp(held->sha256, sha256, sizeof held->sha256) == 0) {
            return &client->slots[k];
        }
    }
    return NULL;
}

static fed_status take_answer(const fedclient_answer *answer, fedclient_layout *layout,
                              fed_error *err) {
    const fed_status status = fedclient_record_new(answer->body.len, &layout->record);
    if (status != FED_OK) {
        return fed_fail(err, status, "out of memory for a model's layout");
    }
    size_t len = 0;
    uint8_t *bytes = fedclient_record_payload(&layout->record, &len);
    if (len > 0) {
        memcpy(bytes, answer->body.data, len);
    }
    layout->fetched = true;
    return FED_OK;
}

/** tensors: how many the layout has. A longer answer than such a layout can be is not read. */
static fed_status fetch(fedclient *client, const fedclient_job *job, uint32_t tensors,
                        fedclient_layout *layout, fed_error *err) {
    char query[40];
    fedclient_answer answer = {0};
    snprintf(query, sizeof query, "?task=%" PRIu64, job->assignment.task.id);
    const fedclient_call call = {.base = client->devices,
                                 .kind = FED_REQUEST_LAYOUT,
                                 .query = query,
                                 .answer_limit = OTHER_TEXT + (size_t)tensors * TENSOR_TEXT};
    fed_status status = fedclient_exchange(client, &call, &answer, err);
    if (status == FED_OK && answer.status != 200) {
        client->heals = true; /* the task may have ended since the check-in */
        status =
            fed_fail(err, FED_ENOTFOUND, "the coordinator has no layout for this device: %s (%s)",
                     answer.message, answer.error);
    } else if (status == FED_OK) {
        status = take_answer(&answer, layout, err);
    } else if (status == FED_ERANGE) {
        status = fed_fail(err, FED_EDECLINED,
                          "this device can't serve the task: its layout is longer than any that is "
                          "allowed");
    }
    fedclient_answer_free(&answer);
    return status;
}

/** A small build has no models without layers, and its nets fit into the task. */
fed_status fedclient_layout_find(fedclient *client, const fedclient_job *job,
                                 fedclient_layout *layout, fed_error *err) {
    fed_error why = {0};
    fed_layout_reference reference;
    const char *model = job->assignment.task.model;
    *layout = (fedclient_layout){0};
    if (FED_SMALL || !fed_layout_is_reference(model)) {
        return FED_OK;
    }
    if (fed_layout_reference_read(model, &reference, &why) != FED_OK ||
        fedclient_fits(client, reference.values, (uint64_t)reference.tensors * TENSOR_MEMORY,
                       &why) != FED_OK) {
        return fed_fail(err, FED_EDECLINED, "this device can't serve the task: %s", why.text);
    }
    memcpy(layout->head.sha256, reference.sha256, sizeof reference.sha256);
    layout->head.task = job->assignment.task.id;
    const fedclient_slot *held = find(client, reference.sha256);
    if (held == NULL) {
        return fetch(client, job, reference.tensors, layout, err);
    }
    layout->slot = held->number;
    const fed_status status = fedclient_record_load(client->options.platform, FEDCLIENT_LAYOUT,
                                                    held->number, &layout->record, &why);
    if (status == FED_ENOTFOUND || status == FED_EFORMAT) {
        return fetch(client, job, reference.tensors, layout, err);
    }
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why.text);
}

fed_status fedclient_layout_parse(const fedclient_job *job, const fedclient_layout *layout,
                                  fed_arch *arch, fed_error *err) {
    const fed_task *task = &job->assignment.task;
    size_t len = 0;
    if (FED_SMALL || layout->record.bytes == NULL) {
        FED_TRY(fed_arch_parse(task->model, arch, err));
    } else {
        const uint8_t *bytes = fedclient_record_payload(&layout->record, &len);
        FED_TRY(fed_layout_resolve(task->model, bytes, len, arch, err));
    }
    if (!FED_SMALL && task->codec_variates[0] != '\0') {
        fed_arch_code_variates(arch);
    }
    return FED_OK;
}

fed_status fedclient_layout_drop(fedclient *client, fed_error *err) {
    const fedclient_platform *platform = client->options.platform;
    fedclient_slot *slot = client->slot;
    char key[FEDCLIENT_KEY];
    if (FED_SMALL || slot->layout.task == 0) {
        return FED_OK;
    }
    slot->layout = (fedclient_layout_head){0};
    return platform->drop(platform->user, fedclient_record_key(FEDCLIENT_LAYOUT, slot->number, key),
                          err);
}

fed_status fedclient_layout_keep(fedclient *client, const fedclient_job *job,
                                 fedclient_layout *layout, fed_error *err) {
    if (layout->record.bytes == NULL) {
        return fedclient_layout_drop(client, err);
    }
    const bool here = !layout->fetched && layout->slot == client->slot->number &&
                      client->slot->layout.task == layout->head.task;
    if (here || job->assignment.action == FED_ACTION_DONE) {
        return FED_OK;
    }
    FED_TRY(fedclient_layout_store(client->options.platform, client->slot->number, &layout->head,
                                   &layout->record, err));
    client->slot->layout = layout->head;
    return FED_OK;
}

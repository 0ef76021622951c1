/* Writes a device's personal model to a file, each time that there is a new one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "fed/arch.h"
#include "fed/checkpoint.h"
#include "fedclient/apps/fedclientd.h"

static fed_status save(const char *path, const fedclient_personal_model *own, fed_error *err) {
    fed_arch arch;
    char task[24], version[16];
    FED_TRY(fed_arch_parse(own->model, &arch, err));
    snprintf(task, sizeof task, "%" PRIu64, own->task);
    snprintf(version, sizeof version, "%" PRIu32, own->version);
    const char *const notes[] = {"model", own->model, "task", task, "version", version, NULL};
    const fed_status status =
        fed_checkpoint_save_as(path, 0600, &arch.layout, own->values, notes, err);
    fed_arch_free(&arch);
    return status;
}

void fedclientd_keep_personal(const fedclientd_settings *s, fedclient *client,
                              const fedclient_event *event) {
    const bool may_be_new =
        event->outcome == FEDCLIENT_COUNTED || event->outcome == FEDCLIENT_FINISHED;
    fedclient_personal_model own = {0};
    fed_error err = {0};
    if (s->personal == NULL || !may_be_new) {
        return;
    }
    fed_status status = fedclient_personal(client, &own, &err);
    if (status == FED_ENOTFOUND) {
        return;
    }
    if (status == FED_OK) {
        status = save(s->personal, &own, &err);
    }
    const fed_log_about about = {.task = own.task};
    if (status == FED_OK) {
        fed_logf_about(&s->log, FED_LOG_DEBUG, &about,
                       "%s is this device's own model of version %" PRIu32, s->personal,
                       own.version);
    } else {
        fed_logf_about(&s->log, FED_LOG_WARN, &about, "--personal: %s", fed_error_text(&err));
    }
    fedclient_personal_free(&own);
}

/* Keeps why tasks are paused: who paused a task and when, or why its stored bytes can't be read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/pauses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void fedserver_pauses_free(fedserver_pauses *pauses) {
    free(pauses->items);
    *pauses = (fedserver_pauses){0};
}

static fedserver_pause *find(const fedserver_pauses *pauses, uint64_t task) {
    for (size_t k = 0; k < pauses->count; k++) {
        if (pauses->items[k].task == task) {
            return &pauses->items[k];
        }
    }
    return NULL;
}

static fed_status find_or_add(fedserver_pauses *pauses, uint64_t task, fedserver_pause **pause,
                              fed_error *err) {
    *pause = find(pauses, task);
    if (*pause != NULL) {
        return FED_OK;
    }
    fedserver_pause *items = realloc(pauses->items, (pauses->count + 1) * sizeof *items);
    if (items == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the paused tasks");
    }
    pauses->items = items;
    *pause = &items[pauses->count++];
    **pause = (fedserver_pause){.task = task};
    return FED_OK;
}

static void drop(fedserver_pauses *pauses, uint64_t task) {
    fedserver_pause *pause = find(pauses, task);
    if (pause != NULL) {
        *pause = pauses->items[--pauses->count];
    }
}

static void say_unreadable(fedserver_pause *pause, const char *detail) {
    static const char key[] = "reason=\"";
    const char *reason = strstr(detail, key);
    const char *end = strrchr(detail, '"');
    if (reason != NULL && end > reason + sizeof key - 2) {
        reason += sizeof key - 1;
        const int len = end - reason < 250 ? (int)(end - reason) : 250;
        snprintf(pause->why, sizeof pause->why,
                 "it can't be read: %.*s; mend that, then call `fedserver resume`", len, reason);
    }
}

/* The detail is task=5 name="leaves" uid=1000; rows of older releases lack the user. */
static void say_by_whom(fedserver_pause *pause, const fedserver_audit_entry *entry) {
    const char *who = strrchr(entry->detail, '"');
    const time_t at = (time_t)(entry->at_ms / 1000);
    struct tm utc = {0};
    char stamp[32] = "?";
    if (gmtime_r(&at, &utc) != NULL) {
        strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M", &utc);
    }
    const bool known = who != NULL && who[1] == ' ';
    snprintf(pause->why, sizeof pause->why,
             "it was paused%s%.100s at %s UTC; `fedserver resume` goes on with it",
             known ? " by " : "", known ? who + 2 : "", stamp);
}

static fed_status take(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    fedserver_pauses *pauses = user;
    static const char key[] = "task=";
    const bool unreadable = strcmp(entry->event, "task_unreadable") == 0;
    char *end = NULL;
    if (strncmp(entry->detail, key, sizeof key - 1) != 0) {
        return FED_OK;
    }
    const uint64_t task = strtoull(entry->detail + sizeof key - 1, &end, 10);
    if (*end != ' ') {
        return FED_OK;
    }
    if (unreadable || strcmp(entry->event, "task_paused") == 0) {
        fedserver_pause *pause = NULL;
        FED_TRY(find_or_add(pauses, task, &pause, err));
        if (unreadable) {
            say_unreadable(pause, entry->detail);
        } else {
            say_by_whom(pause, entry);
        }
    } else if (strcmp(entry->event, "task_moved") != 0) {
        drop(pauses, task);
    }
    return FED_OK;
}

fed_status fedserver_pauses_find(fedserver_pauses *pauses, const fedserver_store *store, void *db,
                                 uint64_t task, char *why, fed_error *err) {
    FED_TRY(store->audit_tasks(db, &pauses->read, take, pauses, err));
    const fedserver_pause *pause = find(pauses, task);
    snprintf(why, FEDSERVER_TASK_WAITS, "%s", pause != NULL ? pause->why : "");
    return FED_OK;
}

/* The table of stores, and the file of a coordinator's directory that names one of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/stores.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/paths.h"

#define FEDSERVER_STORE(folder) extern const fedserver_store fedserver_store_##folder;
#include "fedserver/stores/stores.def"
#undef FEDSERVER_STORE

static const fedserver_store *const stores[] = {
#define FEDSERVER_STORE(folder) &fedserver_store_##folder,
#include "fedserver/stores/stores.def"
#undef FEDSERVER_STORE
};

enum { STORES = sizeof stores / sizeof stores[0], PATH_SIZE = 1024, LINE_SIZE = 1024 };

const fedserver_store *fedserver_store_at(size_t k) {
    return k < STORES ? stores[k] : NULL;
}

static bool is_called(const char *name, const char *text, size_t len) {
    return name != NULL && strlen(name) == len && memcmp(name, text, len) == 0;
}

static const fedserver_store *find(const char *name, size_t len) {
    size_t k = 0;
    while (k < STORES && !is_called(stores[k]->name, name, len) &&
           !is_called(stores[k]->alias, name, len)) {
        k++;
    }
    return fedserver_store_at(k);
}

/* The error quotes only the text's first word. The rest may hold a password, as a connection
 * string does. */
static fed_status fail_unknown(const char *text, fed_error *err) {
    const size_t len = strcspn(text, ":=/@ ");
    char names[200] = "";
    for (size_t k = 0; k < STORES; k++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", k > 0 ? ", " : "", stores[k]->name);
    }
    return fed_fail(err, FED_EINVAL, "this build has no store \"%.*s\"; it has: %s",
                    (int)(len < 50 ? len : 50), text, names);
}

static bool is_url(const char *text) {
    const size_t len = strcspn(text, ":");
    return strncmp(text + len, "://", 3) == 0 && find(text, len) != NULL;
}

fed_status fedserver_store_parse(const char *text, fedserver_store_choice *choice, fed_error *err) {
    text = text != NULL ? text : stores[0]->name;
    const size_t len = strcspn(text, ":");
    const char *where = is_url(text) ? text : text[len] == ':' ? text + len + 1 : "";
    const fedserver_store *store = find(text, len);
    if (store == NULL) {
        return fail_unknown(text, err);
    }
    if (store->where == NULL && text[len] == ':') {
        return fed_fail(err, FED_EINVAL, "the store %s takes no place: leave out \"%.100s\"",
                        store->name, text + len);
    }
    if (store->where != NULL && where[0] == '\0') {
        return fed_fail(err, FED_EINVAL,
                        "the store %s needs a place: write %s:WHERE, where WHERE is %s",
                        store->name, store->name, store->where);
    }
    if (strlen(where) >= sizeof choice->where || strchr(where, '\n') != NULL) {
        return fed_fail(err, FED_EINVAL,
                        "the place of the store %s is longer than %zu bytes, or has several lines",
                        store->name, sizeof choice->where - 1);
    }
    choice->store = store;
    strcpy(choice->where, where);
    return FED_OK;
}

static void file_path(const char *directory, char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%s/store", directory);
}

fed_status fedserver_store_read(const char *directory, fedserver_store_choice *choice,
                                fed_error *err) {
    char path[PATH_SIZE];
    char *text = NULL;
    size_t len = 0;
    fed_error why = {0};
    file_path(directory, path);
    fed_status status = fed_file_read_text(path, LINE_SIZE, &text, &len, &why);
    if (status == FED_ENOTFOUND) {
        return fedserver_store_parse(NULL, choice, err);
    }
    if (status == FED_OK) {
        text[strcspn(text, "\n")] = '\0';
        status = fedserver_store_parse(text, choice, &why);
    }
    free(text);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s: %s", path, why.text);
}

fed_status fedserver_store_write(const char *directory, const fedserver_store_choice *choice,
                                 fed_error *err) {
    char path[PATH_SIZE];
    char line[LINE_SIZE];
    file_path(directory, path);
    const bool url = is_url(choice->where);
    const int len = snprintf(line, sizeof line, "%s%s%s\n", url ? "" : choice->store->name,
                             url || choice->where[0] == '\0' ? "" : ":", choice->where);
    return fed_file_replace(path, line, (size_t)len, 0600, err);
}

fed_status fedserver_store_absent(const char *directory, const fedserver_store_choice *choice,
                                  fed_error *err) {
    const fed_status status = choice->store->exists(directory, choice->where, err);
    if (status == FED_OK) {
        return fed_fail(err, FED_EEXIST,
                        "the store %s holds a coordinator already; use it, or choose another place",
                        choice->store->name);
    }
    return status == FED_ENOTFOUND ? FED_OK : status;
}

static const char MARK[] = "init-unfinished";

fed_status fedserver_store_mark(const char *directory, fed_error *err) {
    char path[PATH_SIZE];
    fedserver_path(directory, MARK, path, sizeof path);
    return fed_file_replace(path, "", 0, 0600, err);
}

void fedserver_store_unmark(const char *directory) {
    char path[PATH_SIZE];
    fedserver_path(directory, MARK, path, sizeof path);
    (void)unlink(path);
}

static bool has_file(const char *directory, const char *name) {
    char path[PATH_SIZE];
    fedserver_path(directory, name, path, sizeof path);
    return access(path, F_OK) == 0;
}

fed_status fedserver_store_lost(const char *directory, fed_error *err) {
    const bool keys = has_file(directory, "ca.key") || has_file(directory, "ca.pem");
    return !keys || has_file(directory, MARK)
               ? FED_OK
               : fed_fail(err, FED_ENOTFOUND,
                          "%s has a coordinator's keys (ca.pem, ca.key), but its store is gone: "
                          "restore a backup, or move the directory away to make a new coordinator",
                          directory);
}

fed_status fedserver_store_present(const char *directory, fedserver_store_choice *choice,
                                   fed_error *err) {
    FED_TRY(fedserver_store_read(directory, choice, err));
    const fed_status status = choice->store->exists(directory, choice->where, err);
    if (status == FED_ENOTFOUND) {
        FED_TRY(fedserver_store_lost(directory, err));
        return fed_fail(
            err, FED_ENOTFOUND,
            "%s holds no coordinator: give the directory of one, or make a new one with: "
            "fedserver init --dir %s",
            directory, directory);
    }
    return status;
}

fed_status fedserver_store_finish(const fedserver_store *store, void *db, fed_status status,
                                  fed_error *err) {
    if (status == FED_OK) {
        status = store->commit(db, err);
    } else {
        store->rollback(db);
    }
    /* S5, S18 in docs/durability.md: the transaction is stored whole, or rolled back whole. */
    assert(!store->writing(db));
    return status;
}

static fed_status keep_device(void *user, const fedserver_device *device, fed_error *err) {
    (void)err;
    *(fedserver_device *)user = *device;
    return FED_OK;
}

fed_status fedserver_store_device(const fedserver_store *store, void *db, int64_t id,
                                  fedserver_device *device, fed_error *err) {
    fedserver_device found = {.id = 0};
    FED_TRY(store->device_page(db, 0, id - 1, 1, keep_device, &found, err));
    if (id == 0 || found.id != id) {
        return fed_fail(err, FED_ENOTFOUND, "no device has the id %lld", (long long)id);
    }
    *device = found;
    return FED_OK;
}

/* Seals (encrypts) downloads into files, step by step, and deletes files that no device wants any
 * more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/versions/object_cache.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/paths.h"

enum { PATH_BYTES = 1024, PIECE_BYTES = 16384 };

static void path_of(const char *directory, const char *name, char path[PATH_BYTES]) {
    char file[sizeof FEDSERVER_OBJECT_CACHE_FOLDER + FED_SEALED_NAME];
    snprintf(file, sizeof file, FEDSERVER_OBJECT_CACHE_FOLDER "/%s", name);
    fedserver_path(directory, file, path, PATH_BYTES);
}

static void path_of_key(const char *directory, const uint8_t *key, char path[PATH_BYTES]) {
    char name[FED_SEALED_NAME];
    fed_sealed_name(key, name);
    path_of(directory, name, path);
}

static size_t len_of(const fedserver_run *run) {
    size_t len = 0;
    (void)fedserver_blob_data(run->blob, &len);
    return len;
}

static void remove_item(fedserver_object_cache *object_cache, const char *directory,
                        fedserver_object_cache_item *item) {
    char path[PATH_BYTES];
    /* tasks share a file if their bytes are the same, such as one initial model */
    bool shared = false;
    for (size_t k = 0; k < FEDSERVER_OBJECT_CACHE; k++) {
        const fedserver_object_cache_item *other = &object_cache->items[k];
        shared = shared || (other != item && other->address.len != 0 &&
                            memcmp(other->address.key, item->address.key, FED_SEALED_KEY) == 0);
    }
    if (!shared) {
        path_of_key(directory, item->address.key, path);
        (void)unlink(path);
    }
    *item = (fedserver_object_cache_item){0};
}

static fedserver_object_cache_item *find_oldest(fedserver_object_cache *object_cache, uint64_t task,
                                                const fedserver_object_cache_item *kept) {
    fedserver_object_cache_item *oldest = NULL;
    for (size_t k = 0; k < FEDSERVER_OBJECT_CACHE; k++) {
        fedserver_object_cache_item *item = &object_cache->items[k];
        if (item->address.len != 0 && item != kept && (task == 0 || item->task == task) &&
            (oldest == NULL || item->asked_ms < oldest->asked_ms)) {
            oldest = item;
        }
    }
    return oldest;
}

static uint64_t bytes_of(const fedserver_object_cache *object_cache, uint64_t task) {
    uint64_t bytes = 0;
    for (size_t k = 0; k < FEDSERVER_OBJECT_CACHE; k++) {
        bytes += object_cache->items[k].task == task ? object_cache->items[k].address.len : 0;
    }
    return bytes;
}

static fedserver_object_cache_item *find_free(fedserver_object_cache *object_cache) {
    size_t k = 0;
    while (k < FEDSERVER_OBJECT_CACHE && object_cache->items[k].address.len != 0) {
        k++;
    }
    return k < FEDSERVER_OBJECT_CACHE ? &object_cache->items[k] : NULL;
}

static void add_item(fedserver_object_cache *object_cache, const char *directory,
                     const fedserver_object_cache_item *added, uint64_t limit) {
    fedserver_object_cache_item *item = find_free(object_cache);
    assert(item != NULL);
    *item = *added;
    while (bytes_of(object_cache, item->task) > limit) {
        remove_item(object_cache, directory, find_oldest(object_cache, item->task, item));
    }
    if (find_free(object_cache) == NULL) {
        remove_item(object_cache, directory, find_oldest(object_cache, 0, item));
    }
}

static void abandon(fedserver_sealing *s) {
    if (s->file != NULL) {
        (void)fclose(s->file);
    }
    fedserver_blob_free(s->request.run.blob);
    *s = (fedserver_sealing){0};
}

static void begin(fedserver_sealing *s, const fedserver_object_request *request,
                  const char *file_name) {
    *s = (fedserver_sealing){.request = *request, .file_name = file_name};
    s->request.run.blob = fedserver_blob_share(request->run.blob);
    fed_sha256_begin(&s->sum);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static fed_status write_some(fedserver_sealing *s, const uint8_t *data, size_t len, size_t *budget,
                             const char *path, fed_error *err) {
    uint8_t piece[PIECE_BYTES];
    while (*budget > 0 && s->written < len) {
        const size_t n = least(len - s->written, PIECE_BYTES);
        memcpy(piece, data + s->written, n);
        if (fed_sealed_crypt(s->key, s->written, piece, n) != FED_OK) {
            return fed_fail(err, FED_ENOMEM, "out of memory for sealing a download");
        }
        if (fwrite(piece, 1, n, s->file) != n) {
            return fed_file_fail(err, "write", path);
        }
        s->written += n;
        *budget -= least(n, *budget);
    }
    return FED_OK;
}

static fed_status advance(fedserver_sealing *s, const char *directory, size_t *budget, bool *done,
                          fed_error *err) {
    char path[PATH_BYTES], named[PATH_BYTES];
    size_t len = 0;
    const uint8_t *data = fedserver_blob_data(s->request.run.blob, &len);
    path_of(directory, s->file_name, path);
    const size_t n = least(len - s->hashed, *budget);
    fed_sha256_add(&s->sum, data + s->hashed, n);
    s->hashed += n;
    *budget -= n;
    if (n > 0 && s->hashed == len) {
        fed_sha256_end(&s->sum, s->key);
    }
    if (s->hashed == len && s->file == NULL) {
        s->file = fopen(path, "wb");
        if (s->file == NULL) {
            return fed_file_fail(err, "create", path);
        }
    }
    if (s->file != NULL) {
        FED_TRY(write_some(s, data, len, budget, path, err));
    }
    *done = s->written == len;
    if (!*done) {
        return FED_OK;
    }
    FILE *file = s->file;
    s->file = NULL;
    path_of_key(directory, s->key, named);
    return fclose(file) == 0 && rename(path, named) == 0 ? FED_OK
                                                         : fed_file_fail(err, "write", path);
}

static fed_status sweep(const char *directory, fed_error *err) {
    char folder[PATH_BYTES], path[PATH_BYTES];
    fedserver_path(directory, FEDSERVER_OBJECT_CACHE_FOLDER, folder, sizeof folder);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return fed_file_fail(err, "create", folder);
    }
    DIR *entries = opendir(folder);
    if (entries == NULL) {
        return fed_file_fail(err, "read", folder);
    }
    for (const struct dirent *e = readdir(entries); e != NULL; e = readdir(entries)) {
        fedserver_path(folder, e->d_name, path, sizeof path);
        (void)unlink(path); /* fails for "." and "..", which stay */
    }
    (void)closedir(entries);
    return FED_OK;
}

/* Go on to encrypt a download until object_cache->work reaches `most` bytes. Once all of it is
 * encrypted, the file becomes an item of the cache. */
static fed_status go_on(fedserver_object_cache *object_cache, const char *directory,
                        fedserver_sealing *s, size_t most, int64_t now_ms, fed_error *err) {
    const size_t before = most > object_cache->work ? most - object_cache->work : 0;
    size_t budget = before;
    bool done = false;
    fed_status status = advance(s, directory, &budget, &done, err);
    object_cache->work += before - budget;
    if (status == FED_OK && !done) {
        return fed_fail(err, FED_EBUSY, "the download is not sealed yet");
    }
    if (status == FED_OK) {
        fedserver_object_cache_item item = {.task = s->request.task,
                                            .tag = s->request.run.tag,
                                            .address = {.len = s->written},
                                            .asked_ms = now_ms};
        memcpy(item.address.key, s->key, sizeof item.address.key);
        add_item(object_cache, directory, &item, s->request.limit);
    }
    abandon(s);
    return status;
}

void fedserver_object_cache_free(fedserver_object_cache *object_cache, const char *directory) {
    fedserver_object_cache_drop(object_cache, directory, 0);
}

void fedserver_object_cache_drop(fedserver_object_cache *object_cache, const char *directory,
                                 uint64_t task) {
    if (task == 0 || object_cache->sealing.request.task == task) {
        abandon(&object_cache->sealing);
    }
    for (size_t k = 0; k < FEDSERVER_OBJECT_CACHE; k++) {
        if (object_cache->items[k].address.len != 0 &&
            (task == 0 || object_cache->items[k].task == task)) {
            remove_item(object_cache, directory, &object_cache->items[k]);
        }
    }
}

static fedserver_object_cache_item *find(fedserver_object_cache *object_cache,
                                         const fedserver_object_request *request) {
    for (size_t k = 0; k < FEDSERVER_OBJECT_CACHE; k++) {
        fedserver_object_cache_item *item = &object_cache->items[k];
        if (item->address.len != 0 && item->task == request->task &&
            item->tag == request->run.tag) {
            return item;
        }
    }
    return NULL;
}

static fed_status seal_now(fedserver_object_cache *object_cache, const char *directory,
                           const fedserver_object_request *request, int64_t now_ms,
                           fed_error *err) {
    if (now_ms < object_cache->rests_until_ms) {
        return fed_fail(err, FED_EBUSY, "no download is sealed for a minute after a failure");
    }
    if (!object_cache->swept) {
        FED_TRY(sweep(directory, err));
        object_cache->swept = true;
    }
    /* A short run is sealed at once, or not now. A long run is sealed in steps that leave half of
     * the budget to short runs. */
    const size_t work = 2 * len_of(&request->run);
    const int64_t passed_ms = now_ms > object_cache->work_ms ? now_ms - object_cache->work_ms : 0;
    const int64_t whole_ms = FEDSERVER_OBJECT_CACHE_STEP / FEDSERVER_OBJECT_CACHE_RATE;
    const size_t forgotten =
        (size_t)(passed_ms < whole_ms ? passed_ms : whole_ms) * FEDSERVER_OBJECT_CACHE_RATE;
    object_cache->work -= least(forgotten, object_cache->work);
    object_cache->work_ms = now_ms;
    if (work <= FEDSERVER_OBJECT_CACHE_STEP - object_cache->work) {
        fedserver_sealing at_once;
        begin(&at_once, request, "short");
        return go_on(object_cache, directory, &at_once, FEDSERVER_OBJECT_CACHE_STEP, now_ms, err);
    }
    if (work <= FEDSERVER_OBJECT_CACHE_STEP) {
        return fed_fail(err, FED_EBUSY, "no download is sealed now: too much was sealed just now");
    }
    if (object_cache->sealing.request.run.blob == NULL) {
        begin(&object_cache->sealing, request, "long");
    }
    return go_on(object_cache, directory, &object_cache->sealing, FEDSERVER_OBJECT_CACHE_STEP / 2,
                 now_ms, err);
}

fed_status fedserver_object_cache_get(fedserver_object_cache *object_cache, const char *directory,
                                      const fedserver_object_request *request, int64_t now_ms,
                                      fed_address *address, fed_error *err) {
    const size_t len = len_of(&request->run);
    for (size_t k = 0; k < FEDSERVER_OBJECT_CACHE; k++) {
        fedserver_object_cache_item *item = &object_cache->items[k];
        if (item->address.len != 0 && now_ms - item->asked_ms >= FEDSERVER_SNAPSHOT_MS) {
            remove_item(object_cache, directory, item);
        }
    }
    if (find(object_cache, request) == NULL) {
        if (len == 0 || len > request->limit) {
            return fed_fail(err, FED_ERANGE,
                            "a piece of a download has %zu bytes, and must have 1 to %" PRIu64, len,
                            request->limit);
        }
        fed_status status = seal_now(object_cache, directory, request, now_ms, err);
        if (status != FED_OK && status != FED_EBUSY) {
            object_cache->rests_until_ms = now_ms + FEDSERVER_OBJECT_CACHE_REST_MS;
        }
        FED_TRY(status);
    }
    fedserver_object_cache_item *item = find(object_cache, request);
    if (item == NULL) {
        return fed_fail(err, FED_EBUSY,
                        "the download is not sealed yet: another one is sealed first");
    }
    item->asked_ms = now_ms;
    *address = item->address;
    return FED_OK;
}

fed_status fedserver_object_cache_find(const char *directory, const char *name,
                                       fedserver_blob **blob, fed_error *err) {
    char path[PATH_BYTES];
    if (strlen(name) != FED_SEALED_NAME - 1 ||
        strspn(name, "0123456789abcdef") != FED_SEALED_NAME - 1) {
        return fed_fail(err, FED_ENOTFOUND, "a download's name is %d hex digits",
                        FED_SEALED_NAME - 1);
    }
    path_of(directory, name, path);
    return fedserver_blob_map(path, blob, err);
}

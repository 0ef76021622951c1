/* Clients that have enrolled, and their coordinator, in one file that runs share. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/saved_crowd.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"
#include "fed/hash.h"
#include "fed/version.h"

/* The file: a line of text, with the format's number and the build; the coordinator's files, each
 * after its name, and an empty name as the end; each client's identity; a digest of all before. The
 * build, because between releases a coordinator's files may change without a new layout. */
#define EACH_FORMAT "fedsim simulated crowd "

/** The key of a client's identity in its store: docs/durability.md. */
static const char IDENTITY[] = "identity";

enum { CROWD_PATH = 1024, FILE_NAME = 64, ABOUT = 200 };

/** Write the first line of a file of this build. Returns its length. */
static size_t tell_about(char about[ABOUT]) {
    return (size_t)snprintf(about, ABOUT,
                            EACH_FORMAT
                            "1 of release " FED_VERSION
                            " (%.40s): keys for simulations, of no use to anything real\n",
                            fed_build_id());
}

static bool is_kept(const sim_options *o) {
    return o->crowd != NULL && o->crowd[0] != '\0';
}

static void name_file(const sim_options *o, char path[CROWD_PATH]) {
    snprintf(path, CROWD_PATH, "%s/simulated-crowd-%u", o->crowd, o->clients);
}

static void put_bytes(fed_writer *w, const void *data, size_t len) {
    fed_write_u64(w, len);
    fed_write_bytes(w, data, len);
}

static fed_status put_file(fed_writer *w, const char *directory, const char *name, fed_error *err) {
    char path[CROWD_PATH];
    uint8_t *data = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FED_TRY(fed_file_read(path, SIZE_MAX / 2, &data, &len, err));
    fed_write_str(w, name);
    put_bytes(w, data, len);
    free(data);
    return w->status;
}

static fed_status put_coordinator(fed_writer *w, const char *directory, fed_error *err) {
    DIR *dir = opendir(directory);
    if (dir == NULL) {
        return fed_file_fail(err, "open", directory);
    }
    fed_status status = FED_OK;
    for (struct dirent *e = readdir(dir); e != NULL && status == FED_OK; e = readdir(dir)) {
        status = e->d_name[0] != '.' ? put_file(w, directory, e->d_name, err) : FED_OK;
    }
    closedir(dir);
    fed_write_str(w, "");
    return status;
}

static fed_status put_identities(fed_writer *w, const sim_clients *clients, fed_error *err) {
    for (size_t k = 0; k < clients->client_count; k++) {
        const fedclient_platform *store = &clients->client[k].platform;
        const uint8_t *data = NULL;
        size_t len = 0;
        FED_TRY(store->memory->lend(store->user, IDENTITY, &data, &len, err));
        put_bytes(w, data, len);
    }
    return w->status;
}

static fed_status put_all(fed_writer *w, const sim_clients *clients, const char *directory,
                          fed_error *err) {
    char about[ABOUT];
    fed_write_bytes(w, about, tell_about(about));
    FED_TRY(put_coordinator(w, directory, err));
    FED_TRY(put_identities(w, clients, err));
    fed_write_u64(w, fed_digest_bytes(w->data, w->len));
    return w->status;
}

fed_status sim_crowd_keep(const sim_clients *clients, const char *directory, fed_error *err) {
    char path[CROWD_PATH];
    fed_writer w;
    if (!is_kept(clients->options)) {
        return FED_OK;
    }
    name_file(clients->options, path);
    fed_writer_growing(&w);
    fed_status status = put_all(&w, clients, directory, err);
    if (status == FED_OK) {
        status = fed_file_replace(path, w.data, w.len, 0600, err);
    }
    fed_writer_free(&w);
    return status;
}

/** Read a length and that many bytes. NULL: the file ends before, and the reader has failed. */
static const uint8_t *take_bytes(fed_reader *r, size_t *len) {
    *len = (size_t)fed_read_u64(r);
    return fed_read_bytes(r, *len);
}

static fed_status take_coordinator(fed_reader *r, const char *directory, fed_error *err) {
    char name[FILE_NAME], path[CROWD_PATH];
    size_t len = 0;
    if (mkdir(directory, 0700) != 0) {
        return fed_file_fail(err, "make", directory);
    }
    for (fed_read_str(r, name, sizeof name); name[0] != '\0'; fed_read_str(r, name, sizeof name)) {
        const uint8_t *data = take_bytes(r, &len);
        FED_REQUIRE(data != NULL && strchr(name, '/') == NULL, FED_EFORMAT);
        snprintf(path, sizeof path, "%s/%s", directory, name);
        FED_TRY(fed_file_replace(path, data, len, 0600, err));
    }
    return r->status;
}

static fed_status take_identities(fed_reader *r, const sim_clients *clients, fed_error *err) {
    for (size_t k = 0; k < clients->client_count; k++) {
        const fedclient_platform *store = &clients->client[k].platform;
        size_t len = 0;
        const uint8_t *data = take_bytes(r, &len);
        FED_REQUIRE(data != NULL, FED_EFORMAT);
        FED_TRY(store->put(store->user, IDENTITY, data, len, err));
    }
    return fed_reader_end(r);
}

static bool is_whole(const uint8_t *data, size_t len, size_t head) {
    fed_reader end;
    if (len < head + sizeof(uint64_t)) {
        return false;
    }
    fed_reader_init(&end, data + len - sizeof(uint64_t), sizeof(uint64_t));
    return fed_read_u64(&end) == fed_digest_bytes(data, len - sizeof(uint64_t));
}

/** head: bytes of the first line. */
static fed_status take_all(const uint8_t *data, size_t len, size_t head, const sim_clients *clients,
                           const char *directory, fed_error *err) {
    fed_reader r;
    FED_REQUIRE(is_whole(data, len, head), FED_EFORMAT);
    fed_reader_init(&r, data + head, len - head - sizeof(uint64_t));
    FED_TRY(take_coordinator(&r, directory, err));
    return take_identities(&r, clients, err);
}

static bool begins_with(const uint8_t *data, size_t len, const char *text) {
    return len >= strlen(text) && memcmp(data, text, strlen(text)) == 0;
}

static fed_status take_file(const char *path, const sim_clients *clients, const char *directory,
                            bool *taken, fed_error *err) {
    const uint8_t *data = NULL;
    size_t len = 0;
    char about[ABOUT];
    const size_t head = tell_about(about);
    FED_TRY(fed_file_map(path, SIZE_MAX / 2, &data, &len, err));
    fed_status status = FED_OK;
    if (!begins_with(data, len, EACH_FORMAT)) {
        status =
            fed_fail(err, FED_EFORMAT,
                     "%s is no simulated crowd: move it away, or choose another directory", path);
    } else if (begins_with(data, len, about)) {
        status = take_all(data, len, head, clients, directory, err);
        *taken = status == FED_OK;
        if (status == FED_EFORMAT) {
            status = fed_fail(err, status,
                              "%s is damaged: remove it, and the next run makes it anew", path);
        }
    }
    fed_file_unmap(data, len);
    return status;
}

fed_status sim_crowd_take(const sim_clients *clients, const char *directory, bool *taken,
                          fed_error *err) {
    const sim_options *o = clients->options;
    char path[CROWD_PATH];
    *taken = false;
    if (!is_kept(o)) {
        return FED_OK;
    }
    FED_TRY(fed_dir_make(o->crowd, 0700, err));
    name_file(o, path);
    if (access(path, F_OK) == 0) {
        FED_TRY(take_file(path, clients, directory, taken, err));
    }
    return *taken || access(o->crowd, W_OK) == 0 ? FED_OK
                                                 : fed_file_fail(err, "write into", o->crowd);
}

fed_status sim_crowd_refuse(const sim_clients *clients, fed_status status, const fed_error *why,
                            fed_error *err) {
    char path[CROWD_PATH];
    name_file(clients->options, path);
    return fed_fail(err, status,
                    "%s was kept by another build, and this one can't use it: remove it, and the "
                    "next run makes it anew (%s)",
                    path, why->text[0] != '\0' ? why->text : fed_status_text(status));
}

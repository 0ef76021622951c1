/* Read or map a whole file, and replace a file atomically. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/bytes.h"

enum { PATH_BYTES = sizeof((fed_file){0}.path), READ_CHUNK = 65536 };

fed_status fed_file_fail(fed_error *err, const char *verb, const char *path) {
    int reason = errno;
    fed_status status = FED_EIO;
    if (reason == ENOENT || reason == ENOTDIR) {
        status = FED_ENOTFOUND;
    } else if (reason == ENOSPC || reason == EDQUOT) {
        status = FED_ENOSPC;
    }
    char words[128] = "unknown error";
    (void)strerror_r(reason, words, sizeof words);
    return fed_fail(err, status, "can't %s %s: %s", verb, path, words);
}

static fed_status fail_too_large(fed_error *err, const char *path, size_t limit) {
    return fed_fail(err, FED_ERANGE, "%s is larger than the %zu bytes that are allowed", path,
                    limit);
}

static fed_status fail_too_long(fed_error *err) {
    return fed_fail(err, FED_EINVAL, "a path is longer than %d characters", PATH_BYTES);
}

/* Read all of fd. FED_ERANGE: it has more than limit bytes. */
static fed_status read_all(int fd, const char *path, size_t limit, fed_writer *w, fed_error *err) {
    while (w->len <= limit) {
        size_t room = limit + 1 - w->len, kept = w->cap - w->len;
        room = room < READ_CHUNK ? room : READ_CHUNK;
        room = kept > 0 && kept < room ? kept : room; /* first fill what is reserved */
        uint8_t *at = fed_writer_reserve(w, room);
        if (at == NULL) {
            return fed_fail(err, w->status, "can't read %s: out of memory", path);
        }
        ssize_t got = read(fd, at, room);
        if (got == 0) {
            return FED_OK;
        }
        if (got < 0 && errno != EINTR) {
            return fed_file_fail(err, "read", path);
        }
        fed_writer_advance(w, got > 0 ? (size_t)got : 0);
    }
    return fail_too_large(err, path, limit);
}

fed_status fed_file_read(const char *path, size_t limit, uint8_t **data, size_t *len,
                         fed_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fed_file_fail(err, "open", path);
    }
    fed_writer bytes;
    fed_writer_growing(&bytes);
    /* The size is only a hint, which avoids growing the memory. The bytes read are what counts. */
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size < limit) {
        (void)fed_writer_reserve(&bytes, (size_t)info.st_size + 1); /* + 1: to read past the end */
    }
    fed_status status = read_all(fd, path, limit, &bytes, err);
    close(fd);
    if (status == FED_OK) {
        fed_write_u8(&bytes, 0);
        status = bytes.status;
    }
    if (status != FED_OK) {
        fed_writer_free(&bytes);
        return status;
    }
    *data = bytes.data;
    *len = bytes.len - 1;
    return FED_OK;
}

static bool begins(const char *text, size_t len, const char *mark) {
    return len >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0;
}

/* UTF-16 may lack its mark. If it begins in ASCII, one of its first two bytes is 0. */
static bool is_utf16(const char *text, size_t len) {
    return begins(text, len, "\xff\xfe") || begins(text, len, "\xfe\xff") ||
           (len >= 2 && (text[0] == '\0') != (text[1] == '\0'));
}

static const char utf8_mark[] = "\xef\xbb\xbf";

bool fed_text_is_clean(const char *text, size_t len) {
    return !begins(text, len, utf8_mark) && !is_utf16(text, len) && memchr(text, '\r', len) == NULL;
}

fed_status fed_text_clean(const char *path, char *text, size_t *len, fed_error *err) {
    if (is_utf16(text, *len)) {
        return fed_fail(err, FED_EFORMAT, "can't read %s: it is in UTF-16; save it as UTF-8", path);
    }
    size_t to = 0;
    for (size_t at = begins(text, *len, utf8_mark) ? strlen(utf8_mark) : 0; at < *len; at++) {
        const bool cr = text[at] == '\r';
        at += cr && at + 1 < *len && text[at + 1] == '\n';
        text[to++] = (char)(cr ? '\n' : text[at]);
    }
    memset(text + to, 0, *len - to);
    *len = to;
    return FED_OK;
}

fed_status fed_file_read_text(const char *path, size_t limit, char **text, size_t *len,
                              fed_error *err) {
    uint8_t *data = NULL;
    size_t size = 0;
    FED_TRY(fed_file_read(path, limit, &data, &size, err));
    const fed_status status = fed_text_clean(path, (char *)data, &size, err);
    if (status != FED_OK) {
        free(data);
        return status;
    }
    *text = (char *)data;
    *len = size;
    return FED_OK;
}

fed_status fed_file_read_word(const char *path, char *word, size_t cap, fed_error *err) {
    static const char blanks[] = " \t\n";
    char *text = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read_text(path, cap - 1, &text, &len, err));
    const char *first = text + strspn(text, blanks);
    const bool none = *first == '\0';
    if (!none) {
        snprintf(word, cap, "%.*s", (int)strcspn(first, blanks), first);
    }
    free(text);
    return none ? fed_fail(err, FED_EFORMAT,
                           "the file %s is empty: write the token, or the secret, into its first "
                           "line",
                           path)
                : FED_OK;
}

/* Map a plain file. A file of 0 bytes can't be mapped, and need not be. */
static fed_status map_open(int fd, const char *path, size_t limit, const uint8_t **data,
                           size_t *len, fed_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return fed_file_fail(err, "read", path);
    }
    if (!S_ISREG(info.st_mode)) {
        return fed_fail(err, FED_EIO, "can't read %s: it is not a plain file", path);
    }
    if ((uint64_t)info.st_size > limit) {
        return fail_too_large(err, path, limit);
    }
    size_t size = (size_t)info.st_size;
    void *at = size == 0 ? NULL : mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        return fed_file_fail(err, "map", path);
    }
    *data = size == 0 ? (const uint8_t *)"" : at;
    *len = size;
    return FED_OK;
}

fed_status fed_file_map(const char *path, size_t limit, const uint8_t **data, size_t *len,
                        fed_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not wait */
    if (fd < 0) {
        return fed_file_fail(err, "open", path);
    }
    fed_status status = map_open(fd, path, limit, data, len, err);
    close(fd);
    return status;
}

void fed_file_unmap(const uint8_t *data, size_t len) {
    if (len > 0) {
        (void)munmap((void *)(uintptr_t)data, len);
    }
}

static int open_parent(const char *path) {
    char parent[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        snprintf(parent, sizeof parent, ".");
    } else {
        snprintf(parent, sizeof parent, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    }
    return open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Give a new file the owner and group of its folder, as FED_FILE_SHARED asks (fed/file.h). */
static bool share(int fd, int directory) {
    struct stat folder, file;
    if (fstat(directory, &folder) != 0) {
        return false;
    }
    /* Only root can change the owner. Others try the group alone, which must be one of theirs. */
    if (fchown(fd, folder.st_uid, folder.st_gid) != 0) {
        (void)!fchown(fd, (uid_t)-1, folder.st_gid);
    }
    if (fstat(fd, &file) != 0) {
        return false;
    }
    const bool together = file.st_gid == folder.st_gid && (folder.st_mode & S_IWGRP) != 0;
    return fchmod(fd, together ? 0660 : 0600) == 0;
}

static int create_shared(const char *path, int flags) {
    const int fd = open(path, flags | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -1;
    }
    const int directory = open_parent(path);
    const bool shared = directory >= 0 && share(fd, directory);
    const int reason = errno;
    if (directory >= 0) {
        close(directory);
    }
    if (!shared) {
        close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

int fed_file_open_shared(const char *path, int flags) {
    if ((flags & O_CREAT) != 0) {
        const int made = create_shared(path, flags);
        if (made >= 0 || errno != EEXIST || (flags & O_EXCL) != 0) {
            return made;
        }
    }
    return open(path, (flags & ~O_CREAT) | O_CLOEXEC);
}

static fed_status create_temp(fed_file *file, unsigned mode, fed_error *err) {
    if ((size_t)snprintf(file->temp, sizeof file->temp, "%s.new-XXXXXX", file->path) >=
        sizeof file->temp) {
        return fail_too_long(err);
    }
    file->directory = open_parent(file->path);
    if (file->directory < 0) {
        return fed_file_fail(err, "open the directory of", file->path);
    }
    file->fd = mkstemp(file->temp);
    if (file->fd < 0) {
        fed_status status = fed_file_fail(err, "create", file->temp);
        close(file->directory);
        return status;
    }
    if (mode == FED_FILE_SHARED ? !share(file->fd, file->directory)
                                : fchmod(file->fd, (mode_t)mode) != 0) {
        fed_status status = fed_file_fail(err, "write", file->temp);
        fed_file_abandon(file);
        return status;
    }
    return FED_OK;
}

static fed_status read_link(char path[PATH_BYTES], fed_error *err) {
    char target[PATH_BYTES];
    const ssize_t len = readlink(path, target, sizeof target);
    if (len < 0) {
        return fed_file_fail(err, "read the link", path);
    }
    /* a relative target begins in the link's folder */
    const char *slash = strrchr(path, '/');
    const size_t kept = target[0] == '/' || slash == NULL ? 0 : (size_t)(slash + 1 - path);
    if (kept + (size_t)len >= PATH_BYTES) {
        return fail_too_long(err);
    }
    memcpy(path + kept, target, (size_t)len);
    path[kept + (size_t)len] = '\0';
    return FED_OK;
}

/* Follow the symbolic links of an output's path, if they lead to a plain file or to a free name.
 * *straight: the path names a device, a pipe or a link of /proc, which can't be replaced but is
 * written. */
static fed_status follow(char path[PATH_BYTES], bool *straight, fed_error *err) {
    enum { LINKS = 40 }; /* as many as Linux follows */
    struct stat info;
    const bool there = stat(path, &info) == 0;
    if (!there && errno == ELOOP) {
        return fed_file_fail(err, "open", path);
    }
    *straight = there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
    for (int k = 0; !*straight && k < LINKS && lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
         k++) {
        /* a link of /proc, such as the one behind /dev/stdout, stands for an open file */
        *straight = strncmp(path, "/proc/", 6) == 0;
        if (!*straight) {
            FED_TRY(read_link(path, err));
        }
    }
    return FED_OK;
}

static fed_status open_straight(fed_file *file, fed_error *err) {
    file->temp[0] = '\0';
    file->directory = -1;
    file->fd = open(file->path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
    return file->fd >= 0 ? FED_OK : fed_file_fail(err, "open", file->path);
}

fed_status fed_file_create(const char *path, unsigned mode, fed_file *file, fed_error *err) {
    bool straight = false;
    if ((size_t)snprintf(file->path, sizeof file->path, "%s", path) >= sizeof file->path) {
        return fail_too_long(err);
    }
    if ((mode & FED_FILE_OUTPUT) != 0) {
        FED_TRY(follow(file->path, &straight, err));
    }
    return straight ? open_straight(file, err)
                    : create_temp(file, mode & ~(unsigned)FED_FILE_OUTPUT, err);
}

static const char *written(const fed_file *file) {
    return file->temp[0] != '\0' ? file->temp : file->path;
}

fed_status fed_file_put(fed_file *file, const void *data, size_t len, fed_error *err) {
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t put = write(file->fd, at, len);
        if (put < 0 && errno != EINTR) {
            return fed_file_fail(err, "write", written(file));
        }
        if (put > 0) {
            at += put;
            len -= (size_t)put;
        }
    }
    return FED_OK;
}

fed_status fed_file_sync(fed_file *file, fed_error *err) {
    /* a pipe or a device can't be synced */
    return file->temp[0] == '\0' || fdatasync(file->fd) == 0
               ? FED_OK
               : fed_file_fail(err, "write", file->temp);
}

fed_status fed_file_put_floats(fed_file *file, const float *x, size_t n, fed_error *err) {
    enum { CHUNK = 4096 };
    uint8_t bytes[4 * CHUNK];
    while (n > 0) {
        size_t count = n < CHUNK ? n : CHUNK;
        /* Compilers make a plain copy of these byte moves on a little-endian machine. */
        for (size_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, &x[i], sizeof bits);
            bytes[4 * i] = (uint8_t)bits;
            bytes[4 * i + 1] = (uint8_t)(bits >> 8);
            bytes[4 * i + 2] = (uint8_t)(bits >> 16);
            bytes[4 * i + 3] = (uint8_t)(bits >> 24);
        }
        FED_TRY(fed_file_put(file, bytes, 4 * count, err));
        x += count;
        n -= count;
    }
    return FED_OK;
}

void fed_file_abandon(fed_file *file) {
    if (file->fd >= 0) {
        close(file->fd);
    }
    if (file->temp[0] != '\0') {
        unlink(file->temp);
        close(file->directory);
    }
}

/* Sync a directory. EINVAL: the file system has no fsync for directories, and needs none. */
static fed_status sync_directory(int fd, const char *path, fed_error *err) {
    return fsync(fd) == 0 || errno == EINVAL ? FED_OK
                                             : fed_file_fail(err, "sync the directory of", path);
}

/* Make a name durable. old: the name may have existed before. If the caller may not open its
 * directory then, it belongs to another user, who is responsible for its names. */
static fed_status sync_name(const char *path, bool old, fed_error *err) {
    int fd = open_parent(path);
    if (fd < 0) {
        return old && errno == EACCES ? FED_OK : fed_file_fail(err, "open the directory of", path);
    }
    fed_status status = sync_directory(fd, path, err);
    close(fd);
    return status;
}

fed_status fed_name_sync(const char *path, fed_error *err) {
    return sync_name(path, false, err);
}

static fed_status finish(fed_file *file, fed_error *err) {
    if (file->temp[0] != '\0' && fsync(file->fd) != 0) {
        return fed_file_fail(err, "write", file->temp);
    }
    int failed = close(file->fd);
    file->fd = -1;
    return failed ? fed_file_fail(err, "close", written(file)) : FED_OK;
}

fed_status fed_file_commit(fed_file *file, fed_error *err) {
    fed_status status = finish(file, err);
    if (status == FED_OK && file->temp[0] == '\0') {
        return FED_OK;
    }
    if (status == FED_OK && rename(file->temp, file->path) != 0) {
        status = fed_file_fail(err, "replace", file->path);
    }
    if (status != FED_OK) {
        fed_file_abandon(file);
        return status;
    }
    status = sync_directory(file->directory, file->path, err); /* makes the new name durable */
    close(file->directory);
    return status;
}

fed_status fed_file_move(const char *from, const char *to, fed_error *err) {
    fed_file file;
    if ((size_t)snprintf(file.path, sizeof file.path, "%s", to) >= sizeof file.path ||
        (size_t)snprintf(file.temp, sizeof file.temp, "%s", from) >= sizeof file.temp) {
        return fail_too_long(err);
    }
    file.fd = open(from, O_RDWR | O_CLOEXEC);
    if (file.fd < 0) {
        return fed_file_fail(err, "open", from);
    }
    file.directory = open_parent(to);
    if (file.directory < 0) {
        close(file.fd);
        return fed_file_fail(err, "open the directory of", to);
    }
    return fed_file_commit(&file, err);
}

fed_status fed_file_replace(const char *path, const void *data, size_t len, unsigned mode,
                            fed_error *err) {
    fed_file file;
    FED_TRY(fed_file_create(path, mode, &file, err));
    fed_status status = fed_file_put(&file, data, len, err);
    if (status != FED_OK) {
        fed_file_abandon(&file);
        return status;
    }
    return fed_file_commit(&file, err);
}

static fed_status make_one(const char *path, unsigned mode, fed_error *err) {
    struct stat info;
    if (mkdir(path, (mode_t)mode) == 0) {
        return fed_name_sync(path, err);
    }
    if (errno != EEXIST) {
        return fed_file_fail(err, "make the directory", path);
    }
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return fed_fail(err, FED_EEXIST, "can't make the directory %s: a file of that name exists",
                        path);
    }
    return FED_OK;
}

fed_status fed_dir_make(const char *path, unsigned mode, fed_error *err) {
    char part[PATH_BYTES];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) {
        return fail_too_long(err);
    }
    for (size_t len = strlen(part); len > 1 && part[len - 1] == '/'; len--) {
        part[len - 1] = '\0';
    }
    for (char *slash = strchr(part + 1, '/'); part[0] != '\0' && slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        FED_TRY(make_one(part, mode, err));
        *slash = '/';
    }
    FED_TRY(make_one(part, mode, err));
    /* The process that made the directory may have died before the name was durable. */
    return sync_name(part, true, err);
}

void fed_dir_tidy(const char *directory) {
    static const char mark[] = ".new-XXXXXX"; /* the ending of fed_file_create's temporary files */
    DIR *dir = opendir(directory);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        size_t len = strlen(e->d_name);
        if (len > sizeof mark - 1 && strncmp(e->d_name + len - (sizeof mark - 1), mark, 5) == 0) {
            (void)unlinkat(dirfd(dir), e->d_name, 0);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/* Whole files: read or map one, replace one atomically. */
#include "fed/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/bytes.h"

enum { PATH_BYTES = 4096, READ_CHUNK = 65536 };

/* Say what could not be done with path, from errno. */
static fed_status fail_errno(fed_error *err, const char *verb, const char *path) {
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

/* Append up to limit + 1 bytes of fd, so that the caller sees whether there are more than limit. */
static fed_status read_all(int fd, const char *path, size_t limit, fed_writer *w, fed_error *err) {
    while (w->len <= limit) {
        size_t room = limit + 1 - w->len;
        room = room < READ_CHUNK ? room : READ_CHUNK;
        uint8_t *at = fed_writer_reserve(w, room);
        if (at == NULL) {
            return fed_fail(err, w->status, "can't read %s: out of memory", path);
        }
        ssize_t got = read(fd, at, room);
        if (got == 0) {
            return FED_OK;
        }
        if (got < 0 && errno != EINTR) {
            return fail_errno(err, "read", path);
        }
        fed_writer_advance(w, got > 0 ? (size_t)got : 0);
    }
    return fail_too_large(err, path, limit);
}

fed_status fed_file_read(const char *path, size_t limit, uint8_t **data, size_t *len,
                         fed_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail_errno(err, "open", path);
    }
    fed_writer bytes;
    fed_writer_growing(&bytes);
    /* The size is only a hint that saves growing; what counts is what can be read. */
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size < limit) {
        (void)fed_writer_reserve(&bytes, (size_t)info.st_size + READ_CHUNK);
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

/* What a plain file is mapped as; a file of 0 bytes can't be mapped, and needs not be. */
static fed_status map_open(int fd, const char *path, size_t limit, const uint8_t **data,
                           size_t *len, fed_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return fail_errno(err, "read", path);
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
        return fail_errno(err, "map", path);
    }
    *data = size == 0 ? (const uint8_t *)"" : at;
    *len = size;
    return FED_OK;
}

fed_status fed_file_map(const char *path, size_t limit, const uint8_t **data, size_t *len,
                        fed_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not keep us waiting */
    if (fd < 0) {
        return fail_errno(err, "open", path);
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

static fed_status write_all(int fd, const char *path, const uint8_t *data, size_t len,
                            fed_error *err) {
    while (len > 0) {
        ssize_t put = write(fd, data, len);
        if (put < 0 && errno != EINTR) {
            return fail_errno(err, "write", path);
        }
        if (put > 0) {
            data += put;
            len -= (size_t)put;
        }
    }
    return FED_OK;
}

/* Create a file of a name that is free, `path` and a suffix, and bring the bytes to the disk. */
static fed_status write_temp(char *path, const void *data, size_t len, unsigned mode,
                             fed_error *err) {
    int fd = mkstemp(path);
    if (fd < 0) {
        return fail_errno(err, "create", path);
    }
    fed_status status = write_all(fd, path, data, len, err);
    if (status == FED_OK && (fchmod(fd, (mode_t)mode) != 0 || fsync(fd) != 0)) {
        status = fail_errno(err, "write", path);
    }
    if (close(fd) != 0 && status == FED_OK) {
        status = fail_errno(err, "close", path);
    }
    if (status != FED_OK) {
        unlink(path);
    }
    return status;
}

/* Open the directory that holds path. */
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

/* Rename and make the new name survive a power loss. EINVAL: a file system that has no such thing
 * for directories, and needs none. */
static fed_status put_in_place(const char *temp, const char *path, int parent, fed_error *err) {
    if (rename(temp, path) != 0) {
        fed_status status = fail_errno(err, "replace", path);
        unlink(temp);
        return status;
    }
    if (fsync(parent) != 0 && errno != EINVAL) {
        return fail_errno(err, "sync the directory of", path);
    }
    return FED_OK;
}

fed_status fed_file_replace(const char *path, const void *data, size_t len, unsigned mode,
                            fed_error *err) {
    char temp[PATH_BYTES];
    if ((size_t)snprintf(temp, sizeof temp, "%s.new-XXXXXX", path) >= sizeof temp) {
        return fed_fail(err, FED_EINVAL, "a path is longer than %d characters", PATH_BYTES);
    }
    int parent = open_parent(path);
    if (parent < 0) {
        return fail_errno(err, "open the directory of", path);
    }
    fed_status status = write_temp(temp, data, len, mode, err);
    if (status == FED_OK) {
        status = put_in_place(temp, path, parent, err);
    }
    close(parent);
    return status;
}

static fed_status make_one(const char *path, unsigned mode, fed_error *err) {
    struct stat info;
    if (mkdir(path, (mode_t)mode) == 0) {
        return FED_OK;
    }
    if (errno != EEXIST) {
        return fail_errno(err, "make the directory", path);
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
        return fed_fail(err, FED_EINVAL, "a path is longer than %d characters", PATH_BYTES);
    }
    for (char *slash = strchr(part + 1, '/'); part[0] != '\0' && slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        FED_TRY(make_one(part, mode, err));
        *slash = '/';
    }
    return make_one(part, mode, err);
}

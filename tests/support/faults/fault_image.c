/* The image in memory of what has reached the disk. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: syscall */
#include "tests/support/faults/fault_image.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/faults/fault_disk.h"

enum { FILES = 512, NAMES = 512 };

/** A file, which may have several names, or none. */
typedef struct image_file {
    ino_t number;
    int fd; /* kept open, so that the system can't reuse `number` */
    mode_t mode;
    uint8_t *synced;
    size_t len;
} image_file;

typedef struct image_name {
    char path[300];
    int file; /* index of the file; -1: the name is a directory */
} image_name;

static char root[300];
static image_file files[FILES];
static image_name names[NAMES];
static int file_count, name_count;

static void must(bool true_statement, const char *what) {
    if (!true_statement) {
        fprintf(stderr, "fault_image: %s\n", what);
        abort();
    }
}

static uint8_t *read_whole(int fd, size_t *len) {
    struct stat info;
    must(fstat(fd, &info) == 0, "fstat");
    uint8_t *bytes = malloc((size_t)info.st_size + 1);
    must(bytes != NULL, "out of memory");
    ssize_t got = pread(fd, bytes, (size_t)info.st_size, 0);
    *len = got > 0 ? (size_t)got : 0;
    return bytes;
}

static int meet(const struct stat *info, const char *path) {
    for (int k = 0; k < file_count; k++) {
        if (files[k].number == info->st_ino) {
            return k;
        }
    }
    must(file_count < FILES, "too many watched files: raise FILES");
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    must(fd >= 0, "can't open a watched file");
    files[file_count] = (image_file){.number = info->st_ino, .fd = fd, .mode = info->st_mode};
    return file_count++;
}

static void sync_file(int k) {
    free(files[k].synced);
    files[k].synced = read_whole(files[k].fd, &files[k].len);
}

static void add_name(const char *path, int file) {
    const size_t len = strlen(path);
    must(name_count < NAMES && len < sizeof names[0].path,
         "too many watched names, or too long a path: raise NAMES");
    memcpy(names[name_count].path, path, len + 1);
    names[name_count++].file = file;
}

static bool is_in(const char *path, const char *directory) {
    size_t len = strlen(directory);
    return strncmp(path, directory, len) == 0 && path[len] == '/' &&
           strchr(path + len + 1, '/') == NULL;
}

static void sync_names(const char *directory, bool contents) {
    int kept = 0;
    for (int k = 0; k < name_count; k++) {
        if (!is_in(names[k].path, directory)) {
            names[kept++] = names[k];
        }
    }
    name_count = kept;
    DIR *dir = opendir(directory);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        char path[PATH_MAX + 300];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || stat(path, &info) != 0) {
            continue;
        }
        int file = S_ISDIR(info.st_mode) ? -1 : meet(&info, path);
        add_name(path, file);
        if (contents && file >= 0) {
            sync_file(file);
        } else if (contents) {
            sync_names(path, true);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

void fault_image_open(const char *directory) {
    snprintf(root, sizeof root, "%s", directory);
    sync_names(root, true);
}

void fault_image_meet(int fd) {
    char link[40];
    struct stat info;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        (void)meet(&info, link);
    }
}

void fault_image_sync(int fd, const char *path) {
    struct stat info;
    must(fstat(fd, &info) == 0, "fstat");
    if (S_ISDIR(info.st_mode)) {
        sync_names(path, false);
    } else {
        sync_file(meet(&info, path));
    }
}

static uint64_t dice;

static bool toss(void) {
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (dice >> 40 & 1) != 0;
}

static void tear(image_file *f) {
    size_t now_len = 0;
    uint8_t *now = read_whole(f->fd, &now_len);
    size_t len = toss() ? now_len : f->len;
    uint8_t *found = calloc(1, len + 1);
    must(found != NULL, "out of memory");
    for (size_t at = 0; at < len; at += FAULT_SECTOR) {
        bool new = toss();
        const uint8_t *from = new ? now : f->synced;
        size_t have = new ? now_len : f->len;
        size_t end = at + FAULT_SECTOR < len ? at + FAULT_SECTOR : len;
        end = end < have ? end : have;
        if (end > at) {
            memcpy(found + at, from + at, end - at);
        }
    }
    free(now);
    free(f->synced);
    f->synced = found;
    f->len = len;
}

static void remove_all(const char *directory) {
    DIR *dir = opendir(directory);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        char path[PATH_MAX + 300];
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (syscall(SYS_unlinkat, AT_FDCWD, path, 0) != 0) {
            remove_all(path);
            (void)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static void write_back(const image_name *name) {
    if (name->file < 0) {
        (void)syscall(SYS_mkdirat, AT_FDCWD, name->path, 0700);
        return;
    }
    const image_file *f = &files[name->file];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name->path, O_WRONLY | O_CREAT | O_TRUNC,
                          f->mode & 0777);
    for (size_t at = 0; fd >= 0 && at < f->len;) {
        long put = syscall(SYS_pwrite64, fd, f->synced + at, f->len - at, at);
        must(put > 0, "can't write a restored file");
        at += (size_t)put;
    }
    if (fd >= 0) {
        (void)syscall(SYS_close, fd);
    }
}

static void toss_names(void) {
    image_name directories[NAMES];
    int count = 0;
    for (int k = 0; k < name_count; k++) {
        if (names[k].file < 0) {
            directories[count++] = names[k];
        }
    }
    for (int k = 0; k < count; k++) {
        if (toss()) {
            sync_names(directories[k].path, false);
        }
    }
    if (toss()) {
        sync_names(root, false);
    }
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const image_name *)a)->path, ((const image_name *)b)->path);
}

void fault_image_restore(bool torn, uint64_t seed) {
    dice = seed;
    if (torn) {
        toss_names();
    }
    for (int k = 0; torn && k < file_count; k++) {
        tear(&files[k]);
    }
    remove_all(root);
    qsort(names, (size_t)name_count, sizeof *names, by_path);
    for (int k = 0; k < name_count; k++) {
        write_back(&names[k]);
    }
}

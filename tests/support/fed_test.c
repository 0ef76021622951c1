/* Helpers that tests share (fed_test.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void fed_test_call(void **state) {
    (*(const fed_test_body *)*state)();
}

#ifdef FED_SANITIZED
bool fed_test_is_short(void) {
    return true;
}
#else
typedef enum test_length { UNREAD, SHORT, ALL } test_length;

static test_length read_length(void) {
    const char *text = getenv("FED_TEST_LENGTH");
    if (text == NULL || strcmp(text, "all") == 0) {
        return ALL;
    }
    if (strcmp(text, "short") != 0) {
        fail_msg("FED_TEST_LENGTH is %s; it can be short or all", text);
    }
    return SHORT;
}

bool fed_test_is_short(void) {
    static _Atomic test_length length = UNREAD;
    if (length == UNREAD) {
        length = read_length();
    }
    return length == SHORT;
}
#endif

void fed_test_tmpdir(char *dst, size_t cap) {
    const char *base = getenv("TMPDIR");
    snprintf(dst, cap, "%s/fedtest-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp");
    if (mkdtemp(dst) == NULL) {
        fail_msg("can't make the temporary directory %s", dst);
    }
}

void fed_test_rmdir(const char *directory) {
    DIR *dir = opendir(directory);
    if (dir == NULL) {
        return;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        struct stat info;
        if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
            fed_test_rmdir(path);
        } else {
            unlink(path);
        }
    }
    closedir(dir);
    rmdir(directory);
}

char fed_test_dir[256];

int fed_test_dir_make(void **state) {
    (void)state;
    fed_test_tmpdir(fed_test_dir, sizeof fed_test_dir);
    return 0;
}

int fed_test_dir_remove(void **state) {
    (void)state;
    fed_test_rmdir(fed_test_dir);
    return 0;
}

void fed_test_put(const char *directory, const char *name, const void *data, size_t len) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

int fed_test_run(const char *directory, const char *program, const char *args, char *out,
                 size_t cap) {
    char command[1024];
    snprintf(command, sizeof command, "cd '%s' && '%s/%s' %s 2>&1", directory, FED_BIN_DIR, program,
             args);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t len = fread(out, 1, cap - 1, pipe);
    out[len] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

void fed_test_die_with_parent(void) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

pid_t fed_test_child(pid_t parent) {
    char path[96], list[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const bool any = fgets(list, sizeof list, file) != NULL;
    fclose(file);
    return any ? (pid_t)strtol(list, NULL, 10) : 0;
}

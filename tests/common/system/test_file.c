/* Files: reading whole files, replacing files atomically, making directories. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* mknod */
#include "fed_cases.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fed/file.h"

/* A path inside the test's directory; valid until the next call. */
static const char *in_dir(const char *name) {
    static char path[700];
    snprintf(path, sizeof path, "%s/%s", fed_test_dir, name);
    return path;
}

static void put(const char *name, const char *text) {
    fed_error err = {0};
    assert_fed_ok_err(fed_file_replace(in_dir(name), text, strlen(text), 0600, &err));
}

static void check_content(const char *name, const char *text) {
    fed_error err = {0};
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok_err(fed_file_read(in_dir(name), 1000, &data, &len, &err));
    assert_int_equal(len, strlen(text));
    assert_string_equal((const char *)data, text);
    free(data);
}

static int count_entries(void) {
    int count = 0;
    DIR *d = opendir(fed_test_dir);
    assert_non_null(d);
    while (readdir(d) != NULL) {
        count++;
    }
    closedir(d);
    return count - 2;
}

static void check_says(const fed_error *err, const char *words) {
    if (strstr(err->text, words) == NULL) {
        fail_msg("the error \"%s\" does not contain \"%s\"", err->text, words);
    }
}

FED_TEST(test_a_replaced_file_has_the_new_bytes_and_mode) {
    fed_error err = {0};
    put("f", "old");
    check_content("f", "old");
    assert_fed_ok_err(fed_file_replace(in_dir("f"), "newer", 5, 0640, &err));
    check_content("f", "newer");
    struct stat info;
    assert_int_equal(stat(in_dir("f"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(count_entries(), 1);
}

FED_TEST(test_an_empty_file_can_be_written_and_read) {
    put("f", "");
    check_content("f", "");
}

/* A limit on the file size makes a write fail in the middle, like a full disk. */
FED_TEST(test_a_write_that_fails_keeps_the_old_file) {
    put("f", "old");
    struct rlimit kept;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &kept), 0);
    struct rlimit small = {.rlim_cur = 1000, .rlim_max = kept.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    char data[3000];
    memset(data, 'x', sizeof data);
    fed_error err = {0};
    fed_status status = fed_file_replace(in_dir("f"), data, sizeof data, 0600, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &kept), 0);
    assert_fed_status(status, FED_EIO);
    check_says(&err, in_dir("f"));
    check_content("f", "old");
    assert_int_equal(count_entries(), 1);
}

FED_TEST(test_a_file_put_in_pieces_appears_when_it_is_committed) {
    static const float x[] = {1.0f, -2.5f};
    fed_error err = {0};
    fed_file file;
    put("f", "old");
    assert_fed_ok_err(fed_file_create(in_dir("f"), 0600, &file, &err));
    assert_fed_ok_err(fed_file_put(&file, "new ", 4, &err));
    assert_fed_ok_err(fed_file_sync(&file, &err));
    assert_fed_ok_err(fed_file_put_floats(&file, x, 2, &err));
    check_content("f", "old");
    assert_fed_ok_err(fed_file_commit(&file, &err));
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok_err(fed_file_read(in_dir("f"), 100, &data, &len, &err));
    assert_int_equal(len, 12);
    assert_memory_equal(data, "new \x00\x00\x80\x3f\x00\x00\x20\xc0", 12);
    free(data);
    assert_int_equal(count_entries(), 1);
}

FED_TEST(test_an_abandoned_file_leaves_the_old_one) {
    fed_error err = {0};
    fed_file file;
    put("f", "old");
    assert_fed_ok_err(fed_file_create(in_dir("f"), 0600, &file, &err));
    assert_fed_ok_err(fed_file_put(&file, "new", 3, &err));
    fed_file_abandon(&file);
    check_content("f", "old");
    assert_int_equal(count_entries(), 1);
}

FED_TEST(test_a_missing_directory_is_not_found) {
    fed_error err = {0};
    assert_fed_status(fed_file_replace(in_dir("none/f"), "x", 1, 0600, &err), FED_ENOTFOUND);
    check_says(&err, "none/f");
}

FED_TEST(test_a_rename_that_fails_leaves_no_temp_file) {
    fed_error err = {0};
    assert_fed_ok_err(fed_dir_make(in_dir("taken/inner"), 0700, &err));
    assert_fed_status(fed_file_replace(in_dir("taken"), "x", 1, 0600, &err), FED_EIO);
    check_says(&err, "taken");
    assert_int_equal(count_entries(), 1);
}

FED_TEST(test_a_name_without_a_directory_lies_in_the_current_one) {
    char kept[1024];
    assert_non_null(getcwd(kept, sizeof kept));
    assert_int_equal(chdir(fed_test_dir), 0);
    fed_error err = {0};
    fed_status status = fed_file_replace("plain", "here", 4, 0600, &err);
    assert_int_equal(chdir(kept), 0);
    assert_fed_ok_err(status);
    check_content("plain", "here");
}

FED_TEST(test_too_long_a_path_is_refused) {
    static char path[6000];
    memset(path, 'p', sizeof path - 1);
    fed_error err = {0};
    assert_fed_status(fed_file_replace(path, "x", 1, 0600, &err), FED_EINVAL);
    assert_fed_status(fed_dir_make(path, 0700, &err), FED_EINVAL);
}

FED_TEST(test_reading_stops_at_the_limit) {
    put("f", "12345");
    fed_error err = {0};
    uint8_t *data = NULL;
    size_t len = 7;
    assert_fed_status(fed_file_read(in_dir("f"), 4, &data, &len, &err), FED_ERANGE);
    check_says(&err, "4 bytes");
    assert_null(data);
    assert_int_equal(len, 7);
    assert_fed_ok_err(fed_file_read(in_dir("f"), 5, &data, &len, &err));
    assert_int_equal(len, 5);
    free(data);
    /* A file without an end. */
    assert_fed_status(fed_file_read("/dev/zero", 100000, &data, &len, &err), FED_ERANGE);
}

FED_TEST(test_a_missing_file_is_not_found) {
    fed_error err = {0};
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_status(fed_file_read(in_dir("absent"), 10, &data, &len, &err), FED_ENOTFOUND);
    check_says(&err, "absent: No such file");
    assert_fed_status(fed_file_read(fed_test_dir, 10, &data, &len, &err), FED_EIO);
    check_says(&err, "directory");
}

FED_TEST(test_a_large_file_round_trips) {
    enum { SIZE = 300001 };
    uint8_t *data = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (uint8_t)(i * 7 + i / 251);
    }
    fed_error err = {0};
    assert_fed_ok_err(fed_file_replace(in_dir("f"), data, SIZE, 0600, &err));
    uint8_t *back = NULL;
    size_t len = 0;
    assert_fed_ok_err(fed_file_read(in_dir("f"), SIZE, &back, &len, &err));
    assert_int_equal(len, SIZE);
    assert_memory_equal(back, data, SIZE);
    free(back);
    free(data);
}

FED_TEST(test_a_mapped_file_is_the_file) {
    fed_error err = {0};
    const uint8_t *data = NULL;
    size_t len = 7;
    put("f", "seven b");
    assert_fed_ok_err(fed_file_map(in_dir("f"), 7, &data, &len, &err));
    assert_int_equal(len, 7);
    assert_memory_equal(data, "seven b", 7);
    fed_file_unmap(data, len);
    put("f", "");
    assert_fed_ok_err(fed_file_map(in_dir("f"), 7, &data, &len, &err));
    assert_int_equal(len, 0);
    assert_non_null(data);
    fed_file_unmap(data, len);
}

FED_TEST(test_what_cannot_be_mapped_is_named) {
    fed_error err = {0};
    const uint8_t *data = NULL;
    size_t len = 0;
    put("f", "seven b");
    assert_fed_status(fed_file_map(in_dir("f"), 6, &data, &len, &err), FED_ERANGE);
    check_says(&err, "6 bytes");
    assert_fed_status(fed_file_map(in_dir("none"), 6, &data, &len, &err), FED_ENOTFOUND);
    check_says(&err, "none");
    assert_fed_status(fed_file_map(in_dir(""), 6, &data, &len, &err), FED_EIO);
    check_says(&err, "not a plain file");
    assert_null(data);
}

static void replace_output(const char *name, const char *text) {
    fed_error err = {0};
    assert_fed_ok_err(
        fed_file_replace(in_dir(name), text, strlen(text), FED_FILE_OUTPUT | 0640, &err));
}

static mode_t mode_of(const char *name) {
    struct stat info;
    assert_int_equal(lstat(in_dir(name), &info), 0);
    return info.st_mode;
}

static void link_to(const char *target, const char *name) {
    assert_int_equal(symlink(target, in_dir(name)), 0);
}

FED_TEST(test_of_an_output_that_is_a_link_the_target_is_replaced) {
    fed_error err = {0};
    char whole[600];
    assert_fed_ok_err(fed_dir_make(in_dir("folder"), 0700, &err));
    put("folder/f", "old");
    snprintf(whole, sizeof whole, "%s/folder/f", fed_test_dir);
    link_to("folder/f", "relative");
    link_to("relative", "twice");
    link_to(whole, "absolute");
    static const char *const names[] = {"relative", "twice", "absolute"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        replace_output(names[k], names[k]);
        assert_true(S_ISLNK(mode_of(names[k])));
        check_content("folder/f", names[k]);
        assert_int_equal(mode_of("folder/f") & 07777, 0640);
    }
    assert_int_equal(count_entries(), 4);
}

FED_TEST(test_an_output_that_is_a_link_to_nothing_makes_the_target) {
    link_to("f", "link");
    replace_output("link", "new");
    check_content("f", "new");
    assert_true(S_ISLNK(mode_of("link")));
}

FED_TEST(test_links_in_a_circle_are_refused) {
    fed_error err = {0};
    link_to("b", "a");
    link_to("a", "b");
    assert_fed_status(fed_file_replace(in_dir("a"), "x", 1, FED_FILE_OUTPUT | 0600, &err), FED_EIO);
    assert_true(S_ISLNK(mode_of("a")) && S_ISLNK(mode_of("b")));
}

/* A program's own files lie where another user might put a link. */
FED_TEST(test_a_link_in_the_place_of_a_programs_own_file_is_replaced) {
    put("secret", "secret");
    link_to("secret", "own");
    put("own", "new");
    assert_true(S_ISREG(mode_of("own")));
    check_content("secret", "secret");
}

FED_TEST(test_an_output_that_is_a_pipe_is_written) {
    char got[16] = "";
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    link_to("pipe", "link");
    const int reader = open(in_dir("pipe"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    replace_output("pipe", "one ");
    replace_output("link", "two");
    assert_int_equal(read(reader, got, sizeof got), 7);
    assert_string_equal(got, "one two");
    close(reader);
    assert_true(S_ISFIFO(mode_of("pipe")) && S_ISLNK(mode_of("link")));
    assert_int_equal(count_entries(), 2);
}

FED_TEST(test_an_output_that_is_an_open_file_of_this_process_is_written) {
    char name[64];
    fed_error err = {0};
    put("f", "some old words");
    const int fd = open(in_dir("f"), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    assert_fed_ok_err(fed_file_replace(name, "new", 3, FED_FILE_OUTPUT | 0600, &err));
    char got[8] = "";
    assert_int_equal(read(fd, got, sizeof got), 3); /* the output is still the same file */
    assert_string_equal(got, "new");
    close(fd);
}

FED_TEST(test_a_full_device_stays_and_says_that_it_is_full) {
    fed_error err = {0};
    if (geteuid() != 0 || mknod(in_dir("full"), S_IFCHR | 0600, makedev(1, 7)) != 0) {
        skip(); /* only root makes devices */
    }
    const int fd = open(in_dir("full"), O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        skip(); /* this file system is mounted without devices */
    }
    close(fd);
    assert_fed_status(fed_file_replace(in_dir("full"), "x", 1, FED_FILE_OUTPUT | 0600, &err),
                      FED_ENOSPC);
    check_says(&err, in_dir("full"));
    assert_true(S_ISCHR(mode_of("full")));
    assert_int_equal(count_entries(), 1);
}

/* Make two shared files, one with fed_file_replace and one with fed_file_open_shared, under a
 * strict umask. */
static void make_shared(const char *folder, const char *whole, const char *opened) {
    fed_error err = {0};
    char path[300];
    const mode_t before = umask(0077);
    snprintf(path, sizeof path, "%s/%s", folder, whole);
    assert_fed_ok_err(fed_file_replace(in_dir(path), "x", 1, FED_FILE_SHARED, &err));
    snprintf(path, sizeof path, "%s/%s", folder, opened);
    const int fd = fed_file_open_shared(in_dir(path), O_RDWR | O_CREAT);
    umask(before);
    assert_true(fd >= 0);
    close(fd);
}

FED_TEST(test_a_shared_file_is_its_folders) {
    static const char *const made[] = {"folder/whole", "folder/opened"};
    enum { USER = 61001, GROUP = 61000 };
    struct stat info;
    const bool root = geteuid() == 0;
    assert_int_equal(mkdir(in_dir("folder"), 0700), 0);
    make_shared("folder", "whole", "opened");
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(mode_of(made[k]) & 07777, 0600);
        assert_int_equal(unlink(in_dir(made[k])), 0);
    }
    if (root) {
        assert_int_equal(chown(in_dir("folder"), USER, GROUP), 0);
    }
    assert_int_equal(chmod(in_dir("folder"), 02770), 0);
    make_shared("folder", "whole", "opened");
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(stat(in_dir(made[k]), &info), 0);
        assert_int_equal(info.st_mode & 07777, 0660);
        assert_true(!root || (info.st_uid == USER && info.st_gid == GROUP));
    }
}

FED_TEST(test_a_shared_file_is_made_only_where_that_is_asked_for) {
    put("f", "old");
    assert_int_equal(chmod(in_dir("f"), 0640), 0);
    const int present = fed_file_open_shared(in_dir("f"), O_RDWR | O_CREAT);
    assert_true(present >= 0);
    close(present);
    assert_int_equal(mode_of("f") & 07777, 0640);
    assert_int_equal(fed_file_open_shared(in_dir("f"), O_RDWR | O_CREAT | O_EXCL), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(fed_file_open_shared(in_dir("none"), O_RDWR), -1);
    assert_int_equal(errno, ENOENT);
}

FED_TEST(test_directories_are_made_with_their_parents) {
    fed_error err = {0};
    assert_fed_ok_err(fed_dir_make(in_dir("a/b//c/"), 0700, &err));
    assert_fed_ok_err(fed_dir_make(in_dir("a/b/c"), 0700, &err));
    struct stat info;
    assert_int_equal(stat(in_dir("a/b/c"), &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    put("file", "");
    assert_fed_status(fed_dir_make(in_dir("file"), 0700, &err), FED_EEXIST);
    assert_fed_status(fed_dir_make(in_dir("file/below"), 0700, &err), FED_EEXIST);
    check_says(&err, "file");
    assert_fed_status(fed_dir_make("", 0700, &err), FED_ENOTFOUND);
}

FED_TEST(test_what_crashes_left_is_removed_and_nothing_else) {
    put("f", "");
    put("f.new-aB3xYz", "");
    put("f.new-journal", "");
    put("f.new", "");
    put(".new-aB3xYz", "");
    fed_dir_tidy(fed_test_dir);
    assert_int_equal(access(in_dir("f.new-aB3xYz"), F_OK), -1);
    assert_int_equal(access(in_dir("f"), F_OK), 0);
    assert_int_equal(access(in_dir("f.new-journal"), F_OK), 0);
    assert_int_equal(access(in_dir("f.new"), F_OK), 0);
    assert_int_equal(access(in_dir(".new-aB3xYz"), F_OK), 0);
    fed_dir_tidy(in_dir("none"));
}

int main(void) {
    return fed_cases_run_each(fed_test_dir_make, fed_test_dir_remove);
}

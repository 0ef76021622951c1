/* A cache of compiled kernels in a folder: what a kernel is found by, and damaged files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <dirent.h>
#include <unistd.h>

#include "common/gpu/module_cache.h"

static char folder[300];
static const char *const parts[] = {"opencl", "card", "source", NULL};
static const uint8_t bytes[] = {0, 1, 2, 3, 250, 255, 0};

static int make_dir(void **state) {
    (void)fed_test_dir_make(state);
    snprintf(folder, sizeof folder, "%s/cache", fed_test_dir);
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    fed_test_rmdir(folder);
    fed_test_rmdir(fed_test_dir);
    return 0;
}

static void check_none(const char *const *of) {
    uint8_t *found = NULL;
    size_t len = 0;
    assert_fed_status(fed_gpu_cache_read(folder, of, &found, &len), FED_ENOTFOUND);
    assert_null(found);
}

static void check_found(const char *const *of) {
    uint8_t *found = NULL;
    size_t len = 0;
    assert_fed_ok(fed_gpu_cache_read(folder, of, &found, &len));
    assert_int_equal(len, sizeof bytes);
    assert_memory_equal(found, bytes, len);
    free(found);
}

static void path_of_file(char path[600]) {
    size_t count = 0;
    DIR *d = opendir(folder);
    const struct dirent *entry;
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        if (entry->d_name[0] != '.') {
            snprintf(path, 600, "%s/%s", folder, entry->d_name);
            count++;
        }
    }
    closedir(d);
    assert_int_equal(count, 1);
}

FED_TEST(what_is_written_is_found) {
    check_none(parts);
    fed_gpu_cache_write(folder, parts, bytes, sizeof bytes);
    check_found(parts);
    fed_gpu_cache_write(folder, parts, bytes, sizeof bytes);
    check_found(parts);
}

FED_TEST(each_part_counts) {
    const char *const others[][5] = {
        {"opencl", "card", "source2", NULL},    {"opencl", "card2", "source", NULL},
        {"opencl", "cardsource", NULL},         {"opencl", "cards", "ource", NULL},
        {"opencl", "card", "source", "", NULL}, {NULL}};
    fed_gpu_cache_write(folder, parts, bytes, sizeof bytes);
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        check_none(others[k]);
    }
}

FED_TEST(damaged_files_count_as_none_and_are_replaced) {
    char path[600];
    fed_gpu_cache_write(folder, parts, bytes, sizeof bytes);
    path_of_file(path);
    uint8_t whole[200];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t len = fread(whole, 1, sizeof whole, f);
    fclose(f);
    assert_true(len > sizeof bytes && len < sizeof whole);
    for (size_t cut = 0; cut < len; cut++) {
        fed_test_put(folder, strrchr(path, '/') + 1, whole, cut);
        check_none(parts);
    }
    for (size_t k = 0; k < len; k++) {
        whole[k] ^= 1;
        fed_test_put(folder, strrchr(path, '/') + 1, whole, len);
        check_none(parts);
        whole[k] ^= 1;
    }
    fed_gpu_cache_write(folder, parts, bytes, sizeof bytes);
    check_found(parts);
}

FED_TEST(no_folder_is_no_failure) {
    uint8_t *found = NULL;
    size_t len = 0;
    assert_fed_status(fed_gpu_cache_read(NULL, parts, &found, &len), FED_ENOTFOUND);
    fed_gpu_cache_write(NULL, parts, bytes, sizeof bytes);
    fed_gpu_cache_write("/proc/no/such/folder", parts, bytes, sizeof bytes);
    fed_gpu_cache_write(folder, parts, bytes, 0);
    check_none(parts);
}

int main(void) {
    return fed_cases_run_each(make_dir, remove_dir);
}

/* GPU devices: names, memory, kernels, streams and graphs, and the errors of each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_case.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

enum { N = 1000, GROUPS = 4, PLACE = 128 };

static fed_gpu *gpu;
static fed_gpu_stream *stream;
static const fed_gpu_module *module;

static const char kernels[] = "KERNEL fill_index(GLOBAL u32 *y, u32 n, u32 first) {\n"
                              "    u32 i = GROUP * GROUP_SIZE + LANE;\n"
                              "    if (i < n) {\n"
                              "        y[i] = first + i;\n"
                              "    }\n"
                              "}\n"
                              "KERNEL add_to(GLOBAL u32 *y, GLOBAL const u32 *x, u32 n) {\n"
                              "    u32 i = GROUP * GROUP_SIZE + LANE;\n"
                              "    if (i < n) {\n"
                              "        y[i] += x != 0 ? x[i] : 7;\n"
                              "    }\n"
                              "}\n"
                              "KERNEL reduce(GLOBAL const u32 *x, u32 n, GLOBAL u32 *sum) {\n"
                              "    LOCAL u32 room[GROUP_SIZE];\n"
                              "    u32 i = GROUP * GROUP_SIZE + LANE, total, most;\n"
                              "    u32 before = wg_scan(room, i < n ? x[i] : 0, &total);\n"
                              "    most = wg_max(room, before);\n"
                              "    if (LANE == 0) {\n"
                              "        ATOMIC_ADD(&sum[0], total);\n"
                              "        ATOMIC_MAX(&sum[1], most);\n"
                              "    }\n"
                              "}\n";

static void names_of_devices(void) {
    static const char *const good[] = {"gpu", "cuda", "cuda:0", "cuda:12", "opencl:0"};
    static const char *const bad[] = {"", "cpu", "gpu:0", "cuda:", "cuda:x", "cuda:123", "cuda0"};
    for (size_t k = 0; k < sizeof good / sizeof good[0]; k++) {
        assert_true(fed_gpu_is_name(good[k]));
    }
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        assert_false(fed_gpu_is_name(bad[k]));
    }
    assert_false(fed_gpu_is_name(NULL));
}

static void unknown_devices_are_refused(void) {
    fed_gpu *none = NULL;
    fed_error err = {0};
    assert_fed_status(fed_gpu_open("card", NULL, &none, &err), FED_EINVAL);
    assert_fed_says(err, "\"card\" is not a device's name");
    assert_fed_status(fed_gpu_open("cuda:63", NULL, &none, &err), FED_ENOTFOUND);
    assert_fed_says(err, "cuda");
    assert_fed_status(fed_gpu_open("opencl:63", NULL, &none, &err), FED_ENOTFOUND);
    assert_fed_says(err, "opencl"); /* also in a build without OpenCL */
    assert_fed_status(fed_gpu_open_native("gpu", NULL, NULL, &none, &err), FED_EINVAL);
    assert_fed_says(err, "use opencl or cuda");
    assert_null(none);
    fed_gpu_info info;
    assert_fed_status(fed_gpu_list(10000, &info), FED_ENOTFOUND);
}

static void the_open_device_is_listed(void) {
    fed_gpu_info info;
    size_t k = 0;
    bool found = false;
    while (!found && fed_gpu_list(k++, &info) == FED_OK) {
        found = strcmp(info.name, fed_gpu_info_of(gpu)->name) == 0;
    }
    assert_true(found);
    assert_string_equal(info.lacks, "");
    assert_true(info.memory > 0 && info.units > 0);
    assert_string_equal(info.card, fed_gpu_info_of(gpu)->card);
}

static uint32_t *new_array(size_t n) {
    void *at = NULL;
    assert_fed_ok(fed_gpu_alloc(gpu, n * sizeof(uint32_t), &at));
    assert_int_equal((uintptr_t)at % PLACE, 0);
    return at;
}

static void fill_index(fed_gpu_stream *s, uint32_t *y, uint32_t n, uint32_t first) {
    const fed_gpu_arg args[] = {FED_GPU_AT(y), FED_GPU_VALUE(n), FED_GPU_VALUE(first)};
    assert_fed_ok(fed_gpu_launch(s, module, "fill_index", GROUPS, args, 3));
}

static void add_to(fed_gpu_stream *s, uint32_t *y, const uint32_t *x, uint32_t n) {
    const fed_gpu_arg args[] = {FED_GPU_AT(y), FED_GPU_AT(x), FED_GPU_VALUE(n)};
    assert_fed_ok(fed_gpu_launch(s, module, "add_to", GROUPS, args, 3));
}

static void check_linear(fed_gpu_stream *s, const uint32_t *y, uint32_t n, uint32_t slope,
                         uint32_t first) {
    uint32_t host[N];
    assert_fed_ok(fed_gpu_copy(s, host, y, n * sizeof *y, FED_GPU_DOWN));
    assert_fed_ok(fed_gpu_sync(s));
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(host[i], first + slope * i);
    }
}

static void kernels_copies_and_fills(void) {
    uint32_t *x = new_array(N), *y = new_array(N), ones;
    memset(&ones, 1, sizeof ones);
    fill_index(stream, x, N, 5);
    assert_fed_ok(fed_gpu_fill(stream, y, 1, N * sizeof *y));
    add_to(stream, y, x, N);
    check_linear(stream, y, N, 1, 5 + ones);
    assert_fed_ok(fed_gpu_copy(stream, y, x, N * sizeof *y, FED_GPU_ACROSS));
    add_to(stream, y, NULL, N);
    check_linear(stream, y, N, 1, 12);
    fed_gpu_free(gpu, x);
    fed_gpu_free(gpu, y);
    fed_gpu_free(gpu, NULL);
}

static void addresses_inside_an_array(void) {
    const uint32_t at = 3 * PLACE / (uint32_t)sizeof(uint32_t);
    uint32_t *y = new_array(N), five = 5, back = 0;
    assert_fed_ok(fed_gpu_fill(stream, y, 0, N * sizeof *y));
    fill_index(stream, y + at, 200, 1);
    add_to(stream, y, y + at, 50);
    check_linear(stream, y + at, 200, 1, 1);
    check_linear(stream, y, 50, 1, 1);
    assert_fed_ok(fed_gpu_copy(stream, y + 77, &five, sizeof five, FED_GPU_UP));
    assert_fed_ok(fed_gpu_fill(stream, y + 78, 2, 4));
    assert_fed_ok(fed_gpu_copy(stream, y + 79, y + 77, sizeof five, FED_GPU_ACROSS));
    assert_fed_ok(fed_gpu_copy(stream, &back, y + 79, sizeof back, FED_GPU_DOWN));
    assert_fed_ok(fed_gpu_sync(stream));
    assert_int_equal(back, 5);
    fed_gpu_free(gpu, y);
}

static void groups_scan_and_find_the_largest(void) {
    uint32_t *x = new_array(N), *sum = new_array(2), n = N, back[2];
    const fed_gpu_arg args[] = {FED_GPU_AT(x), FED_GPU_VALUE(n), FED_GPU_AT(sum)};
    fill_index(stream, x, N, 0);
    assert_fed_ok(fed_gpu_fill(stream, sum, 0, sizeof back));
    assert_fed_ok(fed_gpu_launch(stream, module, "reduce", GROUPS, args, 3));
    assert_fed_ok(fed_gpu_copy(stream, back, sum, sizeof back, FED_GPU_DOWN));
    assert_fed_ok(fed_gpu_sync(stream));
    assert_int_equal(back[0], N * (N - 1) / 2);
    assert_int_equal(back[1], (768 + 999) * 232 / 2); /* the sum of 768 to 999 */
    fed_gpu_free(gpu, x);
    fed_gpu_free(gpu, sum);
}

static void sizes_of_zero_do_nothing(void) {
    void *at = NULL;
    assert_fed_ok(fed_gpu_alloc(gpu, 0, &at));
    assert_fed_ok(fed_gpu_copy(stream, NULL, NULL, 0, FED_GPU_UP));
    assert_fed_ok(fed_gpu_fill(stream, NULL, 0, 0));
    assert_fed_ok(fed_gpu_launch(stream, module, "no_such_kernel", 0, NULL, 0));
    assert_fed_ok(fed_gpu_sync(stream));
    fed_gpu_free(gpu, at);
}

static void a_stream_waits_for_another(void) {
    fed_gpu_stream *other = NULL;
    uint32_t *x = new_array(N), *y = new_array(N);
    assert_fed_ok(fed_gpu_stream_new(gpu, NULL, &other));
    assert_fed_ok(fed_gpu_fill(stream, x, 0, N * sizeof *x));
    assert_fed_ok(fed_gpu_fill(stream, y, 0, N * sizeof *y));
    for (uint32_t round = 0; round < 20; round++) {
        add_to(stream, x, NULL, N);
        assert_fed_ok(fed_gpu_after(other, stream));
        add_to(other, y, x, N);
        assert_fed_ok(fed_gpu_after(stream, other));
    }
    check_linear(other, y, N, 0, 7 * 20 * 21 / 2);
    assert_fed_ok(fed_gpu_sync(stream));
    fed_gpu_stream_free(other);
    fed_gpu_free(gpu, x);
    fed_gpu_free(gpu, y);
}

static void host_memory_for_copies(void) {
    void *host = NULL;
    uint32_t *y = new_array(N);
    assert_fed_ok(fed_gpu_alloc_host(gpu, N * sizeof *y, &host));
    memset(host, 0, N * sizeof *y);
    assert_fed_ok(fed_gpu_copy(stream, y, host, N * sizeof *y, FED_GPU_UP));
    add_to(stream, y, NULL, N);
    check_linear(stream, y, N, 0, 7);
    fed_gpu_free_host(gpu, host);
    fed_gpu_free_host(gpu, NULL);
    fed_gpu_free(gpu, y);
}

static void a_graph_runs_again(void) {
    fed_gpu_graph *graph = NULL;
    uint32_t *x = new_array(N), *y = new_array(N), *host = NULL;
    assert_fed_ok(fed_gpu_alloc_host(gpu, N * sizeof *host, (void **)&host));
    memset(host, 0, N * sizeof *host);
    assert_fed_ok(fed_gpu_fill(stream, y, 0, N * sizeof *y));
    assert_fed_ok(fed_gpu_keep(stream));
    assert_fed_ok(fed_gpu_fill(stream, x, 0, N * sizeof *x));
    fill_index(stream, x, N, 2);
    add_to(stream, y, x, N);
    add_to(stream, y, NULL, N);
    assert_fed_ok(fed_gpu_copy(stream, host, y, N * sizeof *y, FED_GPU_DOWN));
    assert_fed_ok(fed_gpu_kept(stream, &graph));
    check_linear(stream, y, N, 0, 0);
    for (uint32_t round = 1; round <= 3; round++) {
        assert_fed_ok(fed_gpu_replay(stream, graph));
        assert_fed_ok(fed_gpu_sync(stream));
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(host[i], round * (9 + i));
        }
    }
    fed_gpu_graph_free(graph);
    fed_gpu_graph_free(NULL);
    fed_gpu_free_host(gpu, host);
    fed_gpu_free(gpu, x);
    fed_gpu_free(gpu, y);
}

static void a_graph_reads_the_host_when_it_runs(void) {
    fed_gpu_graph *graph = NULL;
    fed_gpu_stream *other = NULL;
    uint32_t *y = new_array(1), *host = NULL;
    assert_fed_ok(fed_gpu_alloc_host(gpu, sizeof *host, (void **)&host));
    assert_fed_ok(fed_gpu_stream_new(gpu, NULL, &other));
    assert_fed_ok(fed_gpu_keep(stream));
    assert_fed_ok(fed_gpu_copy(stream, y, host, sizeof *y, FED_GPU_UP));
    add_to(stream, y, NULL, 1);
    assert_fed_ok(fed_gpu_kept(stream, &graph));
    for (uint32_t round = 0; round < 3; round++) {
        *host = 100 * round;
        assert_fed_ok(fed_gpu_replay(other, graph));
        check_linear(other, y, 1, 0, 100 * round + 7);
    }
    fed_gpu_graph_free(graph);
    fed_gpu_stream_free(other);
    fed_gpu_free_host(gpu, host);
    fed_gpu_free(gpu, y);
}

static void other_calls_are_refused_while_a_graph_is_kept(void) {
    fed_gpu_graph *graph = NULL, *empty = NULL;
    fed_gpu_stream *other = NULL;
    fed_error err = {0};
    assert_fed_ok(fed_gpu_stream_new(gpu, NULL, &other));
    assert_fed_status(fed_gpu_kept(stream, &graph), FED_ESTATE);
    assert_fed_ok(fed_gpu_keep(stream));
    assert_fed_ok(fed_gpu_kept(stream, &empty));
    assert_fed_ok(fed_gpu_keep(stream));
    assert_fed_status(fed_gpu_sync(stream), FED_ESTATE);
    assert_non_null(strstr(gpu_case_said(gpu, &err), "fed_gpu_sync between fed_gpu_keep"));
    assert_fed_status(fed_gpu_keep(stream), FED_ESTATE);
    assert_fed_status(fed_gpu_after(stream, other), FED_ESTATE);
    assert_fed_status(fed_gpu_after(other, stream), FED_ESTATE);
    assert_fed_status(fed_gpu_replay(stream, empty), FED_ESTATE);
    assert_fed_ok(fed_gpu_kept(stream, &graph));
    assert_fed_ok(fed_gpu_replay(stream, graph));
    assert_fed_ok(fed_gpu_sync(stream));
    fed_gpu_graph_free(graph);
    fed_gpu_graph_free(empty);
    fed_gpu_stream_free(other);
}

static fed_status count_call(void *user, void *native) {
    uint32_t *calls = user;
    *calls += native != NULL;
    return *calls < 2 ? FED_OK : FED_EBUSY;
}

static void another_library_gets_the_stream(void) {
    uint32_t calls = 0;
    fed_error err = {0};
    assert_fed_ok(fed_gpu_call(stream, count_call, &calls));
    assert_fed_status(fed_gpu_call(stream, count_call, &calls), FED_EBUSY);
    assert_int_equal(calls, 2);
    fed_gpu_graph *graph = NULL;
    bool done;
    assert_fed_ok(fed_gpu_keep(stream));
    assert_fed_status(fed_gpu_call(stream, count_call, &calls), FED_ESTATE);
    assert_non_null(strstr(gpu_case_said(gpu, &err), "fed_gpu_call between fed_gpu_keep"));
    assert_fed_status(fed_gpu_done(stream, &done), FED_ESTATE);
    assert_int_equal(calls, 2);
    assert_fed_ok(fed_gpu_kept(stream, &graph));
    fed_gpu_graph_free(graph);
}

static void a_stream_says_when_it_is_done(void) {
    uint32_t *x = new_array(N);
    const struct timespec pause = {.tv_nsec = 100000};
    bool done = false;
    assert_fed_ok(fed_gpu_fill(stream, x, 0, N * sizeof *x));
    for (int k = 0; k < 100; k++) {
        add_to(stream, x, NULL, N);
    }
    for (int looks = 0; !done; looks++) {
        assert_true(looks < 100000);
        assert_fed_ok(fed_gpu_done(stream, &done));
        nanosleep(&pause, NULL);
    }
    check_linear(stream, x, N, 0, 700);
    fed_gpu_free(gpu, x);
}

static void failures_say_which_nic_and_what(void) {
    const fed_gpu_module *bad = NULL;
    fed_error err = {0};
    assert_fed_status(
        fed_gpu_build(gpu, "KERNEL broken(u32 n) { n = no_such_name; }\n", &bad, &err), FED_EIO);
    assert_fed_says(err, "does not compile");
    assert_fed_says(err, "no_such_name");
    assert_true(fed_gpu_launch(stream, module, "no_such_kernel", 1, NULL, 0) != FED_OK);
    assert_non_null(strstr(gpu_case_said(gpu, &err), fed_gpu_info_of(gpu)->name));
    assert_non_null(strstr(err.text, "no_such_kernel"));
    assert_fed_ok(fed_gpu_explain(gpu, FED_OK, &err));
}

static size_t count_cached(char path[600]) {
    size_t count = 0;
    DIR *d = opendir(fed_test_dir);
    const struct dirent *entry;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (entry->d_name[0] != '.') {
            snprintf(path, 600, "%s/%s", fed_test_dir, entry->d_name);
            count++;
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return count;
}

static long file_size(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const long size = ftell(f);
    fclose(f);
    return size;
}

static void build_and_run_with_cache(void) {
    fed_gpu *first = gpu;
    fed_gpu_stream *first_stream = stream;
    const fed_gpu_module *first_module = module;
    fed_error err = {0};
    assert_fed_ok_err(fed_gpu_open(fed_gpu_info_of(gpu)->name, fed_test_dir, &gpu, &err));
    assert_fed_ok(fed_gpu_stream_new(gpu, NULL, &stream));
    assert_fed_ok_err(fed_gpu_build(gpu, kernels, &module, &err));
    uint32_t *y = new_array(N);
    fill_index(stream, y, N, 3);
    check_linear(stream, y, N, 1, 3);
    fed_gpu_free(gpu, y);
    fed_gpu_stream_free(stream);
    fed_gpu_close(gpu);
    gpu = first;
    stream = first_stream;
    module = first_module;
}

static void compiled_kernels_are_cached(void) {
    char path[600] = "", again[600] = "";
    build_and_run_with_cache();
    assert_int_equal(count_cached(path), 1);
    const long size = file_size(path);
    assert_true(size > 100);
    build_and_run_with_cache();
    assert_int_equal(count_cached(again), 1);
    assert_string_equal(again, path);
    assert_int_equal(truncate(path, size - 1), 0);
    build_and_run_with_cache();
    assert_true(file_size(path) > size - 1);
}

static int run_on_device(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(the_open_device_is_listed),
        fed_unit_test(kernels_copies_and_fills),
        fed_unit_test(addresses_inside_an_array),
        fed_unit_test(groups_scan_and_find_the_largest),
        fed_unit_test(sizes_of_zero_do_nothing),
        fed_unit_test(a_stream_waits_for_another),
        fed_unit_test(host_memory_for_copies),
        fed_unit_test(a_graph_runs_again),
        fed_unit_test(a_graph_reads_the_host_when_it_runs),
        fed_unit_test(other_calls_are_refused_while_a_graph_is_kept),
        fed_unit_test(another_library_gets_the_stream),
        fed_unit_test(a_stream_says_when_it_is_done),
        fed_unit_test(failures_say_which_nic_and_what),
        fed_unit_test_with(compiled_kernels_are_cached, fed_test_dir_make, fed_test_dir_remove),
    };
    fed_error err = {0};
    if (fed_gpu_build(gpu, kernels, &module, &err) != FED_OK ||
        fed_gpu_stream_new(gpu, NULL, &stream) != FED_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fed_gpu_stream_free(stream);
    return failed;
}

int main(void) {
    const struct CMUnitTest anywhere[] = {
        fed_unit_test(names_of_devices),
        fed_unit_test(unknown_devices_are_refused),
    };
    int failed = cmocka_run_group_tests(anywhere, NULL, NULL), status = EXIT_SUCCESS;
    if (failed != 0 || !gpu_case_open(NULL, &gpu, &status)) {
        return failed != 0 ? failed : status;
    }
    failed = run_on_device();
    fed_gpu_close(gpu);
    return failed;
}

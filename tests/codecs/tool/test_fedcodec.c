/* The fedcodec program, run as a user runs it. */
#include "fed_test.h"

#include <math.h>
#include <sys/wait.h>

#include "fed/file.h"

typedef struct fixture {
    char dir[256];
    char out[4096]; /* what the last run printed, both streams */
} fixture;

/* Run fedcodec in the fixture's directory; returns its exit status. */
static int run(fixture *f, const char *args) {
    char command[1024];
    snprintf(command, sizeof command, "cd '%s' && '%s/fedcodec' %s 2>&1", f->dir, FED_BIN_DIR,
             args);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t len = fread(f->out, 1, sizeof f->out - 1, pipe);
    f->out[len] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_says(const fixture *f, const char *part) {
    if (strstr(f->out, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", f->out, part);
    }
}

static void write_file(const fixture *f, const char *name, const void *data, size_t len) {
    char path[512];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    assert_fed_ok_err(fed_file_replace(path, data, len, 0600, &err));
}

static uint8_t *read_file(const fixture *f, const char *name, size_t *len) {
    char path[512];
    fed_error err = {0};
    uint8_t *data = NULL;
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &data, len, &err));
    return data;
}

static int set_up(void **state) {
    static fixture f;
    float x[1000];
    fed_test_tmpdir(f.dir, sizeof f.dir);
    for (int i = 0; i < 1000; i++) {
        x[i] = sinf((float)i);
    }
    write_file(&f, "x.f32", x, sizeof x); /* the tests run on little-endian machines */
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fed_test_rmdir(((fixture *)*state)->dir);
    return 0;
}

static void float32_comes_back_byte_by_byte(void **state) {
    fixture *f = *state;
    size_t before, after;
    assert_int_equal(run(f, "encode --codec float32 x.f32 x.fed"), 0);
    assert_int_equal(run(f, "decode x.fed y.f32"), 0);
    assert_string_equal(f->out, "");
    uint8_t *x = read_file(f, "x.f32", &before), *y = read_file(f, "y.f32", &after);
    assert_int_equal(before, after);
    assert_memory_equal(x, y, before);
    free(x);
    free(y);
}

static void encode_prints_one_summary_line(void **state) {
    fixture *f = *state;
    assert_int_equal(run(f, "encode x.f32 --codec sbc:p=0.01 x.fed"), 0);
    assert_says(f, "sbc:p=0.01: 1000 values, ");
    assert_says(f, " bits per value\n");
    assert_ptr_equal(strchr(f->out, '\n'), f->out + strlen(f->out) - 1);
}

static void decode_gives_what_the_codec_sent(void **state) {
    fixture *f = *state;
    size_t len, sent = 0;
    assert_int_equal(run(f, "encode --codec sbc:p=0.01 x.f32 x.fed"), 0);
    assert_int_equal(run(f, "decode x.fed y.f32"), 0);
    uint8_t *data = read_file(f, "y.f32", &len);
    assert_int_equal(len, 4000);
    for (size_t i = 0; i < len; i += 4) {
        sent += memcmp(data + i, "\0\0\0\0", 4) != 0;
    }
    assert_int_equal(sent, 10);
    free(data);
}

static void info_tells_what_an_envelope_holds(void **state) {
    fixture *f = *state;
    assert_int_equal(run(f, "encode --codec 3lc x.f32 x.fed"), 0);
    assert_int_equal(run(f, "info x.fed"), 0);
    assert_says(f, "tensor 1: 3lc, 1000 values, ");
}

static void an_empty_file_is_an_empty_tensor(void **state) {
    fixture *f = *state;
    write_file(f, "empty", "", 0);
    assert_int_equal(run(f, "encode --codec 3lc empty e.fed"), 0);
    assert_int_equal(run(f, "info e.fed"), 0);
    assert_int_equal(run(f, "decode e.fed e.f32"), 0);
}

static void list_names_codecs_and_parameters(void **state) {
    fixture *f = *state;
    assert_int_equal(run(f, "list"), 0);
    assert_says(f, "float32");
    assert_says(f, "3lc");
    assert_says(f, "p=0.01");
    assert_says(f, "pos=golomb  how positions are coded; golomb, rice, rans, range, auto");
}

static void help_is_no_error(void **state) {
    fixture *f = *state;
    assert_int_equal(run(f, "--help"), 0);
    assert_says(f, "usage: fedcodec encode");
}

static void wrong_usage_is_status_2(void **state) {
    fixture *f = *state;
    assert_int_equal(run(f, ""), 2);
    assert_int_equal(run(f, "compress"), 2);
    assert_says(f, "unknown command compress");
    assert_int_equal(run(f, "encode x.f32 x.fed"), 2);
    assert_says(f, "--codec SPEC");
    assert_int_equal(run(f, "encode --codec"), 2);
    assert_int_equal(run(f, "encode --codec 3lc x.f32 y z"), 2);
    assert_int_equal(run(f, "encode --fast x.f32 y"), 2);
    assert_int_equal(run(f, "encode --codec zip x.f32 y"), 2);
    assert_says(f, "unknown codec \"zip\"; there are float32, 3lc, sbc");
    assert_int_equal(run(f, "decode x.fed"), 2);
    assert_int_equal(run(f, "info"), 2);
    assert_int_equal(run(f, "list all"), 2);
}

static void bad_files_are_status_1_and_a_sentence(void **state) {
    fixture *f = *state;
    assert_int_equal(run(f, "encode --codec 3lc none y"), 1);
    assert_says(f, "none: No such file");
    write_file(f, "odd", "abcdefg", 7);
    assert_int_equal(run(f, "encode --codec 3lc odd y"), 1);
    assert_says(f, "odd: 7 bytes are not a whole number of float32 values");
    write_file(f, "nan", "\x00\x00\xc0\x7f", 4);
    assert_int_equal(run(f, "encode --codec 3lc nan y"), 1);
    assert_says(f, "nan: holds NaN or infinity");
    assert_int_equal(run(f, "decode x.f32 y"), 1);
    assert_says(f, "x.f32: not an envelope");
    assert_int_equal(run(f, "encode --codec 3lc x.f32 no/such/directory"), 1);
}

static void a_malformed_message_is_refused_with_its_reason(void **state) {
    fixture *f = *state;
    size_t len;
    assert_int_equal(run(f, "encode --codec 3lc x.f32 x.fed"), 0);
    uint8_t *data = read_file(f, "x.fed", &len);
    write_file(f, "cut.fed", data, len - 1);
    assert_int_equal(run(f, "decode cut.fed y"), 1);
    assert_says(f, "cut.fed: tensor 1: its head is malformed, or its data cut off");
    data[12] = 0xff; /* of the magnitude, which becomes NaN */
    write_file(f, "bad.fed", data, len);
    assert_int_equal(run(f, "info bad.fed"), 1);
    assert_says(f, "are not a valid 3lc message of 1000 values");
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float32_comes_back_byte_by_byte),
        cmocka_unit_test(encode_prints_one_summary_line),
        cmocka_unit_test(decode_gives_what_the_codec_sent),
        cmocka_unit_test(info_tells_what_an_envelope_holds),
        cmocka_unit_test(an_empty_file_is_an_empty_tensor),
        cmocka_unit_test(list_names_codecs_and_parameters),
        cmocka_unit_test(help_is_no_error),
        cmocka_unit_test(wrong_usage_is_status_2),
        cmocka_unit_test(bad_files_are_status_1_and_a_sentence),
        cmocka_unit_test(a_malformed_message_is_refused_with_its_reason),
    };
    return cmocka_run_group_tests_name("fedcodec", tests, set_up, tear_down);
}

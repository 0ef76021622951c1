/* The program fedcodec, run with command lines as a user would. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/checkpoint.h"
#include "fed/file.h"
#include "fed_program.h"

static void write_file(const fed_program *f, const char *name, const void *data, size_t len) {
    char path[512];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    assert_fed_ok_err(fed_file_replace(path, data, len, 0600, &err));
}

static uint8_t *read_file(const fed_program *f, const char *name, size_t *len) {
    char path[512];
    fed_error err = {0};
    uint8_t *data = NULL;
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &data, len, &err));
    return data;
}

static int set_up(void **state) {
    static fed_program f;
    float x[1000];
    fed_program_open(&f, "fedcodec");
    for (int i = 0; i < 1000; i++) {
        x[i] = sinf((float)i);
    }
    write_file(&f, "x.f32", x, sizeof x); /* little-endian machines only */
    *state = &f;
    return 0;
}

FED_TEST_WITH(float32_comes_back_byte_by_byte, fed_program *f) {
    size_t before, after;
    assert_runs(f, "encode --codec float32 x.f32 x.fed", 0, "");
    assert_runs(f, "decode x.fed y.f32", 0, "");
    assert_string_equal(f->out, "");
    uint8_t *x = read_file(f, "x.f32", &before), *y = read_file(f, "y.f32", &after);
    assert_int_equal(before, after);
    assert_memory_equal(x, y, before);
    free(x);
    free(y);
}

FED_TEST_WITH(encode_prints_one_summary_line, fed_program *f) {
    assert_runs(f, "encode x.f32 --codec sbc:p=0.01 x.fed", 0, "sbc:p=0.01: 1000 values, ");
    assert_says(f, " bits per value\n");
    assert_ptr_equal(strchr(f->out, '\n'), f->out + strlen(f->out) - 1);
}

FED_TEST_WITH(decode_gives_what_the_codec_sent, fed_program *f) {
    size_t len, sent = 0;
    assert_runs(f, "encode --codec sbc:p=0.01 x.f32 x.fed", 0, "");
    assert_runs(f, "decode x.fed y.f32", 0, "");
    uint8_t *data = read_file(f, "y.f32", &len);
    assert_int_equal(len, 4000);
    for (size_t i = 0; i < len; i += 4) {
        sent += memcmp(data + i, "\0\0\0\0", 4) != 0;
    }
    assert_int_equal(sent, 10);
    free(data);
}

FED_TEST_WITH(threads_write_the_same_file, fed_program *f) {
    enum { LEN = 4 * 100000 };
    uint8_t *values = malloc(LEN);
    size_t alone_len, together_len;
    assert_non_null(values);
    for (size_t i = 0; i < LEN; i++) {
        values[i] = (uint8_t)(i % 4 == 3 ? 0x3c + i % 3 : i * i / 7);
    }
    write_file(f, "t.f32", values, LEN);
    free(values);
    assert_runs(f, "encode --codec 3lc t.f32 alone.fed", 0, "");
    assert_runs(f, "encode --codec 3lc --threads 3 t.f32 together.fed", 0, "");
    uint8_t *alone = read_file(f, "alone.fed", &alone_len);
    uint8_t *together = read_file(f, "together.fed", &together_len);
    assert_int_equal(together_len, alone_len);
    assert_memory_equal(together, alone, alone_len);
    free(alone);
    free(together);
    assert_runs(f, "encode --codec 3lc --threads many t.f32 t.fed", 2,
                "--threads is a whole number from 0 to 4294967295, not many");
    assert_runs(f, "encode --codec 3lc --threads 5000 t.f32 t.fed", 2,
                "5000 threads; at most 1024");
}

/* A raw file has no shape. Of 40 times 50 values, rank 1 sends 40 and 50 numbers. */
FED_TEST_WITH(a_raw_file_is_a_matrix_as_square_as_it_can_be, fed_program *f) {
    float x[2000];
    for (int i = 0; i < 2000; i++) {
        x[i] = sinf((float)i);
    }
    write_file(f, "square.f32", x, sizeof x); /* little-endian machines only */
    assert_runs(f, "encode --codec powersgd:rank=1 square.f32 square.fed", 0,
                "2000 values, 376 bytes");
    assert_runs(f, "decode square.fed square.out", 0, "");
    assert_runs(f, "compare square.f32 --codecs powersgd:rank=1 --format csv", 0, "\",376,");
    write_file(f, "empty", "", 0);
    assert_runs(f, "encode --codec powersgd empty e.fed", 0, "0 values");
}

FED_TEST_WITH(info_tells_what_an_envelope_holds, fed_program *f) {
    assert_runs(f, "encode --codec 3lc --small 0 x.f32 x.fed", 0, "");
    assert_runs(f, "info x.fed", 0, "frame 1: 3lc, 1000 values, ");
}

FED_TEST_WITH(a_second_stage_is_named_and_undone, fed_program *f) {
    enum { LEN = 4 * 20000 };
    size_t plain_len, staged_len;
    uint8_t *sparse = calloc(LEN, 1);
    assert_non_null(sparse);
    sparse[LEN / 2 + 3] = 0x3f;
    write_file(f, "s.f32", sparse, LEN);
    free(sparse);
    assert_runs(f, "encode --codec 3lc s.f32 plain.fed", 0, "");
    assert_runs(f, "decode plain.fed plain.f32", 0, "");
    assert_runs(f, "encode --codec 3lc+runs s.f32 s.fed", 0, "3lc:s=1+runs: 20000 values, ");
    assert_runs(f, "info s.fed", 0, "frame 1: 3lc+runs, 20000 values, ");
    assert_runs(f, "decode s.fed staged.f32", 0, "");
    uint8_t *plain = read_file(f, "plain.f32", &plain_len);
    uint8_t *staged = read_file(f, "staged.f32", &staged_len);
    assert_int_equal(plain_len, staged_len);
    assert_memory_equal(plain, staged, plain_len);
    free(plain);
    free(staged);
}

FED_TEST_WITH(an_empty_file_is_an_empty_tensor, fed_program *f) {
    write_file(f, "empty", "", 0);
    assert_runs(f, "encode --codec 3lc empty e.fed", 0, "");
    assert_runs(f, "info e.fed", 0, "");
    assert_runs(f, "decode e.fed e.f32", 0, "");
}

/* The 13 bytes are a valid message of 2^32 - 1 zeros. */
FED_TEST_WITH(a_file_that_declares_too_much_is_not_decoded, fed_program *f) {
    write_file(f, "big.fed", "\xfe\xdc\x02\x00\x01\x03\xff\xff\xff\xff\x0f\x01\x00", 13);
    assert_runs(f, "decode big.fed big.f32", 1,
                "big.fed: frame 1 declares 4294967295 values, 17179869180 bytes; 1073741824 more "
                "are allowed. If you trust the file, allow more with --max-bytes");
    assert_runs(f, "info --max-bytes 17179869179 big.fed", 1, "17179869179 more are allowed");
    assert_runs(f, "info --max-bytes 17179869180 big.fed", 0, "frame 1: sbc, 4294967295 values");
    assert_runs(f, "info --max-bytes lots big.fed", 2,
                "--max-bytes is a whole number from 0 to 18446744073709551615, not lots");
}

FED_TEST_WITH(the_limit_is_for_all_frames_together, fed_program *f) {
    write_file(f, "two.fed", "\xfe\xdc\x02\x00\x02\x03\x64\x01\x00\x03\x64\x01\x00", 13);
    assert_runs(f, "decode --max-bytes 800 two.fed two.f32", 0, "");
    assert_runs(f, "decode --max-bytes 799 two.fed two.f32", 1,
                "frame 2 declares 100 values, 400 bytes; 399 more are allowed");
}

FED_TEST_WITH(list_names_codecs_and_parameters, fed_program *f) {
    assert_runs(f, "list", 0, "float32");
    assert_says(f, "3lc");
    assert_says(f, "p=0.01");
    assert_says(f, "t=?  least magnitude sent, such as 0.005; no preset, 1e-06 to 16\n");
    assert_says(f, "pos=golomb  how positions are coded; golomb, rice, rans, range, auto");
}

static void write_model(const fed_program *f, const char *name) {
    char path[512];
    float values[630];
    fed_layout layout;
    fed_error err = {0};
    fed_layout_init(&layout);
    assert_fed_ok(fed_layout_add(&layout, "w", 2, (const uint32_t[]){20, 30}));
    assert_fed_ok(fed_layout_add(&layout, "b", 1, (const uint32_t[]){30}));
    for (int i = 0; i < 630; i++) {
        values[i] = cosf((float)i);
    }
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    assert_fed_ok_err(fed_checkpoint_save(path, &layout, values, NULL, &err));
    fed_layout_free(&layout);
}

FED_TEST_WITH(each_tensor_of_a_safetensors_file_is_a_frame_of_the_envelope, fed_program *f) {
    write_model(f, "m.safetensors");
    assert_runs(f, "encode --codec 3lc --small 0 m.safetensors m.fed", 0, "630 values");
    assert_runs(f, "info m.fed", 0, "frame 1: 3lc, 600 values");
    assert_says(f, "frame 2: 3lc, 30 values");
}

FED_TEST_WITH(small_tensors_are_one_frame, fed_program *f) {
    write_model(f, "m.safetensors");
    assert_runs(f, "encode --codec 3lc --small 600 m.safetensors m.fed", 0, "");
    assert_runs(f, "info m.fed", 0, "frame 1: 3lc, 600 values");
    assert_says(f, "frame 2, all tensors under 600 values: 3lc, 30 values");
    assert_runs(f, "encode --codec 3lc m.safetensors m.fed", 0, "");
    assert_runs(f, "info m.fed", 0, "frame 1, all tensors under 1024 values: 3lc, 630 values");
    assert_runs(f, "encode --codec 3lc --small few m.safetensors m.fed", 2,
                "--small is a whole number from 0 to 4294967295, not few");
    assert_runs(f, "compare m.safetensors --small 4294967296", 2, "");
}

FED_TEST_WITH(decode_like_a_file_gives_its_names_and_shapes, fed_program *f) {
    size_t before, after;
    write_model(f, "m.safetensors");
    assert_runs(f, "encode --codec float32 m.safetensors m.fed", 0, "");
    assert_runs(f, "decode m.fed back.safetensors --like m.safetensors", 0, "");
    uint8_t *x = read_file(f, "m.safetensors", &before);
    uint8_t *y = read_file(f, "back.safetensors", &after);
    assert_int_equal(before, after);
    assert_memory_equal(x, y, before);
    free(x);
    free(y);
}

FED_TEST_WITH(decode_like_another_model_is_refused, fed_program *f) {
    write_model(f, "m.safetensors");
    assert_runs(f, "encode --codec float32 x.f32 x.fed", 0, "");
    assert_runs(f, "decode --like m.safetensors x.fed y.safetensors", 1,
                "x.fed: the group of small tensors: the message has 1000 values, the model 630");
    assert_runs(f, "decode --like x.f32 x.fed y.safetensors", 1, "");
}

FED_TEST_WITH(compare_has_a_row_for_every_codec, fed_program *f) {
    write_model(f, "m.safetensors");
    assert_runs(f, "compare m.safetensors", 0, "tensors: 2, values: 630, as float32: 2520 bytes");
    assert_says(f, "tensors under 1024 values, grouped: 2; messages in the mean: 10\n");
    char list[sizeof f->out], codec[32];
    assert_runs(f, "list", 0, "");
    memcpy(list, f->out, sizeof list);
    assert_runs(f, "compare m.safetensors --format csv", 0, "");
    for (const char *line = list; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (*line != ' ') {
            snprintf(codec, sizeof codec, "\n\"%.*s", (int)strcspn(line, " "), line);
            assert_says(f, codec);
        }
    }
    assert_says(f, "\n\"3lc:s=1.75\",");
}

/* The file has 6 bytes of the envelope's head, 5 of a frame's head, and 4000 of values. */
FED_TEST_WITH(compare_says_how_large_and_how_exact, fed_program *f) {
    assert_runs(f, "compare x.f32 --codecs float32 --format csv", 0,
                "codec,bytes,ratio,bits_per_value,relative_l2_error,mean_relative_l2_error,bias,"
                "variance,encode_mb_s,decode_mb_s\n");
    assert_says(f, "\n\"float32\",4011,0.997258,32.088,0,0,0,0,");
}

typedef struct loss {
    double one, mean, bias, variance;
} loss;

/* What compare says of a codec, with a cohort of that many messages. */
static loss loss_of(fed_program *f, const char *codec, int cohort) {
    char words[200];
    loss l = {0};
    snprintf(words, sizeof words, "compare x.f32 --codecs %s --cohort %d --format csv", codec,
             cohort);
    assert_runs(f, words, 0, "");
    const char *row = strstr(f->out, "\n\"");
    assert_non_null(row);
    const char *after = strstr(row + 2, "\",");
    assert_non_null(after);
    assert_int_equal(sscanf(after, "\",%*[^,],%*[^,],%*[^,],%lf,%lf,%lf,%lf,", &l.one, &l.mean,
                            &l.bias, &l.variance),
                     4);
    return l;
}

/* One message of these is far off. The mean of many is near, as the square of its error is
 * bias + variance / N. The bounds are 8 times the deviation of the estimate of the bias. */
FED_TEST_WITH(compare_finds_no_bias_in_codecs_that_draw, fed_program *f) {
    enum { N = 200, VALUES = 1000 };
    static const char *const codecs[] = {"eden", "eden:p=0.05", "qsgd:bits=2", "stoch3", "natural"};
    for (size_t k = 0; k < sizeof codecs / sizeof codecs[0]; k++) {
        const loss l = loss_of(f, codecs[k], N);
        assert_true(l.variance > 0.01);
        assert_true(fabs(l.bias) < 8.0 * l.variance * sqrt(2.0 / VALUES) / N + 1e-4);
        assert_true(fabs(l.mean * l.mean - (l.bias + l.variance / N)) < 1e-4 * l.variance);
        assert_true(l.mean < l.one / 10.0);
    }
}

/* These make equal messages of equal values, so the mean of them is no nearer than one. */
FED_TEST_WITH(compare_finds_the_whole_error_of_a_codec_without_draws_in_the_mean, fed_program *f) {
    static const char *const codecs[] = {"sbc:p=0.01", "topk:p=0.01", "3lc", "onebit", "powersgd"};
    for (size_t k = 0; k < sizeof codecs / sizeof codecs[0]; k++) {
        const loss l = loss_of(f, codecs[k], 10);
        assert_true(l.mean == l.one);
        assert_true(fabs(l.bias - l.one * l.one) < 1e-5);
        assert_true(l.variance == 0.0);
    }
    assert_true(loss_of(f, "sbc:p=0.01", 10).bias > 0.9);
    assert_true(loss_of(f, "topk:p=0.01", 10).bias > 0.9);
}

/* randk draws, but sends its values as they are: a tenth arrives. */
FED_TEST_WITH(compare_finds_the_bias_of_a_codec_that_draws, fed_program *f) {
    const loss l = loss_of(f, "randk:p=0.1", 100);
    assert_true(fabs(l.bias - 0.81) < 0.02);
    assert_true(fabs(l.variance - 0.09) < 0.02);
}

FED_TEST_WITH(compare_says_of_how_many_messages_the_mean_is, fed_program *f) {
    assert_runs(f, "compare x.f32 --codecs eden", 0, "messages in the mean: 10\n");
    assert_runs(f, "compare x.f32 --codecs eden:seed=4294967295 --cohort 3", 0,
                "messages in the mean: 3\n");
    assert_says(f, " bits/value  L2 error   of mean      bias  variance ");
    assert_runs(f, "compare x.f32 --codecs eden --cohort 1", 2,
                "--cohort needs at least 2 messages, not 1");
    assert_runs(f, "compare x.f32 --codecs eden --cohort 100001", 2,
                "--cohort is a whole number from 0 to 100000, not 100001");
}

FED_TEST_WITH(compare_takes_any_list_of_specs, fed_program *f) {
    assert_runs(
        f, "compare x.f32 --codecs sbc:p=0.1,3lc,sbc:p=0.25 --format json", 0,
        "{\"tensors\": 1, \"values\": 1000, \"small\": 1024, \"grouped\": 1, \"cohort\": 10, "
        "\"codecs\": [\n  {\"codec\": \"sbc:p=0.1\"");
    assert_says(f, "},\n  {\"codec\": \"3lc:s=1\"");
    assert_says(f, "},\n  {\"codec\": \"sbc:p=0.25\"");
    assert_says(f, "}\n]}\n");
    assert_runs(f, "compare x.f32 --codecs 3lc:s=1.5,s=1.6", 2, "parameter \"s\" is given twice");
}

FED_TEST_WITH(compare_takes_an_update_or_one_tensor, fed_program *f) {
    write_model(f, "m.safetensors");
    assert_runs(f, "compare m.safetensors --since m.safetensors --codecs 3lc", 0,
                "3lc:s=1           14 "); /* all values are 0 */
    assert_runs(f, "compare m.safetensors --tensor b --codecs float32", 0,
                "tensors: 1, values: 30, ");
    assert_runs(f, "compare m.safetensors --tensor c --codecs float32", 1,
                "there is no tensor \"c\"; there are w, b");
    assert_runs(f, "compare m.safetensors --since x.f32 --codecs float32", 1, "");
    assert_runs(f, "compare m.safetensors --since nothing --codecs float32", 1, "");
}

FED_TEST_WITH(compare_says_what_is_wrong, fed_program *f) {
    write_file(f, "nothing", "", 0);
    assert_runs(f, "compare nothing", 1, "nothing: holds no values");
    assert_runs(f, "compare", 2, "");
    assert_runs(f, "compare x.f32 --codecs sbc,zip", 2, "unknown codec \"zip\"");
    assert_runs(f, "compare x.f32 --codecs sbc,", 2, "");
    assert_runs(f, "compare x.f32 --format xml", 2, "text, csv or json, not xml");
}

FED_TEST_WITH(codec_ring_makes_no_file, fed_program *f) {
    assert_runs(f, "encode --codec ring:b=5 x.f32 y", 2, "codec ring makes no file");
    assert_runs(f, "compare x.f32 --codecs sbc,ring", 2, "codec ring makes no file");
    assert_runs(f, "encode --codec ring:b=1 x.f32 y", 2, "b");
}

FED_TEST_WITH(help_is_no_error, fed_program *f) {
    assert_runs(f, "--help", 0, "usage: fedcodec encode");
}

FED_TEST_WITH(wrong_usage_is_status_2, fed_program *f) {
    assert_runs(f, "", 2, "");
    assert_runs(f, "compress", 2, "unknown command compress");
    assert_runs(f, "encode x.f32 x.fed", 2, "--codec SPEC");
    assert_runs(f, "encode --codec", 2, "");
    assert_runs(f, "encode --codec 3lc x.f32 y z", 2, "");
    assert_runs(f, "encode --fast x.f32 y", 2, "");
    assert_runs(f, "encode --codec zip x.f32 y", 2,
                "unknown codec \"zip\"; there are float32, 3lc, sbc");
    assert_runs(f, "encode --codec threshold x.f32 y", 2,
                "codec threshold needs t (least magnitude sent, such as 0.005), from 1e-06 to 16");
    assert_runs(f, "decode x.fed", 2, "");
    assert_runs(f, "info", 2, "");
    assert_runs(f, "list all", 2, "");
}

FED_TEST_WITH(bad_files_are_status_1_and_a_sentence, fed_program *f) {
    assert_runs(f, "encode --codec 3lc none y", 1, "none: No such file");
    write_file(f, "odd", "abcdefg", 7);
    assert_runs(f, "encode --codec 3lc odd y", 1,
                "odd: 7 bytes are not a whole number of float32 values");
    write_file(f, "nan", "\x00\x00\xc0\x7f", 4);
    assert_runs(f, "encode --codec 3lc nan y", 1, "nan: holds NaN or infinity");
    assert_runs(f, "decode x.f32 y", 1, "x.f32: not an envelope");
    assert_runs(f, "encode --codec 3lc x.f32 no/such/directory", 1, "");
}

FED_TEST_WITH(a_malformed_message_is_refused_with_its_reason, fed_program *f) {
    size_t len;
    assert_runs(f, "encode --codec 3lc --small 0 x.f32 x.fed", 0, "");
    uint8_t *data = read_file(f, "x.fed", &len);
    write_file(f, "cut.fed", data, len - 1);
    assert_runs(f, "decode cut.fed y", 1,
                "cut.fed: frame 1: its head is malformed, or its data cut off");
    data[13] = 0xff; /* makes the magnitude invalid */
    write_file(f, "bad.fed", data, len);
    assert_runs(f, "info bad.fed", 1, "are not a valid 3lc message of 1000 values");
    free(data);
}

int main(void) {
    return fed_cases_run(set_up, fed_program_teardown);
}

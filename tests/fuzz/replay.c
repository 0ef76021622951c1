/* Run a fuzz target without libFuzzer: every file of its corpus, and mutations of them, which are
 * the same in each run.
 *
 *   fuzz_x CORPUS               replay
 *   fuzz_x CORPUS --keep FILE   write each input into FILE before it runs: after a crash FILE has
 *                               the input that caused it
 *   fuzz_x FILE                 run that input only
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "fed/file.h"
#include "fed/rng.h"

enum {
    MUTATIONS = 20000,
    BYTES_TOTAL = 64 * 1024 * 1024,
    STEPS_MAX = 4,
    GROWTH = 64,
    FILE_LIMIT = 16 * 1024 * 1024,
    SEEDS_MAX = 4096
};

typedef struct input {
    uint8_t *data;
    size_t len;
} input;

static input seeds[SEEDS_MAX];
static size_t seed_count;

static void keep(const char *path, input in) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(in.data, 1, in.len, file) != in.len || fclose(file) != 0) {
        fprintf(stderr, "can't write the input to %s (--keep)\n", path);
        exit(1);
    }
}

/* Use memory of exactly the input's size, so that sanitizers find a read past its end. */
static void run(input in, const char *keep_path) {
    uint8_t *copy = fuzz_copy(in.data, in.len);
    if (keep_path != NULL) {
        keep(keep_path, in);
    }
    (void)LLVMFuzzerTestOneInput(copy, in.len);
    free(copy);
}

static void add_seed(const char *path) {
    fed_error err = {0};
    if (seed_count == SEEDS_MAX) {
        fprintf(stderr, "the corpus has more than %d files: raise SEEDS_MAX\n", SEEDS_MAX);
        exit(1);
    }
    input *seed = &seeds[seed_count];
    if (fed_file_read(path, FILE_LIMIT, &seed->data, &seed->len, &err) != FED_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    seed_count++;
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* Add files in the order of their names, so that mutations are the same on each machine. */
static void add_directory(const char *path) {
    struct dirent **entries;
    int count = scandir(path, &entries, is_visible, alphasort);
    if (count < 0) {
        fprintf(stderr, "can't read the corpus %s\n", path);
        exit(1);
    }
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        add_seed(name);
        free(entries[i]);
    }
    free(entries);
}

/* --- changes to an input, whose memory has room for GROWTH bytes more --- */

static size_t place(fed_rng *rng, size_t len) {
    return len == 0 ? 0 : fed_rng_below(rng, (uint32_t)len);
}

static void flip_bit(fed_rng *rng, input *in) {
    if (in->len > 0) {
        in->data[place(rng, in->len)] ^= (uint8_t)(1U << fed_rng_below(rng, 8));
    }
}

static void set_byte(fed_rng *rng, input *in) {
    static const uint8_t telling[] = {0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF, '0', '9', '"', '{', '\n'};
    if (in->len > 0) {
        in->data[place(rng, in->len)] = telling[fed_rng_below(rng, sizeof telling)];
    }
}

static void set_word(fed_rng *rng, input *in) {
    size_t size = 1U << (1 + fed_rng_below(rng, 3)), at = place(rng, in->len);
    uint32_t kind = fed_rng_below(rng, 3);
    for (size_t i = at; i < in->len && i < at + size; i++) {
        in->data[i] = kind == 0 ? 0 : kind == 1 ? 0xFF : (uint8_t)fed_rng_u32(rng);
    }
}

static void cut_end(fed_rng *rng, input *in) {
    in->len = place(rng, in->len);
}

static void remove_bytes(fed_rng *rng, input *in) {
    size_t at = place(rng, in->len), count = 1 + fed_rng_below(rng, GROWTH);
    count = count < in->len - at ? count : in->len - at;
    memmove(in->data + at, in->data + at + count, in->len - at - count);
    in->len -= count;
}

static void insert_bytes(fed_rng *rng, input *in) {
    size_t at = place(rng, in->len), count = 1 + fed_rng_below(rng, GROWTH);
    memmove(in->data + at + count, in->data + at, in->len - at);
    for (size_t i = 0; i < count; i++) {
        in->data[at + i] = (uint8_t)fed_rng_u32(rng);
    }
    in->len += count;
}

static void mutate(fed_rng *rng, input *in) {
    static void (*const ways[])(fed_rng *, input *) = {flip_bit, set_byte,     set_word,
                                                       cut_end,  remove_bytes, insert_bytes};
    for (uint32_t n = 1 + fed_rng_below(rng, STEPS_MAX); n > 0; n--) {
        ways[fed_rng_below(rng, sizeof ways / sizeof ways[0])](rng, in);
    }
}

static input start_from_seed(fed_rng *rng) {
    const input *head = &seeds[fed_rng_below(rng, (uint32_t)seed_count)], *tail = head;
    size_t head_len = head->len, tail_len = 0;
    if (fed_rng_below(rng, 8) == 0) {
        tail = &seeds[fed_rng_below(rng, (uint32_t)seed_count)];
        head_len = place(rng, head->len);
        tail_len = place(rng, tail->len);
    }
    input in = {.data = fuzz_allocate(head_len + tail_len + STEPS_MAX * GROWTH),
                .len = head_len + tail_len};
    memcpy(in.data, head->data, head_len);
    memcpy(in.data + head_len, tail->data + tail->len - tail_len, tail_len);
    return in;
}

static uint32_t run_mutations(const char *keep_path) {
    uint32_t count = 0;
    for (size_t bytes = 0; count < MUTATIONS && bytes < BYTES_TOTAL; count++) {
        fed_rng rng;
        fed_rng_init(&rng, 1, count, 0);
        input in = start_from_seed(&rng);
        mutate(&rng, &in);
        run(in, keep_path);
        bytes += in.len;
        free(in.data);
    }
    return count;
}

static bool is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

int main(int argc, char **argv) {
    const char *keep_path = argc == 4 && strcmp(argv[2], "--keep") == 0 ? argv[3] : NULL;
    if (argc != 2 && keep_path == NULL) {
        fprintf(stderr, "usage: %s CORPUS [--keep FILE] | FILE\n", argv[0]);
        return 2;
    }
    bool whole_corpus = is_directory(argv[1]);
    if (whole_corpus) {
        add_directory(argv[1]);
    } else {
        add_seed(argv[1]);
    }
    if (seed_count == 0) {
        fprintf(stderr, "%s is empty: a fuzz target needs at least one valid input there\n",
                argv[1]);
        return 1;
    }
    for (size_t i = 0; i < seed_count; i++) {
        run(seeds[i], keep_path);
    }
    uint32_t mutations = whole_corpus ? run_mutations(keep_path) : 0;
    printf("%zu seeds and %u mutations: no crash\n", seed_count, mutations);
    for (size_t i = 0; i < seed_count; i++) {
        free(seeds[i].data);
    }
    return 0;
}

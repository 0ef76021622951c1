/* Ranks started by mpirun get the same bits as threads, with each collective and codec. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <pthread.h>

#include "codec_spec.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed/rng.h"
#include "fedcodec/codec.h"
#include "feddc/exchange.h"
#include "mpi_job.h"

enum { RANKS = 3, STEPS = 3, SIZE = 12000, SKIPPED = 77, LINE = 160, LINES = 1024 };

static const size_t tensors[] = {9000, 40, 2960};

/** Set the k-th collective and the c-th codec. Returns false if there are no more. */
static bool combination(size_t k, size_t c, const char **collective, const char **codec) {
    *collective = k == 0 ? "owners:aggregators=1" : feddc_collective_name(k - 1);
    *codec = codec_spec_at(c);
    return *collective != NULL && *codec != NULL;
}

static fed_status sum_up(feddc_exchange *x, uint32_t rank, bool exact, float *sums,
                         fed_error *err) {
    static const uint64_t seed = 21;
    float *grad = calloc(SIZE, sizeof *grad);
    fed_status status = grad != NULL ? FED_OK : FED_ENOMEM;
    for (uint32_t step = 0; step < STEPS && status == FED_OK; step++) {
        fed_rng rng;
        fed_rng_init(&rng, seed, step, rank);
        for (size_t i = 0; i < SIZE; i++) {
            grad[i] = fed_rng_float(&rng) - 0.5f;
        }
        float *sum = sums + (size_t)step * SIZE;
        status = exact ? feddc_allreduce(x, step, grad, sum, err)
                       : feddc_allreduce_compressed(x, step, grad, sum, err);
    }
    free(grad);
    return status;
}

/** Write one rank's line: its status, and the digest of its sums. */
static void play(const feddc_link_vtable *link, const feddc_place *place, const char *collective,
                 const char *codec, char line[LINE]) {
    const feddc_exchange_options options = {.link = link,
                                            .place = *place,
                                            .collective = collective,
                                            .codec = codec,
                                            .pull = codec,
                                            .tensor = tensors,
                                            .tensors = sizeof tensors / sizeof tensors[0],
                                            .bucket = 16384};
    feddc_exchange *x = NULL;
    fed_error err = {0};
    float *sums = calloc((size_t)STEPS * SIZE, sizeof *sums);
    assert_non_null(sums);
    fed_status status = feddc_exchange_open(&options, &x, &err);
    if (status == FED_OK) {
        status = place->rank < feddc_exchange_workers(x)
                     ? sum_up(x, place->rank, strcmp(codec, "float32") == 0, sums, &err)
                     : feddc_exchange_serve(x, &err);
        feddc_exchange_close(x, status == FED_OK);
    }
    snprintf(line, LINE, "%s %s rank %u: %s %016llx\n", collective, codec, place->rank,
             fed_status_name(status), (unsigned long long)fed_digest(sums, (size_t)STEPS * SIZE));
    free(sums);
}

/* A rank writes into a file of its own: mpirun may cut the ranks' output anywhere when it joins
 * them. */
static int play_as_a_rank(const char *directory) {
    const feddc_link_vtable *mpi = feddc_link_named("mpi");
    const char *collective, *codec;
    feddc_place place = {.listener = -1};
    char line[LINE], path[300];
    if (mpi->find(&place, NULL) != FED_OK) {
        return EXIT_FAILURE;
    }
    snprintf(path, sizeof path, "%s/%u", directory, place.rank);
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        return EXIT_FAILURE;
    }
    for (size_t k = 0; combination(k, 0, &collective, &codec); k++) {
        for (size_t c = 0; combination(k, c, &collective, &codec); c++) {
            play(mpi, &place, collective, codec, line);
            fputs(line, f);
        }
    }
    return fclose(f) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

typedef struct entry {
    feddc_place place;
    const char *collective, *codec;
    char line[LINE];
    pthread_t thread;
} entry;

static void *play_as_a_thread(void *arg) {
    entry *s = arg;
    play(feddc_link_named("threads"), &s->place, s->collective, s->codec, s->line);
    return NULL;
}

static char said[LINE * LINES];

/** Run the combination with threads. What the MPI ranks wrote, `said`, must have each thread's
 * line. */
static void check(const char *collective, const char *codec) {
    entry entries[RANKS];
    struct feddc_hub *hub = feddc_hub_new(RANKS);
    assert_non_null(hub);
    for (uint32_t r = 0; r < RANKS; r++) {
        entries[r] = (entry){.place = {.rank = r, .size = RANKS, .hub = hub, .listener = -1},
                             .collective = collective,
                             .codec = codec};
        assert_int_equal(pthread_create(&entries[r].thread, NULL, play_as_a_thread, &entries[r]),
                         0);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        pthread_join(entries[r].thread, NULL);
    }
    feddc_hub_free(hub);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (strstr(said, entries[r].line) == NULL) {
            fail_msg("the thread says \"%s\", and no rank of MPI does", entries[r].line);
        }
    }
    assert_string_equal(strstr(entries[0].line, ": "), strstr(entries[1].line, ": "));
}

FED_TEST(mpi_sums_to_the_bits_of_threads) {
    const char *collective, *codec;
    char self[512], directory[256];
    mpi_job_self(self, sizeof self);
    fed_test_tmpdir(directory, sizeof directory);
    int status = mpi_job_run(self, directory, RANKS, said, sizeof said);
    if (status != 0) {
        fail_msg("mpirun ends with %d: %s", status, said);
    }
    size_t at = 0;
    for (unsigned r = 0; r < RANKS; r++) {
        char path[300], *text = NULL;
        size_t len = 0;
        fed_error err = {0};
        snprintf(path, sizeof path, "%s/%u", directory, r);
        assert_fed_ok_err(fed_file_read_text(path, sizeof said, &text, &len, &err));
        assert_true(at + len < sizeof said);
        memcpy(said + at, text, len + 1);
        at += len;
        free(text);
    }
    fed_test_rmdir(directory);
    for (size_t k = 0; combination(k, 0, &collective, &codec); k++) {
        for (size_t c = 0; combination(k, c, &collective, &codec); c++) {
            check(collective, codec);
        }
    }
    assert_non_null(strstr(said, "owners:aggregators=1 float32 rank 0: FED_OK"));
    assert_non_null(strstr(said, "owners 3lc rank 0: FED_OK"));
}

int main(int argc, char **argv) {
    if (feddc_link_named("mpi") == NULL || !mpi_job_possible()) {
        return SKIPPED;
    }
    if (argc == 2) {
        return play_as_a_rank(argv[1]);
    }
    return fed_cases_run(NULL, NULL);
}

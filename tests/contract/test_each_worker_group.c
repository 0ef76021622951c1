/* Each collective, rule and codec that fit together must train with the same bits on all links. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "codec_spec.h"
#include "fedcodec/codec.h"
#include "mpi_job.h"
#include "worker_case.h"

static char directory[200];
static worker_data data;

static const char *const collectives[] = {"owners", "owners:aggregators=1", "ring", "gather",
                                          "tree:group=2"};
static const char *const coded[] = {"bitsgd", "local:n=2", "cdsgd:n=2,k=3"};
static const char *const plain[] = {"ssgd", "odsgd"};

static worker_case case_of(const char *collective, const char *sync) {
    return (worker_case){.data = &data,
                         .model = "input 784 | dense 12 | relu | dense 10",
                         .collective = collective,
                         .sync = sync,
                         .optimizer = "momentum:lr=0.02",
                         .workers = 4,
                         .batch = 4,
                         .run = {8}};
}

static bool is_refused(const char *collective, const char *codec) {
    const bool recodes = strcmp(collective, "ring") == 0 || strncmp(collective, "tree", 4) == 0;
    return recodes && feddc_codec_expands(codec);
}

/* Set *c to the k-th case. Returns false if there are no more. */
static bool case_at(size_t k, worker_case *c) {
    const size_t ways = sizeof collectives / sizeof collectives[0];
    const size_t rules = sizeof plain / sizeof plain[0], rows = sizeof coded / sizeof coded[0];
    size_t codecs = 0;
    while (codec_spec_at(codecs) != NULL) {
        codecs++;
    }
    if (k < ways * rules) {
        *c = case_of(collectives[k % ways], plain[k / ways]);
        return true;
    }
    k -= ways * rules;
    if (k < ways * rows * codecs) {
        *c = case_of(collectives[k % ways], coded[k / ways % rows]);
        c->codec = codec_spec_at(k / ways / rows);
        return true;
    }
    k -= ways * rows * codecs;
    *c = case_of(collectives[k % 2], "bitsgd");
    c->codec = "int8";
    c->pull = codec_spec_at(k / 2);
    if (k / 2 < codecs) {
        return true;
    }
    k -= 2 * codecs;
    *c = case_of(collectives[k % 2], coded[k % 4 / 2]);
    c->at_owners = true;
    c->codec = "int8";
    c->pull = codec_spec_at(k / 4);
    if (k / 4 < codecs) {
        return true;
    }
    k -= 4 * codecs;
    *c = case_of(collectives[k % ways], coded[k / ways % rows]);
    c->nic = "inline:e=12";
    return k < ways * rows;
}

/* Set *c to the next case for this link. A short run takes each fourth case. */
static bool next_case(size_t *k, const char *link, worker_case *c) {
    while (case_at(*k, c)) {
        *k += FED_TEST_TRIES(1, 4);
        if (c->codec == NULL || !is_refused(c->collective, c->codec)) {
            c->link = link;
            return true;
        }
    }
    return false;
}

static const char *name_of(const worker_case *c) {
    static char name[160];
    snprintf(name, sizeof name, "%s %s %s %s %s%s", c->collective, c->sync,
             c->codec ? c->codec : "", c->pull ? c->pull : "", c->nic ? c->nic : "",
             c->at_owners ? "at the owners" : "");
    return name;
}

FED_TEST(tcp_ends_with_the_bits_of_threads) {
    worker_case c;
    for (size_t k = 0; next_case(&k, "threads", &c);) {
        uint64_t threads = 0, tcp = 0;
        free(worker_case_values(&c, NULL, &threads));
        c.link = "tcp";
        free(worker_case_values(&c, NULL, &tcp));
        if (threads != tcp) {
            fail_msg("%s: tcp ends with other bits than threads", name_of(&c));
        }
    }
}

enum { RANKS = 4, SAID = 1 << 17 };

static void count_ranks(worker_case *c) {
    c->workers = strstr(c->collective, "aggregators") != NULL ? RANKS - 1 : RANKS;
}

static int play_as_a_rank(const char *folder) {
    worker_case c;
    worker_member m;
    worker_data_open(&data, folder, 0, 0);
    for (size_t k = 0; next_case(&k, "mpi", &c);) {
        count_ranks(&c);
        worker_case_rank(&c, &m);
        if (m.place.rank == 0) {
            printf("%s: %s %016llx\n", name_of(&c), fed_status_name(m.status),
                   (unsigned long long)m.tally[0].digest);
        }
        worker_case_free_rank(&m);
    }
    worker_data_close(&data);
    return EXIT_SUCCESS;
}

FED_TEST(mpi_ends_with_the_bits_of_threads) {
    char self[512], args[300], line[300];
    worker_case c;
    if (feddc_link_named("mpi") == NULL || !mpi_job_possible()) {
        skip();
    }
    char *said = malloc(SAID);
    assert_non_null(said);
    mpi_job_self(self, sizeof self);
    snprintf(args, sizeof args, "rank '%s'", directory);
    if (mpi_job_run(self, args, RANKS, said, SAID) != 0) {
        fail_msg("mpirun: %s", said);
    }
    for (size_t k = 0; next_case(&k, "threads", &c);) {
        uint64_t threads = 0;
        count_ranks(&c);
        free(worker_case_values(&c, NULL, &threads));
        snprintf(line, sizeof line, "%s: FED_OK %016llx\n", name_of(&c),
                 (unsigned long long)threads);
        if (strstr(said, line) == NULL) {
            fail_msg("threads give \"%s\", and no rank under mpirun gives this line", line);
        }
    }
    free(said);
}

static int set_up(void **state) {
    (void)state;
    fed_test_tmpdir(directory, sizeof directory);
    worker_data_open(&data, directory, 200, 40);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    worker_data_close(&data);
    fed_test_rmdir(directory);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3) {
        return play_as_a_rank(argv[2]);
    }
    return fed_cases_run(set_up, tear_down);
}

/* The link "mpi": this program runs itself under mpirun, and passes the cases for every link. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <mpi.h>
#include <signal.h>

#include "fed/clock.h"
#include "feddc/link.h"
#include "link_case.h"
#include "mpi_job.h"

enum { SKIPPED = 77 };

static const feddc_link_vtable *mpi;

static bool complain(const char *what, const fed_error *err) {
    fprintf(stderr, "%s: %s %s\n", what, fed_status_name(err->status), err->text);
    return false;
}

static bool open_link(feddc_place *place, void **self, fed_error *err) {
    place->listener = -1;
    place->patience_ms = 20000;
    return (mpi->find(place, err) == FED_OK && mpi->open(place, self, err) == FED_OK) ||
           complain("can't open the link", err);
}

static bool play_cases(void) {
    const link_case *one;
    for (size_t k = 0; (one = link_case_at(k)) != NULL; k++) {
        link_entry entry = {.link = mpi, .place = {.patience_ms = 20000}};
        fed_error err = {0};
        if (mpi->find(&entry.place, &err) != FED_OK) {
            return complain("the link does not find this rank", &err);
        }
        if (one->abrupt && entry.place.size < 2) {
            continue;
        }
        link_case_run(one, &entry);
        if (entry.fault[0] != 0) {
            fprintf(stderr, "\"%s\": rank %u of %u: %s\n", one->name, entry.place.rank,
                    entry.place.size, entry.fault);
            return false;
        }
    }
    printf("played\n");
    return true;
}

/* The program has initialised MPI itself, so the link must not end MPI. */
static bool use_the_programs_mpi(void) {
    feddc_place place = {0};
    void *self = NULL, *second = NULL;
    fed_error err = {0};
    int level = 0, ended = 1;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (!open_link(&place, &self, &err)) {
        return false;
    }
    if (mpi->open(&place, &second, &err) != FED_ESTATE) {
        return complain("a second link at the same time was not refused", &err);
    }
    mpi->close(self, true);
    MPI_Finalized(&ended);
    if (ended || MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS) {
        return complain("the link has ended the program's MPI", &err);
    }
    MPI_Finalize();
    if (mpi->find(&place, &err) != FED_ESTATE || strstr(err.text, "MPI_Finalize") == NULL) {
        return complain("a link after MPI_Finalize was not refused", &err);
    }
    printf("used\n");
    return true;
}

static bool refuse_mpi_for_one_thread(void) {
    feddc_place place = {0};
    fed_error err = {0};
    int level = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &level);
    bool right = level >= MPI_THREAD_SERIALIZED /* some MPIs give more than was asked for */ ||
                 (mpi->find(&place, &err) == FED_ESTATE &&
                  strstr(err.text, "MPI_THREAD_SERIALIZED") != NULL);
    MPI_Finalize();
    printf("refused\n");
    return right || complain("MPI for one thread was not refused", &err);
}

static bool refuse_what_does_not_fit(void) {
    feddc_place place = {0}, other;
    const feddc_head head = {0};
    void *self = NULL, *no = NULL;
    fed_error err = {0};
    if (!open_link(&place, &self, &err)) {
        return false;
    }
    uint32_t peer = (place.rank + 1) % place.size;
    if (mpi->send(self, peer, &head, self, (size_t)1 << 31, 1, &err) != FED_EINVAL ||
        strstr(err.text, "2 GiB") == NULL) {
        return complain("a message of 2 GiB was not refused", &err);
    }
    if (mpi->send(self, place.rank, &head, NULL, 0, 1, &err) != FED_EINVAL ||
        mpi->send(self, place.size, &head, NULL, 0, 1, &err) != FED_EINVAL) {
        return complain("a message to a rank that does not exist was not refused", &err);
    }
    mpi->close(self, true);
    other = place;
    other.rank = peer;
    if (mpi->open(&other, &no, &err) != FED_EINVAL || strstr(err.text, "mpirun -n 2") == NULL) {
        return complain("a link at the place of another rank was not refused", &err);
    }
    printf("fits\n");
    return true;
}

/* Rank 1 does not open its link, so the other ranks can't open theirs. */
static bool miss_a_rank(void) {
    feddc_place place = {0};
    void *self = NULL;
    fed_error err = {0};
    if (mpi->find(&place, &err) != FED_OK) {
        return complain("the link does not find this rank", &err);
    }
    if (place.rank == 1) {
        fed_sleep_ms(20000);
        return true;
    }
    place.patience_ms = 100;
    if (mpi->open(&place, &self, &err) == FED_EBUSY) {
        printf("in vain\n");
    }
    return false;
}

static bool test_fails;     /* the next MPI_Test fails */
static const void *awaited; /* where MPI writes the communicator that it is asked for */

/* These two stand between the link and MPI. */
int MPI_Test(MPI_Request *request, int *done, MPI_Status *status) {
    return test_fails ? MPI_ERR_OTHER : PMPI_Test(request, done, status);
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *made, MPI_Request *request) {
    awaited = made;
    return PMPI_Comm_idup(comm, made, request);
}

/* Would malloc give out memory in which `at` lies? */
static bool is_given_out(const void *at) {
    enum { STEP = 16, MOST = 128 * 1024 };
    bool found = false;
    for (size_t size = STEP; size <= MOST && !found; size += STEP) {
        char *block = malloc(size);
        found = (uintptr_t)at - (uintptr_t)block < size;
        free(block);
    }
    return found;
}

/* MPI still duplicates the communicator when the link gives up. */
static bool fail_while_mpi_works(void) {
    feddc_place place = {0};
    void *self = NULL;
    fed_error err = {0};
    if (mpi->find(&place, &err) != FED_OK) {
        return complain("the link does not find this rank", &err);
    }
    test_fails = true;
    if (mpi->open(&place, &self, &err) != FED_EIO || awaited == NULL) {
        return complain("a failure of MPI was not reported", &err);
    }
    test_fails = false;
    if (is_given_out(awaited)) {
        return complain("the link freed what MPI writes to", &err);
    }
    printf("kept\n");
    return true;
}

static bool lose_a_rank(void) {
    feddc_place place = {0};
    feddc_event event = {0};
    void *self = NULL;
    fed_error err = {0};
    if (!open_link(&place, &self, &err)) {
        return false;
    }
    if (place.rank == 1) {
        raise(SIGKILL);
    }
    if (mpi->wait(self, 60000, &event, &err) == FED_OK) {
        printf("waited in vain\n");
    }
    return true;
}

static const struct role {
    const char *name;
    bool (*play)(void);
} roles[] = {{"cases", play_cases},
             {"own", use_the_programs_mpi},
             {"single", refuse_mpi_for_one_thread},
             {"fit", refuse_what_does_not_fit},
             {"miss", miss_a_rank},
             {"fail", fail_while_mpi_works},
             {"lose", lose_a_rank}};

static int play_role(const char *name) {
    for (size_t k = 0; k < sizeof roles / sizeof roles[0]; k++) {
        if (strcmp(roles[k].name, name) == 0) {
            return roles[k].play() ? EXIT_SUCCESS : EXIT_FAILURE;
        }
    }
    return EXIT_FAILURE;
}

static char said[16384];

static int run(const char *role, unsigned ranks) {
    char self[512];
    mpi_job_self(self, sizeof self);
    return mpi_job_run(self, role, ranks, said, sizeof said);
}

static void check(const char *role, unsigned ranks, const char *word) {
    unsigned count = 0;
    int status = run(role, ranks);
    for (const char *at = said; (at = strstr(at, word)) != NULL; at++) {
        count++;
    }
    if (status != 0 || count != ranks) {
        fail_msg("the job \"%s\" with %u ranks ended with status %d: %s", role, ranks, status,
                 said);
    }
}

FED_TEST(ranks_keep_each_promise) {
    for (unsigned ranks = 1; ranks <= 4; ranks++) {
        check("cases", ranks, "played");
    }
}

FED_TEST(a_program_may_initialise_mpi_itself) {
    check("own", 2, "used");
    check("single", 2, "refused");
}

FED_TEST(what_mpi_cannot_is_refused) {
    check("fit", 2, "fits");
}

FED_TEST(open_does_not_wait_for_ever) {
    assert_int_not_equal(run("miss", 2), 0);
    assert_non_null(strstr(said, "in vain"));
}

FED_TEST(what_mpi_may_still_write_to_is_not_freed) {
    assert_int_not_equal(run("fail", 2), 0); /* the ranks end without MPI_Finalize */
    assert_non_null(strstr(said, "kept"));
    assert_null(strstr(said, "freed"));
}

FED_TEST(a_death_ends_the_job) {
    assert_int_not_equal(run("lose", 3), 0);
    assert_null(strstr(said, "in vain"));
}

int main(int argc, char **argv) {
    mpi = feddc_link_named("mpi");
    if (mpi == NULL || !mpi_job_possible()) {
        return SKIPPED;
    }
    if (argc == 2) {
        return play_role(argv[1]);
    }
    return fed_cases_run(NULL, NULL);
}

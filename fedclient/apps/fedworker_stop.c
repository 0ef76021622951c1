/* Agree on the last step of a worker group that is told to stop, in a word that its ranks share. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "fedclient/apps/fedworker_stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fedclient/apps/fedtrain.h"

atomic_int app_interrupted;

struct fedworker_stop {
    atomic_bool told;
    /* 2 k, or 2 k + 1 if no more steps may begin; steps 0 to k - 1 have begun on some rank */
    _Atomic uint64_t word;
};

static const char *told_words = "";
static size_t told_len;

static void on_signal(int number) {
    const int error = errno;
    (void)number;
    app_interrupted = 1;
    if (write(STDERR_FILENO, told_words, told_len) < 0) {
        told_len = 0; /* nobody reads them */
    }
    errno = error;
}

fedworker_stop *fedworker_stop_open(const char *words) {
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    void *memory = mmap(NULL, sizeof(fedworker_stop), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    told_words = words;
    told_len = strlen(words);
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    return memory;
}

void fedworker_stop_close(fedworker_stop *stop) {
    if (stop != NULL) {
        (void)munmap(stop, sizeof *stop);
    }
}

void fedworker_stop_tell(fedworker_stop *stop) {
    atomic_store(&stop->told, true);
}

bool fedworker_stop_told(const fedworker_stop *stop) {
    return app_interrupted != 0 || atomic_load(&stop->told);
}

bool fedworker_stop_has_begun(const fedworker_stop *stop) {
    return atomic_load(&stop->word) != 0;
}

bool fedworker_stop_may_begin(fedworker_stop *stop, uint32_t step, bool all_here) {
    uint64_t word = atomic_load(&stop->word);
    while ((word & 1) == 0) {
        const uint64_t begun = word >> 1;
        const bool stops = all_here && fedworker_stop_told(stop);
        /* steps begun, with this one if it may begin */
        const uint64_t steps = (uint64_t)step + !stops;
        if (!stops && steps <= begun) {
            return true;
        }
        const uint64_t next = 2 * (steps > begun ? steps : begun) + stops;
        if (atomic_compare_exchange_weak(&stop->word, &word, next)) {
            word = next;
            if (!stops) {
                return true;
            }
        }
    }
    return step < word >> 1;
}

/* A fake libnccl.so.2 for ranks that are threads of one process. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "fedclient/datacenter/collectives/nccl/nccl_calls.h"

/* A reduction is a host function in the stream, which waits for all ranks at most PATIENCE seconds
 * and adds in the order of ranks. ncclCommAbort ends the wait. */
#define X(result, member, symbol, args) result symbol args;
FEDDC_NCCL_CALLS(X)
#undef X

enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, RANKS = 16, PATIENCE = 20 };

extern const int fed_fake_nccl;
const int fed_fake_nccl = 1;

typedef struct team {
    struct team *next;
    uint32_t number;
    int ranks, members;
    bool taken[RANKS], aborted;
    uint32_t arrived, turn; /* arrived: ranks that wait in meet(); turn: completed meetings */
    float *part[RANKS];
    size_t count;
    nccl_type type;
} team;

typedef struct work {
    struct work *earlier;
    struct ncclComm *comm;
    void *bytes;
    float *part, *sum;
    size_t count;
    nccl_type type;
} work;

struct ncclComm {
    team *team;
    int rank;
    nccl_stream stream;
    work *latest;
    nccl_result error;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static team *teams;
static uint32_t numbers;

nccl_result ncclGetVersion(int *version) {
    *version = fake_number("nccl", 22000);
    return NCCL_OK;
}

const char *ncclGetErrorString(nccl_result result) {
    return result == SYSTEM_ERROR ? "unhandled system error" : "a fake error";
}

nccl_result ncclGetUniqueId(nccl_id *id) {
    FAKE_CALL(ncclGetUniqueId);
    const uint32_t pid = (uint32_t)getpid();
    memset(id, 0, sizeof *id);
    (void)pthread_mutex_lock(&lock);
    const uint32_t number = ++numbers;
    (void)pthread_mutex_unlock(&lock);
    memcpy(id->internal, &pid, sizeof pid);
    memcpy(id->internal + sizeof pid, &number, sizeof number);
    return NCCL_OK;
}

/* Wait until all ranks have called this. Fails after an abort or PATIENCE seconds. The caller has
 * the lock. */
static nccl_result meet(team *t) {
    struct timespec until;
    const uint32_t turn = t->turn;
    if (t->aborted) {
        return SYSTEM_ERROR;
    }
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    if (++t->arrived == (uint32_t)t->ranks) {
        t->arrived = 0;
        t->turn++;
        (void)pthread_cond_broadcast(&changed);
    }
    while (t->turn == turn && !t->aborted) {
        if (pthread_cond_timedwait(&changed, &lock, &until) != 0) {
            t->aborted = true;
            (void)pthread_cond_broadcast(&changed);
        }
    }
    return t->aborted ? SYSTEM_ERROR : NCCL_OK;
}

static team *find_team(uint32_t number, int ranks) {
    team *t = teams;
    while (t != NULL && t->number != number) {
        t = t->next;
    }
    if (t == NULL && (t = calloc(1, sizeof *t)) != NULL) {
        *t = (team){.next = teams, .number = number, .ranks = ranks};
        teams = t;
    }
    return t;
}

/* The caller has the lock. */
static void drop(team *t) {
    if (--t->members > 0) {
        return;
    }
    team **at = &teams;
    while (*at != t) {
        at = &(*at)->next;
    }
    *at = t->next;
    free(t);
}

nccl_result ncclCommInitRank(nccl_comm *comm, int ranks, nccl_id id, int rank) {
    uint32_t pid, number;
    FAKE_CALL(ncclCommInitRank);
    memcpy(&pid, id.internal, sizeof pid);
    memcpy(&number, id.internal + sizeof pid, sizeof number);
    if (pid != (uint32_t)getpid() || ranks > RANKS || rank >= ranks) {
        return INVALID_USAGE;
    }
    nccl_comm c = calloc(1, sizeof *c);
    (void)pthread_mutex_lock(&lock);
    team *t = find_team(number, ranks);
    nccl_result result = INVALID_USAGE;
    if (c != NULL && t != NULL && t->ranks == ranks && !t->taken[rank]) {
        t->taken[rank] = true;
        t->members++;
        *c = (struct ncclComm){.team = t, .rank = rank};
        result = meet(t);
        if (result != NCCL_OK) {
            drop(t);
        }
    }
    (void)pthread_mutex_unlock(&lock);
    if (result != NCCL_OK) {
        free(c);
        return result;
    }
    *comm = c;
    return NCCL_OK;
}

static void *driver(const char *symbol) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, symbol) : NULL;
    if (library != NULL) {
        (void)dlclose(library);
    }
    return found;
}

static float widen(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t narrow(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void add(float *y, const float *x, size_t count, nccl_type type) {
    for (size_t i = 0; i < count; i++) {
        y[i] += x[i];
        y[i] = type == NCCL_BFLOAT16 ? widen(narrow(y[i])) : y[i];
    }
}

static void to_floats(float *y, const void *bytes, size_t count, nccl_type type) {
    const uint16_t *half = bytes;
    for (size_t i = 0; i < count && type == NCCL_BFLOAT16; i++) {
        y[i] = widen(half[i]);
    }
    if (type == NCCL_FLOAT32) {
        memcpy(y, bytes, count * sizeof *y);
    }
}

static void from_floats(void *bytes, const float *x, size_t count, nccl_type type) {
    uint16_t *half = bytes;
    for (size_t i = 0; i < count && type == NCCL_BFLOAT16; i++) {
        half[i] = narrow(x[i]);
    }
    if (type == NCCL_FLOAT32) {
        memcpy(bytes, x, count * sizeof *x);
    }
}

/* Add the parts of all ranks. The caller has the lock. */
static nccl_result gather(const work *w) {
    team *t = w->comm->team;
    t->part[w->comm->rank] = w->part;
    nccl_result result = meet(t);
    for (int r = 0; r < t->ranks && result == NCCL_OK; r++) {
        if (r == 0) {
            memcpy(w->sum, t->part[0], w->count * sizeof *w->sum);
        } else {
            add(w->sum, t->part[r], w->count, w->type);
        }
    }
    return result == NCCL_OK ? meet(t) : result; /* keep all parts until each rank has added them */
}

static void free_works(work *w) {
    while (w != NULL) {
        work *earlier = w->earlier;
        free(w->bytes);
        free(w->part);
        free(w);
        w = earlier;
    }
}

static void run_work(void *user) {
    work *w = user;
    to_floats(w->part, w->bytes, w->count, w->type);
    (void)pthread_mutex_lock(&lock);
    const nccl_result result = gather(w);
    w->comm->error = result != NCCL_OK ? result : w->comm->error;
    (void)pthread_mutex_unlock(&lock);
    from_floats(w->bytes, w->sum, w->count, w->type);
    free_works(w->earlier);
    w->earlier = NULL;
}

static bool enqueue(work *w, const void *from, void *to, size_t size, nccl_stream stream) {
    cuda_result (*down)(void *, cuda_address, size_t, cuda_stream) = NULL;
    cuda_result (*up)(cuda_address, const void *, size_t, cuda_stream) = NULL;
    cuda_result (*host)(cuda_stream, void (*)(void *), void *) = NULL;
    *(void **)&down = driver("cuMemcpyDtoHAsync_v2");
    *(void **)&up = driver("cuMemcpyHtoDAsync_v2");
    *(void **)&host = driver("cuLaunchHostFunc");
    return down(w->bytes, (cuda_address)(uintptr_t)from, size, stream) == CUDA_OK &&
           host(stream, run_work, w) == CUDA_OK &&
           up((cuda_address)(uintptr_t)to, w->bytes, size, stream) == CUDA_OK;
}

nccl_result ncclAllReduce(const void *from, void *to, size_t count, nccl_type type, nccl_op op,
                          nccl_comm comm, nccl_stream stream) {
    FAKE_CALL(ncclAllReduce);
    const size_t each = type == NCCL_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
    if ((type != NCCL_FLOAT32 && type != NCCL_BFLOAT16) || op != NCCL_SUM || count == 0) {
        return INVALID_ARGUMENT;
    }
    work *w = calloc(1, sizeof *w);
    float *part = calloc(2 * count, sizeof *part);
    void *bytes = malloc(count * each);
    if (w == NULL || part == NULL || bytes == NULL) {
        free(w);
        free(part);
        free(bytes);
        return SYSTEM_ERROR;
    }
    *w = (work){.earlier = comm->latest,
                .comm = comm,
                .bytes = bytes,
                .part = part,
                .sum = part + count,
                .count = count,
                .type = type};
    comm->latest = w;
    comm->stream = stream;
    return enqueue(w, from, to, count * each, stream) ? NCCL_OK : INVALID_ARGUMENT;
}

nccl_result ncclCommGetAsyncError(nccl_comm comm, nccl_result *result) {
    (void)pthread_mutex_lock(&lock);
    *result = (nccl_result)fake_number("ncclCommGetAsyncError", (int)comm->error);
    (void)pthread_mutex_unlock(&lock);
    return NCCL_OK;
}

static void leave(nccl_comm comm, bool aborts) {
    cuda_result (*sync)(cuda_stream) = NULL;
    *(void **)&sync = driver("cuStreamSynchronize");
    (void)pthread_mutex_lock(&lock);
    comm->team->aborted = comm->team->aborted || aborts;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    if (comm->latest != NULL) {
        (void)sync(comm->stream);
    }
    (void)pthread_mutex_lock(&lock);
    drop(comm->team);
    (void)pthread_mutex_unlock(&lock);
    free_works(comm->latest);
    free(comm);
}

nccl_result ncclCommDestroy(nccl_comm comm) {
    leave(comm, false);
    return NCCL_OK;
}

nccl_result ncclCommAbort(nccl_comm comm) {
    leave(comm, true);
    return NCCL_OK;
}

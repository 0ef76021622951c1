/* Controls torch_worker.py by two pipes. Requests and answers are one line each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_peer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void hold_to(const char *unit) {
    if (strcmp(unit, "avx512") == 0) {
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
        setenv("ATEN_CPU_CAPABILITY", "avx512", 1);
    } else if (strcmp(unit, "avx2") == 0) {
        setenv("OPENBLAS_CORETYPE", "Haswell", 1);
        setenv("ATEN_CPU_CAPABILITY", "avx2", 1);
        setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    }
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

static void run_worker(const char *python, const char *unit, const int in[2], const int out[2]) {
    hold_to(unit);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(in[0]);
    close(out[1]);
    execlp(python, python, FED_SOURCE_DIR "/tests/bench/torch_worker.py", (char *)NULL);
    _exit(EXIT_FAILURE);
}

static bool start(torch_peer *peer, const char *python, const char *unit) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) {
        return false;
    }
    /* otherwise the next worker would inherit these pipes */
    fcntl(in[1], F_SETFD, FD_CLOEXEC);
    fcntl(out[0], F_SETFD, FD_CLOEXEC);
    fflush(NULL); /* otherwise the child might print buffered text again */
    pid_t pid = fork();
    if (pid == 0) {
        run_worker(python, unit, in, out);
    }
    close(in[0]);
    close(out[1]);
    *peer = (torch_peer){.pid = pid, .to = fdopen(in[1], "w"), .from = fdopen(out[0], "r")};
    if (pid > 0 && fgets(peer->about, sizeof peer->about, peer->from) != NULL) {
        peer->about[strcspn(peer->about, "\n")] = 0;
        return true;
    }
    torch_peer_stop(peer);
    return false;
}

bool torch_peer_start(torch_peer *peer, const char *unit) {
    const char *told = getenv("FED_TORCH_PYTHON");
    if (told != NULL) {
        return start(peer, told, unit);
    }
    return start(peer, FED_SOURCE_DIR "/build/python-venv/bin/python", unit) ||
           start(peer, "python3", unit) || start(peer, "/usr/bin/python3", unit);
}

void torch_peer_stop(torch_peer *peer) {
    if (peer->pid > 0) {
        fclose(peer->to);
        fclose(peer->from);
        waitpid(peer->pid, NULL, 0);
    }
    *peer = (torch_peer){0};
}

/* A worker that fails has written the error to standard error. */
static void ask(torch_peer *peer, char *answer, size_t cap) {
    fflush(peer->to);
    if (fgets(answer, (int)cap, peer->from) == NULL) {
        fprintf(stderr, "bench_train: torch_worker.py stopped; its own message is above\n");
        exit(EXIT_FAILURE);
    }
}

void torch_peer_case(torch_peer *peer, const char *net, size_t batch, const char *optimizer) {
    char answer[64];
    fprintf(peer->to, "case %s %zu %s\n", net, batch, optimizer);
    ask(peer, answer, sizeof answer);
}

double torch_peer_slice(torch_peer *peer, const char *way, double seconds) {
    char answer[64], *rest;
    fprintf(peer->to, "slice %s %g\n", way, seconds);
    ask(peer, answer, sizeof answer);
    double samples = strtod(answer, &rest), took = strtod(rest, NULL);
    return samples / took;
}

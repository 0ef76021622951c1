/* Checkpoints of a worker group: a common file, and a file of each rank. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/checkpoint.h"
#include "fedclient/datacenter/worker/worker_impl.h"

enum { PATH_SIZE = 4096, NOTES = 64 };

static const char *text_or(const char *text, const char *preset) {
    return text != NULL ? text : preset;
}

void feddc_worker_plan_text(const feddc_worker *w, char *dst, size_t cap) {
    const feddc_exchange_options *o = &w->o.exchange;
    snprintf(dst, cap, "%s %s %s small=%zu bucket=%zu late=%u workers=%u%s%s%s",
             text_or(o->collective, "owners"), text_or(o->codec, "float32"),
             text_or(o->pull, "float32"), o->small, o->bucket, o->late, w->workers,
             o->nic != NULL ? " nic=" : "", text_or(o->nic, ""),
             w->o.at_owners ? " pull-as=model" : "");
}

/* The parts of a rank's file: residuals, local weights, and a gradient not yet exchanged. */
enum { RESIDUAL, LOCAL, LEFT, PARTS };

typedef struct own_values {
    fed_layout layout;
    float *values;
    float *part[PARTS];
} own_values;

static void free_own(own_values *own) {
    fed_layout_free(&own->layout);
    free(own->values);
}

/* n: number of float32 values of each part; 0: no such part. */
static fed_status make_own(const size_t n[PARTS], own_values *own, fed_error *err) {
    static const char *const names[PARTS] = {"optimizer.residual", "optimizer.local",
                                             "optimizer.gradient"};
    *own = (own_values){.values = calloc(n[RESIDUAL] + n[LOCAL] + n[LEFT] + 1, sizeof(float))};
    fed_layout_init(&own->layout);
    fed_status status = own->values != NULL ? FED_OK : FED_ENOMEM;
    for (int k = 0; k < PARTS && status == FED_OK; k++) {
        const uint32_t dims[] = {(uint32_t)n[k]};
        own->part[k] = n[k] > 0 ? own->values + own->layout.size : NULL;
        if (n[k] > 0) {
            status =
                n[k] <= UINT32_MAX ? fed_layout_add(&own->layout, names[k], 1, dims) : FED_ERANGE;
        }
    }
    if (status != FED_OK) {
        free_own(own);
        (void)fed_fail(err, status, "a checkpoint of this rank: %s",
                       status == FED_ENOMEM ? "out of memory" : "too many values");
        return status;
    }
    return FED_OK;
}

static void sizes_of(const feddc_worker *w, size_t n[PARTS]) {
    n[RESIDUAL] = feddc_exchange_state_size(w->x);
    n[LOCAL] = w->local_ready ? w->n : 0;
    n[LEFT] = w->left != NULL && !w->left_empty ? w->n : 0;
}

/* What the checkpoint's counters are: members of feddc_worker_tally, in the order of its note. */
typedef struct counter {
    size_t at;
    bool seconds;
} counter;

#define COUNT(member)                                                                              \
    { offsetof(feddc_worker_tally, member), false }
#define SECONDS(member)                                                                            \
    { offsetof(feddc_worker_tally, member), true }

static const counter counters[] = {
    COUNT(steps),        COUNT(sent_bytes), COUNT(received_bytes), COUNT(messages),
    COUNT(zeroed),       COUNT(coded),      SECONDS(step_s),       SECONDS(forward_s),
    SECONDS(backward_s), SECONDS(update_s), SECONDS(exposed_s),    SECONDS(exchange_s),
    SECONDS(encode_s),   SECONDS(decode_s), SECONDS(sum_s),
};
enum { COUNTERS = sizeof counters / sizeof counters[0] };

static void add_word(char *dst, const char *src, bool seconds) {
    uint64_t whole[2];
    double part[2];
    if (seconds) {
        memcpy(&part[0], dst, sizeof part[0]);
        memcpy(&part[1], src, sizeof part[1]);
        part[0] += part[1];
        memcpy(dst, &part[0], sizeof part[0]);
        return;
    }
    memcpy(&whole[0], dst, sizeof whole[0]);
    memcpy(&whole[1], src, sizeof whole[1]);
    whole[0] += whole[1];
    memcpy(dst, &whole[0], sizeof whole[0]);
}

void feddc_tally_add(feddc_worker_tally *sum, const feddc_worker_tally *more) {
    for (size_t k = 0; k < COUNTERS; k++) {
        add_word((char *)sum + counters[k].at, (const char *)more + counters[k].at,
                 counters[k].seconds);
    }
    for (size_t k = 0; k < FEDDC_SPREAD; k++) {
        sum->spread[k] += more->spread[k];
    }
}

/* Add a rank's numbers to the note "worker.counts", each with a blank behind it. */
static void write_counts(fed_writer *w, const feddc_worker_tally *t) {
    for (size_t k = 0; k < COUNTERS; k++) {
        uint64_t whole = 0;
        double part = 0;
        memcpy(&whole, (const char *)t + counters[k].at, sizeof whole);
        memcpy(&part, (const char *)t + counters[k].at, sizeof part);
        if (counters[k].seconds) {
            fed_write_printf(w, "%.9g ", part);
        } else {
            fed_write_printf(w, "%" PRIu64 " ", whole);
        }
    }
    for (size_t k = 0; k < FEDDC_SPREAD; k++) {
        fed_write_printf(w, "%" PRIu64 " ", t->spread[k]);
    }
}

/* Read one rank's counters. False: the text has no more, or no numbers. */
static bool read_counts(const char **text, feddc_worker_tally *t) {
    char *end = NULL;
    *t = (feddc_worker_tally){0};
    for (size_t k = 0; k < COUNTERS + FEDDC_SPREAD; k++) {
        const bool seconds = k < COUNTERS && counters[k].seconds;
        const double part = seconds ? strtod(*text, &end) : 0;
        const uint64_t whole = seconds ? 0 : strtoull(*text, &end, 10);
        if (end == *text || *end != ' ' || !isfinite(part)) {
            return false;
        }
        if (k >= COUNTERS) {
            t->spread[k - COUNTERS] = whole;
        } else {
            memcpy((char *)t + counters[k].at, seconds ? (const void *)&part : &whole,
                   sizeof whole);
        }
        *text = end + 1;
    }
    return true;
}

/* Take what this rank has counted before the checkpoint. If there were more ranks then, rank r of N
 * takes the counters of r, r + N, ..., so that none are lost. */
static void take_counts(feddc_worker *w) {
    const char *text = w->counts;
    feddc_worker_tally t;
    for (uint32_t r = 0; text != NULL && read_counts(&text, &t); r++) {
        if (r % w->workers == w->rank) {
            feddc_tally_add(&w->before, &t);
        }
    }
    free(w->counts);
    w->counts = NULL;
}

static fed_status own_path(const feddc_worker *w, const char *path, char *dst, fed_error *err) {
    const int len =
        snprintf(dst, PATH_SIZE, "%s.rank-%" PRIu32 "-%" PRIu32, path, w->rank, w->saves % 2);
    return len > 0 && len < PATH_SIZE
               ? FED_OK
               : fed_fail(err, FED_EINVAL, "the checkpoint's path is too long: %.200s", path);
}

static fed_status write_own(const feddc_worker *w, const char *path, fed_error *err) {
    size_t n[PARTS];
    sizes_of(w, n);
    if (n[RESIDUAL] + n[LOCAL] + n[LEFT] == 0) {
        return FED_OK;
    }
    char file[PATH_SIZE], plan[200], step[16];
    own_values own;
    FED_TRY(own_path(w, path, file, err));
    FED_TRY(make_own(n, &own, err));
    fed_status status =
        n[RESIDUAL] > 0 ? feddc_exchange_save(w->x, own.part[RESIDUAL], err) : FED_OK;
    if (status == FED_OK && n[LOCAL] > 0) {
        status = feddc_worker_down(w, own.part[LOCAL], w->local, w->n, err);
    }
    if (status == FED_OK && n[LEFT] > 0) {
        status = feddc_worker_down(w, own.part[LEFT], w->left, w->n, err);
    }
    feddc_worker_plan_text(w, plan, sizeof plan);
    snprintf(step, sizeof step, "%" PRIu32, w->step);
    const char *const notes[] = {"worker.plan", plan, "worker.step", step, NULL};
    if (status == FED_OK) {
        status = fed_checkpoint_save(file, &own.layout, own.values, notes, err);
    }
    free_own(&own);
    return status;
}

/* Return why this rank's file does not belong to the checkpoint and this exchange, or NULL if it
 * does. */
static const char *misfit(const feddc_worker *w, const fed_checkpoint *file) {
    char plan[200], step[16];
    feddc_worker_plan_text(w, plan, sizeof plan);
    snprintf(step, sizeof step, "%" PRIu32, w->step);
    const char *then = fed_checkpoint_note(file, "worker.step");
    if (then == NULL || strcmp(then, step) != 0) {
        return "its file is of a different step";
    }
    then = fed_checkpoint_note(file, "worker.plan");
    return then == NULL || strcmp(then, plan) != 0
               ? "the worker group or the options of its exchange have changed"
               : NULL;
}

static size_t size_in(const fed_checkpoint *file, const char *name) {
    const fed_tensor *tensor = fed_checkpoint_find(file, name);
    return tensor != NULL ? tensor->size : 0;
}

static fed_status use_own(feddc_worker *w, const own_values *own, fed_error *err) {
    if (own->part[RESIDUAL] != NULL) {
        FED_TRY(feddc_exchange_restore(w->x, own->part[RESIDUAL], err));
    }
    if (own->part[LOCAL] != NULL) {
        FED_TRY(feddc_worker_up(w, w->local, own->part[LOCAL], w->n, err));
        w->local_ready = true;
    }
    if (own->part[LEFT] != NULL) {
        FED_TRY(feddc_worker_up(w, w->left, own->part[LEFT], w->n, err));
        w->left_empty = false;
    }
    return FED_OK;
}

static const char *take_own(feddc_worker *w, const fed_checkpoint *file) {
    const size_t n[PARTS] = {size_in(file, "optimizer.residual"), size_in(file, "optimizer.local"),
                             size_in(file, "optimizer.gradient")};
    own_values own;
    fed_error err = {0};
    if (n[RESIDUAL] != feddc_exchange_state_size(w->x) ||
        (n[LOCAL] != 0 && (n[LOCAL] != w->n || w->local == NULL)) ||
        (n[LEFT] != 0 && (n[LEFT] != w->n || w->left == NULL)) ||
        make_own(n, &own, &err) != FED_OK) {
        return "its file has other sizes";
    }
    const char *fault = NULL;
    if (fed_checkpoint_read(file, &own.layout, own.values, &err) != FED_OK) {
        fault = "its file is damaged";
    } else if (use_own(w, &own, &err) != FED_OK) {
        fault = "its values could not be copied to the GPU";
    }
    free_own(&own);
    return fault;
}

fed_status feddc_worker_read_own(feddc_worker *w, fed_error *err) {
    if (w->resume == NULL) {
        return FED_OK;
    }
    take_counts(w);
    char path[PATH_SIZE];
    fed_checkpoint *file = NULL;
    fed_error why = {0};
    const bool has_own = feddc_exchange_state_size(w->x) > 0 || w->local != NULL || w->left != NULL;
    FED_TRY(own_path(w, w->resume, path, err));
    const fed_status status = fed_checkpoint_open(path, &file, &why);
    const char *fault = status == FED_ENOTFOUND ? "it has no file of its own"
                        : status != FED_OK      ? "its file cannot be read"
                                                : misfit(w, file);
    if (fault == NULL) {
        fault = take_own(w, file);
    }
    fed_checkpoint_close(file);
    if (fault != NULL && has_own) {
        snprintf(w->remark, sizeof w->remark,
                 "rank %" PRIu32 " begins without the residuals and local weights of the "
                 "checkpoint: %s",
                 w->rank, fault);
    }
    free(w->resume);
    w->resume = NULL;
    w->saves++; /* do not overwrite the file that this checkpoint needs */
    return FED_OK;
}

/* Write the common file. counts: the text of "worker.counts". */
static fed_status write_common(const feddc_worker *w, const char *path, const fed_layout *layout,
                               const float *values, const char *const *notes, const char *counts,
                               fed_error *err) {
    char step[16], walked[24], saves[4], workers[16];
    snprintf(step, sizeof step, "%" PRIu32, w->step);
    snprintf(walked, sizeof walked, "%" PRIu64, feddc_worker_walked(w));
    snprintf(saves, sizeof saves, "%u", w->saves % 2);
    snprintf(workers, sizeof workers, "%" PRIu32, w->workers);
    const char *list[2 * NOTES + 1] = {"worker.step",   step,  "worker.walked", walked,
                                       "worker.saves",  saves, "worker.count",  workers,
                                       "worker.counts", counts};
    size_t count = 10;
    while (notes != NULL && *notes != NULL && count < 2 * NOTES) {
        list[count++] = *notes++;
    }
    return fed_checkpoint_save(path, layout, values, list, err);
}

/* What a rank tells the others when it has written its own file. */
typedef struct written {
    uint64_t failed;
    feddc_worker_tally tally;
} written;

static fed_status has_failed(const feddc_worker *w, const written *all, const char *path,
                             fed_error *err) {
    for (uint32_t r = 0; r < w->workers; r++) {
        if (all[r].failed != 0) {
            return fed_fail(err, FED_EIO,
                            "rank %" PRIu32 " could not write its file of the checkpoint %.200s: "
                            "its own error says why",
                            r, path);
        }
    }
    return FED_OK;
}

fed_status feddc_worker_save(feddc_worker *w, const char *path, const fed_layout *layout,
                             const float *values, const char *const *notes, fed_error *err) {
    feddc_worker_enter(w, FEDDC_SAVING);
    fed_error why = {0};
    fed_writer counts;
    const fed_status own = write_own(w, path, &why);
    const written mine = {.failed = own != FED_OK, .tally = feddc_worker_tally_of(w)};
    written *all = calloc(w->workers, sizeof *all);
    if (all == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory to save a checkpoint");
    }
    fed_writer_growing(&counts);
    fed_status status = feddc_worker_gather(w, &mine, sizeof mine, all, err);
    if (status == FED_OK && own == FED_OK) {
        status = has_failed(w, all, path, err);
    }
    for (uint32_t r = 0; r < w->workers; r++) {
        write_counts(&counts, &all[r].tally);
    }
    fed_write_u8(&counts, 0);
    if (status == FED_OK && own == FED_OK) {
        status = counts.status != FED_OK
                     ? fed_fail(err, counts.status, "out of memory to save a checkpoint")
                 : w->rank == 0
                     ? write_common(w, path, layout, values, notes, (const char *)counts.data, err)
                     : FED_OK;
        w->saves++;
    }
    fed_writer_free(&counts);
    free(all);
    feddc_worker_enter(w, FEDDC_STARTING);
    return own == FED_OK ? status : fed_fail(err, own, "%s", why.text);
}

static bool read_number(const fed_checkpoint *file, const char *key, uint64_t *value) {
    const char *text = fed_checkpoint_note(file, key);
    char *end = NULL;
    errno = 0;
    *value = text != NULL && text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    return end != NULL && *end == '\0' && errno == 0;
}

/* Free it. NULL: no memory, or no text. */
static char *copy_of(const char *text) {
    char *copy = text != NULL ? malloc(strlen(text) + 1) : NULL;
    return copy != NULL ? strcpy(copy, text) : NULL;
}

fed_status feddc_worker_resume(feddc_worker *w, const char *path, const fed_layout *layout,
                               float *values, fed_error *err) {
    fed_checkpoint *file = NULL;
    uint64_t step = 0, walked = 0, saves = 0, workers = 0;
    FED_TRY(fed_checkpoint_open(path, &file, err));
    fed_status status = FED_OK;
    if (!read_number(file, "worker.step", &step) || !read_number(file, "worker.walked", &walked) ||
        !read_number(file, "worker.saves", &saves) || step > UINT32_MAX ||
        !read_number(file, "worker.count", &workers)) {
        status = fed_fail(err, FED_EFORMAT,
                          "%.200s is no checkpoint of a worker group: to begin with its weights "
                          "give them with --init",
                          path);
    }
    if (status == FED_OK) {
        status = fed_checkpoint_read(file, layout, values, err);
    }
    /* that of an earlier release has no counters */
    const char *counts = status == FED_OK ? fed_checkpoint_note(file, "worker.counts") : NULL;
    w->counts = copy_of(counts);
    fed_checkpoint_close(file);
    FED_TRY(status);
    w->resume = copy_of(path);
    if (w->resume == NULL || (counts != NULL && w->counts == NULL)) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the checkpoint's path");
    }
    w->step = w->completed = w->base_step = (uint32_t)step;
    w->walked = walked;
    w->saves = (uint32_t)saves;
    return FED_OK;
}

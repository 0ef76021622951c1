/* A model with small tensors, values, and their envelope. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "envelope_case.h"

#include "fed/rng.h"
#include "fed_test.h"

static void make_layout(fed_layout *layout) {
    fed_layout_init(layout);
    assert_fed_ok(fed_layout_add(layout, "dense1.weight", 2, (uint32_t[]){2, 300}));
    assert_fed_ok(fed_layout_add(layout, "dense1.bias", 1, (uint32_t[]){7}));
    assert_fed_ok(fed_layout_add(layout, "scale", 0, NULL));
    assert_int_equal(layout->size, ENVELOPE_SIZE);
}

void envelope_case_fill(float *x, uint32_t stream) {
    fed_rng rng;
    fed_rng_init(&rng, 1, stream, 0);
    for (size_t i = 0; i < ENVELOPE_SIZE; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
    }
}

void envelope_case_open(envelope_case *f, const char *spec) {
    memset(f, 0, sizeof *f);
    make_layout(&f->layout);
    assert_fed_ok(fedcodec_parse(spec, &f->codec, NULL));
    envelope_case_fill(f->residual, 1);
    envelope_case_fill(f->x, 2);
    for (size_t i = 0; i < ENVELOPE_SIZE; i++) {
        f->sum[i] = f->residual[i] + f->x[i];
    }
    f->work = malloc(fedcodec_envelope_work_size(&f->codec, &f->layout, ENVELOPE_SMALL) + 1);
    assert_non_null(f->work);
    fed_writer_growing(&f->out);
}

void envelope_case_encode(envelope_case *f) {
    assert_fed_ok(fedcodec_envelope_encode(&f->codec, &f->layout, ENVELOPE_SMALL, f->residual, f->x,
                                           f->work, &f->out));
}

void envelope_case_close(envelope_case *f) {
    free(f->work);
    fed_writer_free(&f->out);
    fed_layout_free(&f->layout);
}

void envelope_case_move_apart(envelope_case *f) {
    fed_tensor *t = f->layout.tensors;
    fed_tensor first = t[0];
    t[0] = t[1];
    t[1] = first;
    t[0].offset = 0;
    t[1].offset = t[0].size;
}

void large_case_encode(large_case *l, const char *spec) {
    fed_layout_init(&l->layout);
    assert_fed_ok(fed_layout_add(&l->layout, "dense1.weight", 1, (uint32_t[]){LARGE}));
    assert_fed_ok(fedcodec_parse(spec, &l->codec, NULL));
    l->residual = calloc(LARGE, sizeof *l->residual);
    l->y = calloc(LARGE, sizeof *l->y);
    assert_true(l->residual != NULL && l->y != NULL);
    l->residual[7] = 1.0f;
    l->residual[LARGE / 2] = -1.0f;
    void *work = malloc(fedcodec_envelope_work_size(&l->codec, &l->layout, 0) + 1);
    fed_writer_growing(&l->out);
    assert_fed_ok(
        fedcodec_envelope_encode(&l->codec, &l->layout, 0, l->residual, NULL, work, &l->out));
    free(work);
}

void large_case_close(large_case *l) {
    fed_writer_free(&l->out);
    fed_layout_free(&l->layout);
    free(l->residual);
    free(l->y);
}

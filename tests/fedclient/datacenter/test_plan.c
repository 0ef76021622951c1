/* Plans of an exchange: buckets, shards and slices cover each value once, and end correctly. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fed_cases.h"
#include "fedclient/datacenter/plan.h"

enum { SMALL = 100, BUCKET = 4096 * 4 };

static const size_t tensors[] = {500, 20, 25000, 50, 400000, 7, 500, 5000, 10, 1};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

static size_t size_of_all(void) {
    size_t n = 0;
    for (size_t k = 0; k < TENSORS; k++) {
        n += tensors[k];
    }
    return n;
}

static feddc_plan made(size_t bucket, uint32_t shards) {
    feddc_plan plan;
    assert_int_equal(feddc_plan_make(tensors, TENSORS, SMALL, bucket, shards, &plan, NULL), FED_OK);
    return plan;
}

static void check_slices(const feddc_plan *plan, const feddc_shard *shard) {
    size_t at = shard->offset;
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = &plan->slice[shard->first + k];
        assert_int_equal(slice->offset, at);
        assert_true(slice->n > 0);
        assert_true(slice->plain || slice->n <= FEDDC_SLICE);
        at += slice->n;
    }
    assert_int_equal(at, shard->offset + shard->n);
}

static void check_cover(const feddc_plan *plan) {
    size_t end = plan->n;
    for (uint32_t b = 0; b < plan->buckets; b++) {
        const feddc_bucket *bucket = &plan->bucket[b];
        assert_int_equal(bucket->offset + bucket->n, end);
        assert_true(bucket->n > 0);
        size_t at = bucket->offset;
        for (uint32_t k = 0; k < plan->shards; k++) {
            const feddc_shard *shard = feddc_plan_shard(plan, b, k);
            assert_int_equal(shard->offset, at);
            check_slices(plan, shard);
            at += shard->n;
        }
        assert_int_equal(at, end);
        end = bucket->offset;
    }
    assert_int_equal(end, 0);
}

FED_TEST(each_value_is_in_one_slice) {
    static const size_t buckets[] = {0, 64, 1000, BUCKET, 1 << 24};
    for (size_t k = 0; k < sizeof buckets / sizeof buckets[0]; k++) {
        for (uint32_t shards = 1; shards <= 9; shards++) {
            feddc_plan plan = made(buckets[k], shards);
            assert_int_equal(plan.n, size_of_all());
            check_cover(&plan);
            feddc_plan_free(&plan);
        }
    }
}

FED_TEST(shards_differ_by_less_than_a_cache_line) {
    feddc_plan plan = made(BUCKET, 5);
    for (uint32_t b = 0; b < plan.buckets; b++) {
        size_t least = plan.bucket[b].n, most = 0;
        for (uint32_t k = 0; k < plan.shards; k++) {
            size_t n = feddc_plan_shard(&plan, b, k)->n;
            least = n < least ? n : least;
            most = n > most ? n : most;
        }
        assert_true(most - least < 32);
    }
    feddc_plan_free(&plan);
}

FED_TEST(the_first_bucket_is_the_end_and_the_smallest) {
    feddc_plan plan = made(BUCKET, 2);
    assert_int_equal(plan.bucket[0].offset + plan.bucket[0].n, plan.n);
    for (uint32_t b = 1; b < plan.buckets; b++) {
        assert_true(plan.bucket[b].n > plan.bucket[0].n);
        assert_true(plan.bucket[b].n <= BUCKET / sizeof(float));
    }
    feddc_plan_free(&plan);
}

FED_TEST(small_tensors_are_plain_and_large_ones_are_not) {
    feddc_plan plan = made(BUCKET, 3);
    size_t plain = 0;
    for (size_t k = 0; k < plan.slices; k++) {
        plain += plan.slice[k].plain ? plan.slice[k].n : 0;
    }
    assert_int_equal(plain, 20 + 50 + 7 + 10 + 1);
    feddc_plan_free(&plan);
}

FED_TEST(each_value_finds_its_bucket) {
    feddc_plan plan = made(BUCKET, 2);
    for (size_t value = 0; value < plan.n; value += 97) {
        const feddc_bucket *bucket = &plan.bucket[feddc_plan_bucket_of(&plan, value)];
        assert_true(bucket->offset <= value && value < bucket->offset + bucket->n);
    }
    feddc_plan_free(&plan);
}

FED_TEST(nothing_to_exchange_is_refused) {
    feddc_plan plan;
    fed_error err = {0};
    static const size_t none[] = {0, 0};
    assert_int_equal(feddc_plan_make(none, 2, 0, 0, 4, &plan, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "no values"));
    assert_int_equal(feddc_plan_make(tensors, TENSORS, 0, 8, 4, &plan, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "8 bytes"));
}

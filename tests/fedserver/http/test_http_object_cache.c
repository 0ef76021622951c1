/* The object cache of a follower: what it keeps, and for how long. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedserver/http/http_object_cache.h"

static fedserver_request question(const char *query) {
    return (fedserver_request){
        .listener = FEDSERVER_DEVICES, .method = "GET", .path = "/v1/model", .query = query};
}

static fedserver_response answer(size_t len, const char *etag) {
    fedserver_response made = {.status = 200};
    fed_writer w;
    fed_writer_growing(&w);
    memset(fed_writer_reserve(&w, len), 'x', len);
    fed_writer_advance(&w, len);
    made.body = fedserver_blob_new(&w);
    assert_non_null(made.body);
    snprintf(made.etag, sizeof made.etag, "%s", etag);
    return made;
}

static void put(http_object_cache *object_cache, const fedserver_request *request, size_t len,
                const char *etag) {
    fedserver_response response = answer(len, etag);
    http_object_cache_put(object_cache, request, &response);
    fedserver_blob_free(response.body);
}

/* Check that the cache has a body with the tag `wanted` for the request. NULL: the cache must have
 * none. */
static void assert_kept(http_object_cache *object_cache, const fedserver_request *request,
                        const char *wanted) {
    char etag[HTTP_OBJECT_CACHE_TAG];
    fedserver_blob *body = http_object_cache_find(object_cache, request, etag);
    assert_int_equal(body != NULL, wanted != NULL);
    assert_string_equal(etag, wanted != NULL ? wanted : "");
    fedserver_blob_free(body);
}

FED_TEST(the_same_question_finds_the_last_body) {
    static http_object_cache object_cache;
    fedserver_request q = question("have=1");
    put(&object_cache, &q, 10, "\"a\"");
    assert_kept(&object_cache, &q, "\"a\"");
    put(&object_cache, &q, 20, "\"b\"");
    assert_kept(&object_cache, &q, "\"b\"");
    assert_int_equal(object_cache.bytes, 20);
    q.range = "bytes=0-9";
    assert_kept(&object_cache, &q, NULL);
    q = question("have=2");
    assert_kept(&object_cache, &q, NULL);
    http_object_cache_free(&object_cache);
    assert_int_equal(object_cache.bytes, 0);
}

FED_TEST(what_has_no_strong_tag_or_is_no_get_of_a_device_is_not_kept) {
    static http_object_cache object_cache;
    fedserver_request q = question("");
    put(&object_cache, &q, 10, "W/\"a\"");
    put(&object_cache, &q, 10, "");
    assert_kept(&object_cache, &q, NULL);
    q.method = "POST";
    put(&object_cache, &q, 10, "\"a\"");
    assert_kept(&object_cache, &q, NULL);
    q.method = "GET";
    q.listener = FEDSERVER_FRONT;
    put(&object_cache, &q, 10, "\"a\"");
    assert_kept(&object_cache, &q, NULL);
    q = question("");
    fedserver_response refused = answer(10, "\"a\"");
    refused.status = 404;
    http_object_cache_put(&object_cache, &q, &refused);
    fedserver_blob_free(refused.body);
    put(&object_cache, &q, HTTP_OBJECT_CACHE_BYTES / 4 + 1, "\"a\"");
    assert_kept(&object_cache, &q, NULL);
    assert_int_equal(object_cache.bytes, 0);
}

FED_TEST(what_was_used_longest_ago_makes_room) {
    static http_object_cache object_cache;
    char queries[HTTP_OBJECT_CACHE_ITEMS + 1][16];
    for (unsigned k = 0; k <= HTTP_OBJECT_CACHE_ITEMS; k++) {
        snprintf(queries[k], sizeof queries[k], "have=%u", k);
        if (k == HTTP_OBJECT_CACHE_ITEMS) {
            const fedserver_request used = question(queries[0]);
            assert_kept(&object_cache, &used, "\"a\"");
        }
        const fedserver_request q = question(queries[k]);
        put(&object_cache, &q, 1000, "\"a\"");
    }
    const fedserver_request first = question(queries[0]);
    const fedserver_request second = question(queries[1]);
    const fedserver_request last = question(queries[HTTP_OBJECT_CACHE_ITEMS]);
    assert_kept(&object_cache, &first, "\"a\"");
    assert_kept(&object_cache, &second, NULL);
    assert_kept(&object_cache, &last, "\"a\"");
    for (unsigned k = 0; k < 5; k++) {
        const fedserver_request q = question(queries[k]);
        put(&object_cache, &q, HTTP_OBJECT_CACHE_BYTES / 4, "\"b\"");
        assert_true(object_cache.bytes <= HTTP_OBJECT_CACHE_BYTES);
    }
    assert_kept(&object_cache, &first, NULL);
    const fedserver_request fifth = question(queries[4]);
    assert_kept(&object_cache, &fifth, "\"b\"");
    http_object_cache_free(&object_cache);
    assert_int_equal(object_cache.bytes, 0);
}

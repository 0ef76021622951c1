/* Byte arrays that several holders share, and slices of them that keep the whole array alive. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedserver/versions/blob.h"

static fedserver_blob *blob_of(const char *text) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_bytes(&w, text, strlen(text));
    fedserver_blob *blob = fedserver_blob_new(&w);
    assert_non_null(blob);
    assert_int_equal(w.len, 0); /* the blob has taken over the writer's memory */
    return blob;
}

FED_TEST(a_share_outlives_the_first_holder) {
    fedserver_blob *blob = blob_of("model");
    fedserver_blob *share = fedserver_blob_share(blob);
    fedserver_blob_free(blob);
    size_t len;
    assert_memory_equal(fedserver_blob_data(share, &len), "model", 5);
    assert_int_equal(len, 5);
    fedserver_blob_free(share);
}

FED_TEST(a_slice_keeps_the_whole_alive_without_a_copy) {
    fedserver_blob *blob = blob_of("one two three");
    size_t len;
    const uint8_t *data = fedserver_blob_data(blob, &len);
    fedserver_blob *part = fedserver_blob_slice(blob, 4, 3);
    fedserver_blob *nothing = fedserver_blob_slice(blob, 13, 0);
    fedserver_blob_free(blob);
    assert_ptr_equal(fedserver_blob_data(part, &len), data + 4);
    assert_int_equal(len, 3);
    assert_memory_equal(data + 4, "two", 3);
    (void)fedserver_blob_data(nothing, &len);
    assert_int_equal(len, 0);
    fedserver_blob_free(part);
    fedserver_blob_free(nothing);
}

FED_TEST(a_failed_writer_makes_no_blob) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_u8(&w, 1);
    w.status = FED_ENOMEM;
    assert_null(fedserver_blob_new(&w));
    fedserver_blob_free(NULL);
}

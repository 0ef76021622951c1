/* Uploads: up to which size an update is sent as one. */
#include "fed_device.h"
#include "fed_test.h"

/** How many pieces a whole task takes, with float32 updates of some hundred bytes. */
static uint64_t pieces_of_a_task(uint32_t whole_bytes) {
    fed_device device;
    fed_device_open(&device, "float32", 3);
    device.options.piece_bytes = 24;
    device.options.whole_bytes = whole_bytes;
    fed_device_restart(&device);
    fed_device_finish(&device, 8);
    assert_int_equal(device.fake.version, 3);
    const uint64_t pieces = device.fake.pieces;
    fed_device_check(&device, 0);
    fed_device_close(&device);
    return pieces;
}

static void an_update_over_the_size_of_a_piece_travels_in_pieces(void **state) {
    (void)state;
    assert_true(pieces_of_a_task(0) > 3);
    assert_int_equal(pieces_of_a_task(25), pieces_of_a_task(0));
}

static void an_update_that_may_go_as_one_does(void **state) {
    (void)state;
    assert_int_equal(pieces_of_a_task(4096), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_over_the_size_of_a_piece_travels_in_pieces),
        cmocka_unit_test(an_update_that_may_go_as_one_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

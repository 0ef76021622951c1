/* Where a frame's headers are: found in correct frames, refused in others, changed correctly. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fedclient/datacenter/nic/packet/headers.h"
#include "nic_frames.h"

enum { PAYLOAD = 20 };

static uint8_t memory[FRAME_ROOM];
static const uint8_t payload[PAYLOAD] = {1, 2, 3};

FED_TEST(a_segment_is_found_in_whole_frames_only) {
    for (unsigned k = 0; k < 24; k++) {
        nic_shape shape = {.family = k % 2 == 0 ? 4 : 6,
                           .vlans = (uint8_t)(k / 2 % 3),
                           .ip_words = (uint8_t)(k % 2 == 0 ? k / 6 * 3 : 0),
                           .padding = (uint16_t)(k % 5),
                           .tos = 0xa7,
                           .seq = 0x89abcdef,
                           .ack = 0xfedcba98,
                           .flags = SEG_ACK | SEG_PSH};
        fednic_frame frame = nic_frame(&shape, payload, PAYLOAD, memory);
        fednic_segment s;
        nic_parts p;
        assert_true(nic_frame_read(&frame, 6, &p));
        assert_true(fednic_segment_find(frame.data, frame.len, &s));
        assert_true(s.ip == p.ip && s.tcp == p.tcp && s.payload == p.payload);
        assert_true(s.payload_len == PAYLOAD && s.family == shape.family && s.whole);
        assert_true(s.tos == 0xa7 && s.seq == shape.seq && s.ack == shape.ack);
        assert_int_equal(s.flags, shape.flags);
        for (size_t len = 0; len < frame.len - shape.padding; len++) {
            uint8_t *copy = malloc(len + 1); /* not 0 bytes: malloc(0) may give NULL */
            memcpy(copy, frame.data, len);
            assert_false(fednic_segment_find(copy, len, &s));
            free(copy);
        }
    }
}

/* Change one byte of a frame. Returns whether its headers are still found. */
static bool found_with(const nic_shape *shape, size_t at, uint8_t value) {
    fednic_segment s;
    fednic_frame frame = nic_frame(shape, payload, PAYLOAD, memory);
    memory[at] = value;
    return fednic_segment_find(frame.data, frame.len, &s);
}

FED_TEST(what_the_nic_does_not_understand_is_refused) {
    const nic_shape four = {.family = 4}, six = {.family = 6}, tags = {.family = 4, .vlans = 2};
    assert_true(found_with(&four, 14, 0x45));
    const uint8_t wrong4[][2] = {{12, 9},    {13, 6},    {14, 0x44}, {14, 0x65}, {14, 0x4f},
                                 {20, 0x20}, {21, 1},    {23, 17},   {16, 1},    {17, 39},
                                 {46, 0x40}, {46, 0xf0}, {17, 19}};
    for (size_t k = 0; k < sizeof wrong4 / sizeof wrong4[0]; k++) {
        assert_false(found_with(&four, wrong4[k][0], wrong4[k][1]));
    }
    const uint8_t wrong6[][2] = {{14, 0x40}, {20, 0}, {20, 44}, {18, 1}, {19, 19}};
    for (size_t k = 0; k < sizeof wrong6 / sizeof wrong6[0]; k++) {
        assert_false(found_with(&six, wrong6[k][0], wrong6[k][1]));
    }
    assert_true(found_with(&tags, 12, 0x88));
    assert_false(found_with(&tags, 20, 0x81)); /* a third VLAN tag */
}

FED_TEST(changed_headers_have_right_checksums) {
    for (unsigned k = 0; k < 512; k++) {
        nic_shape shape = {.family = k % 2 == 0 ? 4 : 6, .tos = (uint8_t)k, .id = 65535};
        fednic_frame frame = nic_frame(&shape, payload, PAYLOAD, memory);
        fednic_segment s;
        nic_parts p;
        assert_true(fednic_segment_find(frame.data, frame.len, &s));
        fednic_ip_change(memory, &s, 20 + PAYLOAD - 3, (uint8_t)(k * 7), 2);
        uint16_t sum = fednic_pseudo_sum(memory, &s, 6, 20 + PAYLOAD - 3);
        fednic_put16(memory + s.tcp + 16, sum);
        frame.offload = (fednic_offload){
            .flags = FRAME_NEEDS_CSUM, .csum_start = (uint16_t)s.tcp, .csum_offset = 16};
        assert_true(nic_frame_read(&frame, 6, &p));
        assert_int_equal(p.tos, (uint8_t)(k * 7));
        assert_int_equal(p.payload_len, PAYLOAD - 3);
        assert_int_equal(p.id, k % 2 == 0 ? 1 : 0);
    }
}

static fednic_tcp_options options_of(const uint8_t *options, uint8_t words) {
    nic_shape shape = {.family = 4, .options = options, .option_words = words};
    fednic_frame frame = nic_frame(&shape, NULL, 0, memory);
    fednic_segment s;
    assert_true(fednic_segment_find(frame.data, frame.len, &s));
    return fednic_tcp_options_of(memory, &s);
}

FED_TEST(options_are_read_to_their_end) {
    const uint8_t nic[] = {1, 1, 2, 4, 5, 180, 253, 4, 0xfe, 0xd1, 0, 0};
    const uint8_t hidden[] = {2, 4, 5, 180, 0, 0, 0, 0, 253, 4, 0xfe, 0xd1};
    const uint8_t other[] = {253, 4, 0xfe, 0xd2, 253, 6, 0xfe, 0xd1, 0, 0, 1, 1};
    const uint8_t md5[] = {19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const uint8_t mptcp[] = {30, 4, 0, 0}, cut[] = {1, 1, 2, 4}, zero[] = {8, 0, 1, 1},
                  last[] = {1, 1, 1, 8};
    assert_true(options_of(nic, 3).sound && options_of(nic, 3).nic);
    assert_true(options_of(hidden, 3).sound && !options_of(hidden, 3).nic);
    assert_true(options_of(other, 3).sound && !options_of(other, 3).nic);
    assert_true(options_of(md5, 5).refuses && options_of(mptcp, 1).refuses);
    assert_false(options_of(nic, 3).refuses);
    assert_false(options_of(cut, 1).sound || options_of(zero, 1).sound ||
                 options_of(last, 1).sound);
}

/* Golden frames, vectors/nic: what two cards make of them. nic.py made them. Files never change:
 * a card must read what an older card sends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/file.h"
#include "fed_cases.h"
#include "nic_frames.h"

enum { ISN = 1000, PEER_ISN = 77, MTU = 9000, TEXT = 1 << 16 };

typedef struct hex_file {
    uint8_t data[TEXT / 3];
    size_t len;
} hex_file;

static char *read_text(const char *name, const char *kind) {
    char path[1024];
    uint8_t *text = NULL;
    size_t len;
    snprintf(path, sizeof path, "%s/tests/vectors/nic/%s%s", FED_SOURCE_DIR, name, kind);
    assert_fed_ok(fed_file_read(path, TEXT, &text, &len, NULL));
    return (char *)text;
}

static void read_frame(const char *name, const char *kind, hex_file *frame) {
    char *text = read_text(name, kind), *rest = NULL;
    frame->len = 0;
    for (char *word = strtok_r(text, " \n", &rest); word != NULL;
         word = strtok_r(NULL, " \n", &rest)) {
        assert_true(frame->len < sizeof frame->data);
        frame->data[frame->len++] = (uint8_t)strtoul(word, NULL, 16);
    }
    free(text);
}

static uint8_t memory[FRAME_ROOM];

/* Let the connection's SYN and its answer pass the card, so that the card will compress. */
static void agree(fednic_nic *card, nic_shape shape) {
    static const uint8_t option[] = {253, 4, 0xfe, 0xd1};
    nic_heap *heap = nic_heap_new();
    shape.tos = 0x28;
    shape.flags = SEG_SYN;
    shape.seq = ISN;
    fednic_frame syn = nic_frame(&shape, NULL, 0, memory);
    fednic_nic_take(card, FEDNIC_HOST, &syn, 0, nic_heap_keep, heap);
    assert_int_equal(heap->frame[0].len, syn.len + sizeof option);
    shape.backwards = true;
    shape.flags = SEG_SYN | SEG_ACK;
    shape.seq = PEER_ISN;
    shape.ack = ISN + 1;
    shape.options = option;
    shape.option_words = 1;
    fednic_frame answer = nic_frame(&shape, NULL, 0, memory);
    fednic_nic_take(card, FEDNIC_WIRE, &answer, 0, nic_heap_keep, heap);
    nic_heap_free(heap);
}

static void assert_becomes(fednic_nic *card, fednic_side side, const char *name, const char *from,
                           const char *to) {
    static hex_file given, wanted;
    nic_heap *heap = nic_heap_new();
    read_frame(name, from, &given);
    read_frame(name, to, &wanted);
    fednic_frame frame = {.data = given.data, .len = given.len};
    fednic_nic_take(card, side, &frame, 0, nic_heap_keep, heap);
    assert_int_equal(heap->count, 1);
    fednic_frame out = nic_frame_completed(&heap->frame[0], memory);
    if (out.len != wanted.len || memcmp(out.data, wanted.data, wanted.len) != 0) {
        fail_msg("%s: %s does not become %s", name, from, to);
    }
    nic_heap_free(heap);
}

FED_TEST(two_nics_do_what_the_document_says) {
    char *text = read_text("cases", ""), *rest = NULL;
    size_t count = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char name[32], *end = strchr(line, ' ');
        assert_true(end != NULL && end - line < (ptrdiff_t)sizeof name);
        snprintf(name, sizeof name, "%.*s", (int)(end - line), line);
        fednic_nic_options options = {.e = (int)strtol(end, &end, 10), .mtu = MTU};
        nic_shape shape = {.family = (uint8_t)strtol(end, &end, 10)};
        shape.vlans = (uint8_t)strtol(end, &end, 10);
        shape.ip_words = (uint8_t)strtol(end, &end, 10);
        shape.port = (uint16_t)(strtol(end, &end, 10) - 40000);
        fednic_nic *near = NULL, *far = NULL;
        assert_fed_ok(fednic_nic_new(&options, &near, NULL));
        options.e = 10;
        assert_fed_ok(fednic_nic_new(&options, &far, NULL));
        agree(near, shape);
        assert_becomes(near, FEDNIC_HOST, name, ".host", ".wire");
        assert_becomes(far, FEDNIC_WIRE, name, ".wire", ".peer");
        fednic_nic_free(near);
        fednic_nic_free(far);
        count++;
    }
    assert_true(count >= 17);
    free(text);
}

/* A made-up data set in MNIST's file format. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_digits.h"

#include "fed/rng.h"
#include "fed_test.h"

enum { SIDE = 28, BLOCK = 7, CLASSES = 10 };

static void write_u32(FILE *file, uint32_t v) {
    uint8_t big_endian[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    fwrite(big_endian, 1, sizeof big_endian, file);
}

static void draw(fed_rng *rng, uint32_t class, uint8_t *pixel) {
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        pixel[i] = (uint8_t)fed_rng_below(rng, 64);
    }
    size_t top = class / 4 * BLOCK, left = class % 4 * BLOCK;
    for (size_t y = top; y < top + BLOCK; y++) {
        for (size_t x = left; x < left + BLOCK; x++) {
            pixel[y * SIDE + x] = (uint8_t)(150 + fed_rng_below(rng, 100));
        }
    }
}

static FILE *create(const char *directory, const char *part, const char *kind) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s-%s", directory, part, kind);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    return file;
}

static void write_part(const char *directory, const char *part, uint32_t count) {
    FILE *images = create(directory, part, "images-idx3-ubyte");
    FILE *labels = create(directory, part, "labels-idx1-ubyte");
    write_u32(images, 0x803);
    write_u32(images, count);
    write_u32(images, SIDE);
    write_u32(images, SIDE);
    write_u32(labels, 0x801);
    write_u32(labels, count);
    fed_rng rng;
    fed_rng_init(&rng, 20261121, count, 0);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t pixel[SIDE * SIDE], label = (uint8_t)(i % CLASSES);
        draw(&rng, label, pixel);
        fwrite(pixel, 1, sizeof pixel, images);
        fwrite(&label, 1, 1, labels);
    }
    assert_int_equal(fclose(images), 0);
    assert_int_equal(fclose(labels), 0);
}

void fed_digits_write(const char *directory, size_t train, size_t test) {
    write_part(directory, "train", (uint32_t)train);
    write_part(directory, "t10k", (uint32_t)test);
}

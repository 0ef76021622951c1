/* The JSON header of a safetensors file: the position of each tensor in the bytes after it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_SAFETENSORS_H
#define FED_SAFETENSORS_H

#include "common/arch/arch_names.h"
#include "fed/arch.h"
#include "fed/bytes.h"
#include "fed/error.h"
#include "fed/model.h"

/* The most tensors of a header, and its most bytes. A checkpoint may have an optimizer's state and
 * counters beside a model's tensors. */
enum { FED_SAFETENSORS_TENSORS = 4 * FED_ARCH_TENSORS, FED_SAFETENSORS_HEADER = 1 << 26 };

/** Append the header of a layout whose values lie end to end, padded with blanks to a multiple of 8
 * bytes. metadata: as in fed_checkpoint_save. */
void fed_safetensors_header_write(fed_writer *w, const fed_layout *layout,
                                  const char *const *metadata);

/** The type of a tensor's elements. F32, F16 and BF16 can be read as floats, other types can't. */
typedef enum fed_safetensors_type {
    FED_SAFETENSORS_F32 = 0,
    FED_SAFETENSORS_F16,
    FED_SAFETENSORS_BF16,
    FED_SAFETENSORS_OTHER
} fed_safetensors_type;

typedef struct fed_safetensors_place {
    fed_safetensors_type type;
    const char *word; /* the tensor's dtype, such as "I64" */
    uint64_t begin;   /* offset of the tensor's data after the header */
} fed_safetensors_place;

typedef struct fed_safetensors {
    fed_layout layout; /* names and shapes, in the order of the tensors' data */
    arch_names names;  /* of the layout */
    fed_safetensors_place *places;
    fed_writer notes; /* metadata in printable ASCII: key, NUL, value, NUL ... */
} fed_safetensors;

/**
 * Read a header. It must be strict JSON, with tensor names of printable ASCII, only keys that the
 * format knows, no key twice, and data offsets that cover data_bytes exactly once. Errors:
 * FED_EFORMAT (*err has the argument name, the byte's position and what is wrong); FED_ENOMEM.
 * Owner: the caller, fed_safetensors_free.
 */
fed_status fed_safetensors_parse(const char *name, const uint8_t *text, size_t len,
                                 uint64_t data_bytes, fed_safetensors *header,
                                 fed_error *err) FED_CHECKED;
void fed_safetensors_free(fed_safetensors *header);

/** Return the metadata's value of a key, or NULL. It is valid as long as the header. */
const char *fed_safetensors_note(const fed_safetensors *header, const char *key);

#endif

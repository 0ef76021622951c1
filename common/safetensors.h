/* The JSON header of a safetensors file: which tensors lie where in the bytes behind it. */
#ifndef FED_SAFETENSORS_H
#define FED_SAFETENSORS_H

#include "fed/bytes.h"
#include "fed/error.h"
#include "fed/model.h"

/* Limits of what is read: tensors, and bytes of a header. */
enum { FED_SAFETENSORS_TENSORS = 4096, FED_SAFETENSORS_HEADER = 1 << 22 };

/** Append the header of a layout whose values lie one behind the other, padded with blanks to a
 * multiple of 8 bytes. metadata: as in fed_checkpoint_save. */
void fed_safetensors_header_write(fed_writer *w, const fed_layout *layout,
                                  const char *const *metadata);

/**
 * Read a header: strict JSON, F32 tensors with names of printable ASCII only, no key that the
 * format does not know, no key twice, and data offsets that cover data_bytes exactly once. The
 * layout has the tensors in the order of their data. Errors: FED_EFORMAT with `name`, the byte and
 * what is wrong; FED_ENOMEM. Owner: the caller, fed_layout_free.
 */
fed_status fed_safetensors_header_parse(const char *name, const uint8_t *text, size_t len,
                                        uint64_t data_bytes, fed_layout *layout,
                                        fed_error *err) FED_CHECKED;

#endif

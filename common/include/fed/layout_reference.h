/* How a task names a model's text that is too long for the task. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LAYOUT_REFERENCE_H
#define FED_LAYOUT_REFERENCE_H

#include "fed/api.h"
#include "fed/arch.h"
#include "fed/hash.h"

FED_API_BEGIN

/*
 * A model of many tensors has a text that a task can't hold. Such a text is an object of its own,
 * the model's layout. The coordinator keeps it beside the task, and a device fetches it once. In
 * place of the text the task holds a reference, which is a text, too:
 *
 *     layout 148 tensors 124439808 values sha256 9f86d081884c7d659a2feaa0c55ad015...
 *
 * The digest is that of the layout's bytes: the text without comments, with single blanks, and
 * without a NUL. So whoever has the reference can tell whether bytes are the layout. The two
 * numbers let a device refuse a model that is too large before it fetches anything.
 */
typedef struct fed_layout_reference {
    uint32_t tensors; /* 1 to FED_ARCH_TENSORS */
    uint64_t values;  /* 1 to 2^31: the sum of the tensors' sizes */
    uint8_t sha256[FED_SHA256_SIZE];
} fed_layout_reference;

/** Does a task's `model` name a layout? Then it begins with the word "layout". */
bool fed_layout_is_reference(const char *model);

/** Read a reference. FED_EFORMAT: the text is none, or not the one that fed_layout_name writes. */
fed_status fed_layout_reference_read(const char *model, fed_layout_reference *reference,
                                     fed_error *err) FED_CHECKED;

/** Write what a task says of a model: its text, or a reference to it. A reference also stands for a
 * text with a name of more than 63 characters, which devices of release 0.2.0 refuse. */
void fed_layout_name(const fed_arch *arch, char model[FED_ARCH_TEXT]);

/**
 * Make a task's model. model: the task's text. Where that is a reference, layout[len] must be the
 * bytes that it names; else `layout` is not read, and may be NULL. Errors: FED_EFORMAT, also if the
 * bytes do not have the digest, or another number of tensors or values; those of fed_arch_parse.
 */
fed_status fed_layout_resolve(const char *model, const void *layout, size_t len, fed_arch *arch,
                              fed_error *err) FED_CHECKED;

FED_API_END

#endif

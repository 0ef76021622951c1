/* Inside libfedjni.so: what the files of the Java binding share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDJNI_H
#define FEDJNI_H

#include <jni.h>

#include "fed/error.h"

/*
 * No function here keeps anything between two calls from Java but in a client's handle. So clients
 * in several threads and class loaders do not meet.
 *
 * JNI's texts are not UTF-8, and a machine that checks its callers ends at bytes that are not what
 * JNI expects. So all texts cross as byte arrays.
 */

/** Throw fed.FedException with the error's sentence. */
void fedjni_throw(JNIEnv *env, const fed_error *err);

/** Throw OutOfMemoryError. */
void fedjni_throw_no_memory(JNIEnv *env);

/** A text as a new byte array. NULL: the text is NULL, or an exception is pending. */
jbyteArray fedjni_bytes(JNIEnv *env, const char *text);

/** A byte array as a text that the caller frees. NULL: the array is NULL, or an exception is
 * pending. */
char *fedjni_text(JNIEnv *env, jbyteArray bytes);

#endif

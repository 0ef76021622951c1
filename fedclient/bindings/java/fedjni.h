/* Inside libfedjni.so: functions that the files of the Java binding share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDJNI_H
#define FEDJNI_H

#include <jni.h>

#include "fed/error.h"

/*
 * Only a client's handle keeps data from one call to the next, so clients in several threads and
 * class loaders do not affect each other.
 *
 * JNI's own strings are not UTF-8, and a Java machine with JNI checks aborts at other bytes. So
 * all texts travel between Java and C as byte arrays in UTF-8.
 */

void fedjni_throw(JNIEnv *env, const fed_error *err);

void fedjni_throw_no_memory(JNIEnv *env);

/** A text as a new byte array. NULL: the text is NULL, or an exception is pending. */
jbyteArray fedjni_bytes(JNIEnv *env, const char *text);

/** A byte array as a text that the caller frees. NULL: the array is NULL, or an exception is
 * pending. */
char *fedjni_text(JNIEnv *env, jbyteArray bytes);

#endif

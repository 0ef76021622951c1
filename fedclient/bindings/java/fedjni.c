/* Converts texts, and throws exceptions, for the Java binding. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/bindings/java/fedjni.h"

#include <stdlib.h>
#include <string.h>

void fedjni_throw(JNIEnv *env, const fed_error *err) {
    jclass type = (*env)->FindClass(env, "fed/FedException");
    jmethodID make = type != NULL ? (*env)->GetMethodID(env, type, "<init>", "(I[B)V") : NULL;
    jbyteArray text = make != NULL ? fedjni_bytes(env, fed_error_text(err)) : NULL;
    if (text == NULL) {
        return; /* a Java exception is pending already */
    }
    jthrowable failure = (*env)->NewObject(env, type, make, (jint)err->status, text);
    if (failure != NULL) {
        (*env)->Throw(env, failure);
    }
}

void fedjni_throw_no_memory(JNIEnv *env) {
    jclass type = (*env)->FindClass(env, "java/lang/OutOfMemoryError");
    if (type != NULL) {
        (*env)->ThrowNew(env, type, "the federated learning library is out of memory");
    }
}

jbyteArray fedjni_bytes(JNIEnv *env, const char *text) {
    if (text == NULL) {
        return NULL;
    }
    const jsize len = (jsize)strlen(text);
    jbyteArray bytes = (*env)->NewByteArray(env, len);
    if (bytes != NULL) {
        (*env)->SetByteArrayRegion(env, bytes, 0, len, (const jbyte *)text);
    }
    return bytes;
}

char *fedjni_text(JNIEnv *env, jbyteArray bytes) {
    if (bytes == NULL) {
        return NULL;
    }
    const jsize len = (*env)->GetArrayLength(env, bytes);
    char *text = malloc((size_t)len + 1);
    if (text == NULL) {
        fedjni_throw_no_memory(env);
        return NULL;
    }
    (*env)->GetByteArrayRegion(env, bytes, 0, len, (jbyte *)text);
    text[len] = '\0';
    return text;
}

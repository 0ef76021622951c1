/* The codecs for Java: the native functions of fed.Codecs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>

#include "fedclient/bindings/java/fedjni.h"
#include "fedcodec/array.h"
#include "fedcodec/codec.h"

/** Set *values to the value at a position of a direct FloatBuffer, which fed.Codecs has checked. If
 * buffer is NULL, *values stays as it is. */
static fed_status values_of(JNIEnv *env, jobject buffer, jint position, float **values,
                            fed_error *err) {
    if (buffer == NULL) {
        return FED_OK;
    }
    float *first = (*env)->GetDirectBufferAddress(env, buffer);
    if (first == NULL) {
        return fed_fail(
            err, FED_EINVAL,
            "this Java machine gives no address of direct buffers, which the codecs need");
    }
    *values = first + position;
    return FED_OK;
}

static void end_call(JNIEnv *env, fed_status status, fed_error *err) {
    if (status != FED_OK) {
        err->status = status;
        fedjni_throw(env, err);
    }
}

JNIEXPORT jbyteArray JNICALL Java_fed_Native_codecName(JNIEnv *env, jclass type, jint k) {
    (void)type;
    const fedcodec_vtable *codec = fedcodec_at((size_t)k);
    return codec != NULL ? fedjni_bytes(env, fedcodec_name(codec)) : NULL;
}

static jbyteArray message_of(JNIEnv *env, const fed_writer *out) {
    if (out->len > INT32_MAX) {
        fedjni_throw(
            env,
            &(fed_error){
                FED_ERANGE,
                "the message is longer than a Java array can be: encode fewer values at once"});
        return NULL;
    }
    jbyteArray message = (*env)->NewByteArray(env, (jsize)out->len);
    if (message != NULL) {
        (*env)->SetByteArrayRegion(env, message, 0, (jsize)out->len, (const jbyte *)out->data);
    }
    return message;
}

JNIEXPORT jbyteArray JNICALL Java_fed_Native_encode(JNIEnv *env, jclass type, jbyteArray spec,
                                                    jobject x, jint position, jint count,
                                                    jobject residual, jint residual_position) {
    (void)type;
    fed_error err = {0};
    float *values = NULL, *owed = NULL;
    fed_writer out;
    fed_status status = values_of(env, x, position, &values, &err);
    if (status == FED_OK) {
        status = values_of(env, residual, residual_position, &owed, &err);
    }
    char *text = status == FED_OK ? fedjni_text(env, spec) : NULL;
    fed_writer_growing(&out);
    if (text != NULL) {
        status = fedcodec_array_encode(text, values, (size_t)count, owed, &out, &err);
    }
    jbyteArray message = text != NULL && status == FED_OK ? message_of(env, &out) : NULL;
    end_call(env, status, &err);
    fed_writer_free(&out);
    free(text);
    return message;
}

/** Borrow a message's bytes; the caller releases them. NULL: an exception is pending. */
static jbyte *borrow(JNIEnv *env, jbyteArray message, size_t *len) {
    *len = (size_t)(*env)->GetArrayLength(env, message);
    return (*env)->GetByteArrayElements(env, message, NULL);
}

JNIEXPORT jlong JNICALL Java_fed_Native_count(JNIEnv *env, jclass type, jbyteArray message) {
    (void)type;
    fed_error err = {0};
    size_t n = 0, len = 0;
    jbyte *bytes = borrow(env, message, &len);
    if (bytes == NULL) {
        return 0;
    }
    const fed_status status = fedcodec_array_count((const uint8_t *)bytes, len, &n, &err);
    (*env)->ReleaseByteArrayElements(env, message, bytes, JNI_ABORT);
    end_call(env, status, &err);
    return (jlong)n;
}

static fed_status read_message(const jbyte *bytes, size_t len, bool add, float weight, float *y,
                               size_t n, fed_error *err) {
    const uint8_t *message = (const uint8_t *)bytes;
    return add ? fedcodec_array_add(message, len, weight, y, n, err)
               : fedcodec_array_decode(message, len, y, n, err);
}

JNIEXPORT void JNICALL Java_fed_Native_decode(JNIEnv *env, jclass type, jbyteArray message,
                                              jboolean add, jfloat weight, jobject y, jint position,
                                              jint count) {
    (void)type;
    fed_error err = {0};
    size_t len = 0;
    float *values = NULL;
    fed_status status = values_of(env, y, position, &values, &err);
    jbyte *bytes = status == FED_OK ? borrow(env, message, &len) : NULL;
    if (bytes != NULL) {
        status = read_message(bytes, len, add == JNI_TRUE, weight, values, (size_t)count, &err);
        (*env)->ReleaseByteArrayElements(env, message, bytes, JNI_ABORT);
    }
    end_call(env, status, &err);
}

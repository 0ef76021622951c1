/* A round for Java: the task's texts and numbers, the tensors, and the result. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/bindings/java/fedjni_round.h"

#include "fedclient/bindings/java/fedjni.h"

/** Make an array of `count` arrays. type: their Java type, "[B" or "[I". */
static jobjectArray new_arrays(JNIEnv *env, size_t count, const char *type) {
    jclass element = (*env)->FindClass(env, type);
    if (element == NULL) {
        return NULL;
    }
    jobjectArray array = (*env)->NewObjectArray(env, (jsize)count, element, NULL);
    (*env)->DeleteLocalRef(env, element);
    return array;
}

/** Set array[k] to element, a local reference that is deleted. False: an exception is pending. */
static bool put(JNIEnv *env, jobjectArray array, size_t k, jobject element) {
    if (element == NULL) {
        return false;
    }
    (*env)->SetObjectArrayElement(env, array, (jsize)k, element);
    (*env)->DeleteLocalRef(env, element);
    return !(*env)->ExceptionCheck(env);
}

static jobjectArray texts_of(JNIEnv *env, const fedclient_round *round) {
    /* the model's text, which the task itself may only name */
    const char *const texts[] = {round->arch->text, round->task->optimizer, round->task->app};
    jobjectArray array = new_arrays(env, sizeof texts / sizeof texts[0], "[B");
    for (size_t k = 0; array != NULL && k < sizeof texts / sizeof texts[0]; k++) {
        if (!put(env, array, k, fedjni_bytes(env, texts[k]))) {
            return NULL;
        }
    }
    return array;
}

/* Behind the numbers is one for each tensor: 1 where it is in a private layer. */
static jlongArray numbers_of(JNIEnv *env, const fedclient_round *round) {
    const fed_task *task = round->task;
    const jlong all[] = {round->round,      round->version,  task->local_steps, task->batch,
                         (jlong)task->seed, (jlong)task->id, round->slot,       round->own_is_new};
    const jsize first = sizeof all / sizeof all[0], count = (jsize)round->arch->layout.count;
    jlongArray array = (*env)->NewLongArray(env, first + count);
    if (array == NULL) {
        return NULL;
    }
    (*env)->SetLongArrayRegion(env, array, 0, first, all);
    for (jsize k = 0; k < count && task->private_layers[0] != '\0'; k++) {
        const jlong stays = fedclient_round_stays(round, (size_t)k);
        (*env)->SetLongArrayRegion(env, array, first + k, 1, &stays);
    }
    return array;
}

static jintArray shape_of(JNIEnv *env, const fed_tensor *tensor) {
    jintArray shape = (*env)->NewIntArray(env, (jsize)tensor->rank);
    for (uint32_t k = 0; shape != NULL && k < tensor->rank; k++) {
        const jint extent = (jint)tensor->dims[k];
        (*env)->SetIntArrayRegion(env, shape, (jsize)k, 1, &extent);
    }
    return shape;
}

bool fedjni_round_report(JNIEnv *env, const fedclient_round *round, fedjni_round *told) {
    const fed_layout *layout = &round->arch->layout;
    told->texts = texts_of(env, round);
    told->numbers = told->texts != NULL ? numbers_of(env, round) : NULL;
    told->names = told->numbers != NULL ? new_arrays(env, layout->count, "[B") : NULL;
    told->shapes = told->names != NULL ? new_arrays(env, layout->count, "[I") : NULL;
    for (size_t k = 0; told->shapes != NULL && k < layout->count; k++) {
        const fed_tensor *tensor = &layout->tensors[k];
        if (!put(env, told->names, k, fedjni_bytes(env, tensor->name)) ||
            !put(env, told->shapes, k, shape_of(env, tensor))) {
            return false;
        }
    }
    return told->shapes != NULL;
}

void fedjni_round_free(JNIEnv *env, fedjni_round *told) {
    (*env)->DeleteLocalRef(env, told->texts);
    (*env)->DeleteLocalRef(env, told->numbers);
    (*env)->DeleteLocalRef(env, told->names);
    (*env)->DeleteLocalRef(env, told->shapes);
}

static fedclient_round *round_of(jlong address) {
    return (fedclient_round *)(intptr_t)address;
}

JNIEXPORT jlong JNICALL Java_fed_Native_roundLeft(JNIEnv *env, jclass type, jlong round) {
    (void)env;
    (void)type;
    return fedclient_round_left_ms(round_of(round));
}

JNIEXPORT void JNICALL Java_fed_Native_roundResult(JNIEnv *env, jclass type, jlong round,
                                                   jlong samples, jfloat loss, jint correct) {
    (void)env;
    (void)type;
    round_of(round)->samples = (uint32_t)samples;
    round_of(round)->loss = loss;
    round_of(round)->correct = (uint32_t)correct;
}

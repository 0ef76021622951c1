/* A client for Java: the native functions of fed.Client, and the calls of its callbacks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fed/point.h"
#include "fed/privacy.h"
#include "fedclient/app.h"
#include "fedclient/bindings/java/fedjni.h"
#include "fedclient/bindings/java/fedjni_round.h"

/* The texts in the array that Native.open gets, in their order. */
enum { SERVER, CA, STATE, NAME, SOFTWARE, COMPUTES_ON, HELPER, TEXTS };

/** A client's handle. The library calls back on the calling thread, within the call. So the call's
 * JNIEnv and Client, which callbacks use, are kept during the call only. */
typedef struct fedjni_client {
    fedclient_app *app;
    fed_log log;
    fed_points helper; /* the keys of the helper that the device trusts */
    JNIEnv *env;
    jobject self;
    jthrowable failure;   /* the first exception of a callback, a global reference, or NULL */
    const uint8_t *block; /* the memory that Client.onRoom gave to the running callback */
} fedjni_client;

/** The JNIEnv and the Client object of the Java call that is running. */
typedef struct seat {
    JNIEnv *env;
    jobject self;
} seat;

/** Begin a call from Java. Calls may nest, such as round.wanted() within step(). Returns the outer
 * call, which must be restored at the end. */
static seat sit(fedjni_client *c, JNIEnv *env, jobject self) {
    const seat outer = {c->env, c->self};
    c->env = env;
    c->self = self;
    return outer;
}

static void leave(fedjni_client *c, seat outer) {
    c->env = outer.env;
    c->self = outer.self;
}

/** Did the call into Java throw an exception? The first one is kept, and end_call throws it.
 * Until then the library goes on, and may call back again. */
static bool has_thrown(fedjni_client *c) {
    JNIEnv *env = c->env;
    jthrowable thrown = (*env)->ExceptionOccurred(env);
    if (thrown == NULL) {
        return false;
    }
    (*env)->ExceptionClear(env);
    if (c->failure == NULL) {
        c->failure = (*env)->NewGlobalRef(env, thrown);
    }
    (*env)->DeleteLocalRef(env, thrown);
    return true;
}

static fed_status thrown(fed_error *err) {
    return fed_fail(err, FED_ECANCELED, "a callback of the program threw an exception");
}

/** Find a private method of Client. NULL: an exception is pending. */
static jmethodID method(const fedjni_client *c, const char *name, const char *signature) {
    JNIEnv *env = c->env;
    jclass type = (*env)->GetObjectClass(env, c->self);
    jmethodID found = (*env)->GetMethodID(env, type, name, signature);
    (*env)->DeleteLocalRef(env, type);
    return found;
}

/** Turn the result of a Java method into a status: null is FED_OK; bytes are the text of a failure
 * with the status `no`. */
static fed_status answer(fedjni_client *c, jobject bytes, fed_status no, fed_error *err) {
    JNIEnv *env = c->env;
    if (has_thrown(c)) {
        return thrown(err);
    }
    if (bytes == NULL) {
        return FED_OK;
    }
    char *reason = fedjni_text(env, bytes);
    (*env)->DeleteLocalRef(env, bytes);
    if (has_thrown(c)) {
        return thrown(err);
    }
    (void)fed_fail_with(err, no, reason);
    free(reason);
    return no;
}

static bool on_stopped(void *user) {
    fedjni_client *c = user;
    jmethodID ask = method(c, "onStopped", "()Z");
    const jboolean stopped =
        ask != NULL ? (*c->env)->CallBooleanMethod(c->env, c->self, ask) : JNI_TRUE;
    return has_thrown(c) || stopped == JNI_TRUE;
}

static fed_status on_may_train(void *user, fed_error *err) {
    fedjni_client *c = user;
    jmethodID ask = method(c, "onEligible", "()[B");
    jobject bytes = ask != NULL ? (*c->env)->CallObjectMethod(c->env, c->self, ask) : NULL;
    return answer(c, bytes, FED_EBUSY, err);
}

/** Java's buffers may begin at any address, but the library needs memory aligned as malloc's. */
static void *aligned(uint8_t *memory) {
    const uintptr_t unit = _Alignof(max_align_t);
    return memory + (unit - (uintptr_t)memory % unit) % unit;
}

static void *on_room(void *user, size_t len) {
    fedjni_client *c = user;
    JNIEnv *env = c->env;
    jmethodID ask = method(c, "onRoom", "(J)Ljava/nio/ByteBuffer;");
    jobject buffer = ask != NULL ? (*env)->CallObjectMethod(env, c->self, ask,
                                                            (jlong)(len + _Alignof(max_align_t)))
                                 : NULL;
    if (has_thrown(c) || buffer == NULL) {
        return NULL;
    }
    uint8_t *memory = (*env)->GetDirectBufferAddress(env, buffer);
    (*env)->DeleteLocalRef(env, buffer); /* Client.block keeps the buffer alive */
    c->block = memory;
    return memory != NULL ? aligned(memory) : NULL;
}

static fed_status on_train(void *user, fedclient_round *round, fed_error *err) {
    fedjni_client *c = user;
    jmethodID train = method(c, "onTrain", "(JI[[B[JF[[B[[I)[B");
    fedjni_round told = {0};
    jobject bytes = NULL;
    if (train != NULL && fedjni_round_report(c->env, round, &told)) {
        const jint offset = (jint)((const uint8_t *)round->values - c->block);
        bytes = (*c->env)->CallObjectMethod(
            c->env, c->self, train, (jlong)(intptr_t)round, offset, told.texts, told.numbers,
            (jdouble)round->task->learning_rate, told.names, told.shapes);
    }
    const fed_status status = answer(c, bytes, FED_EDECLINED, err);
    fedjni_round_free(c->env, &told);
    return status;
}

static void on_log(void *user, fed_log_level level, const char *line) {
    fedjni_client *c = user;
    JNIEnv *env = c->env;
    jmethodID log = method(c, "onLog", "(I[B)V");
    jbyteArray bytes = log != NULL ? fedjni_bytes(env, line) : NULL;
    if (bytes != NULL) {
        (*env)->CallVoidMethod(env, c->self, log, (jint)level, bytes);
    }
    (void)has_thrown(c);
    (*env)->DeleteLocalRef(env, bytes);
}

static fedjni_client *client_of(jlong handle) {
    return (fedjni_client *)(intptr_t)handle;
}

static void end_call(fedjni_client *c, JNIEnv *env, fed_status status, fed_error *err) {
    if (c->failure != NULL) {
        jthrowable failure = (*env)->NewLocalRef(env, c->failure);
        (*env)->DeleteGlobalRef(env, c->failure);
        c->failure = NULL;
        (*env)->Throw(env, failure);
    } else if (status != FED_OK) {
        err->status = status;
        fedjni_throw(env, err);
    }
}

/** Copy the texts of Native.open. False: an exception is pending. */
static bool take_texts(JNIEnv *env, jobjectArray array, char *texts[TEXTS]) {
    for (jsize k = 0; k < TEXTS; k++) {
        jobject bytes = (*env)->GetObjectArrayElement(env, array, k);
        texts[k] = fedjni_text(env, bytes);
        (*env)->DeleteLocalRef(env, bytes);
        if ((*env)->ExceptionCheck(env)) {
            return false;
        }
    }
    return true;
}

/** given: what of the options is a number. */
static fed_status open_app(fedjni_client *c, char *const texts[TEXTS],
                           const fedclient_options *given, fed_error *err) {
    const fedclient_options options = {.server = texts[SERVER],
                                       .log = c->log.write != NULL ? &c->log : NULL,
                                       .role = given->role,
                                       .hold_ms = 25000,
                                       .train = on_train,
                                       .user = c,
                                       .may_train = on_may_train,
                                       .stopped = on_stopped,
                                       .room = on_room,
                                       .name = texts[NAME],
                                       .software = texts[SOFTWARE],
                                       .computes_on = texts[COMPUTES_ON],
                                       .slots = given->slots,
                                       .helper = texts[HELPER] != NULL ? &c->helper : NULL,
                                       .least_devices = given->least_devices,
                                       .most_epsilon = given->most_epsilon,
                                       .private_only = given->private_only};
    if (texts[SERVER] == NULL || texts[CA] == NULL || texts[STATE] == NULL) {
        return fed_fail(
            err, FED_EINVAL,
            "a client needs a server, a CA certificate and a folder for its state: pass all three");
    }
    if (texts[HELPER] != NULL) {
        FED_TRY(fed_points_load(texts[HELPER], &c->helper, err));
    }
    return fedclient_app_open(&options, texts[CA], texts[STATE], &c->app, err);
}

JNIEXPORT jlong JNICALL Java_fed_Native_open(JNIEnv *env, jclass type, jobject self,
                                             jobjectArray array, jboolean evaluate, jint slots,
                                             jint least_devices, jfloat most_epsilon,
                                             jboolean private_only, jint level) {
    (void)type;
    fed_error err = {0};
    char *texts[TEXTS] = {NULL};
    fedjni_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        fedjni_throw_no_memory(env);
        return 0;
    }
    const seat outer = sit(c, env, self);
    if (level >= 0) {
        c->log = (fed_log){.write = on_log, .user = c, .level = (fed_log_level)level};
    }
    if (take_texts(env, array, texts)) {
        const fedclient_options given = {.role = evaluate == JNI_TRUE ? FED_ROLE_EVALUATE
                                                                      : FED_ROLE_TRAIN,
                                         .slots = (unsigned)slots,
                                         .least_devices = (uint32_t)least_devices,
                                         .most_epsilon = most_epsilon,
                                         .private_only = private_only == JNI_TRUE};
        end_call(c, env, open_app(c, texts, &given, &err), &err);
    }
    for (size_t k = 0; k < TEXTS; k++) {
        free(texts[k]);
    }
    leave(c, outer);
    if ((*env)->ExceptionCheck(env)) {
        fedclient_app_close(c->app);
        free(c);
        return 0;
    }
    return (jlong)(intptr_t)c;
}

JNIEXPORT void JNICALL Java_fed_Native_close(JNIEnv *env, jclass type, jlong handle) {
    (void)env;
    (void)type;
    fedjni_client *c = client_of(handle);
    fedclient_app_close(c->app);
    free(c);
}

JNIEXPORT void JNICALL Java_fed_Native_stop(JNIEnv *env, jclass type, jlong handle) {
    (void)env;
    (void)type;
    fedclient_app_stop(client_of(handle)->app);
}

JNIEXPORT jbyteArray JNICALL Java_fed_Native_device(JNIEnv *env, jclass type, jlong handle) {
    (void)type;
    return fedjni_bytes(env, fedclient_device(fedclient_app_client(client_of(handle)->app)));
}

JNIEXPORT void JNICALL Java_fed_Native_enrol(JNIEnv *env, jclass type, jlong handle, jobject self,
                                             jbyteArray token) {
    enum { TRIES = 8 }; /* a minute */
    (void)type;
    fedjni_client *c = client_of(handle);
    fed_error err = {0};
    char *text = fedjni_text(env, token);
    if ((*env)->ExceptionCheck(env)) {
        return;
    }
    const seat outer = sit(c, env, self);
    const fed_status status = fedclient_token_give_in_time(fedclient_app_client(c->app),
                                                           text != NULL ? text : "", TRIES, &err);
    leave(c, outer);
    free(text);
    end_call(c, env, status, &err);
}

enum { EVENT_NUMBERS = 8 }; /* Event.NUMBERS */

static void put_event(JNIEnv *env, const fedclient_event *event, jintArray numbers) {
    jint loss = 0;
    memcpy(&loss, &event->loss, sizeof loss);
    const jint all[EVENT_NUMBERS] = {(jint)event->outcome,
                                     (jint)event->round,
                                     (jint)event->version,
                                     (jint)event->wait_ms,
                                     loss,
                                     (jint)event->samples,
                                     (jint)event->correct,
                                     event->over};
    (*env)->SetIntArrayRegion(env, numbers, 0, EVENT_NUMBERS, all);
}

JNIEXPORT jbyteArray JNICALL Java_fed_Native_step(JNIEnv *env, jclass type, jlong handle,
                                                  jobject self, jintArray numbers) {
    (void)type;
    fedjni_client *c = client_of(handle);
    fed_error err = {0};
    fedclient_event event = {0};
    const seat outer = sit(c, env, self);
    const fed_status status = fedclient_step(fedclient_app_client(c->app), &event, &err);
    leave(c, outer);
    end_call(c, env, status, &err);
    if ((*env)->ExceptionCheck(env)) {
        return NULL;
    }
    put_event(env, &event, numbers);
    return err.text[0] != '\0' ? fedjni_bytes(env, err.text) : NULL;
}

static bool on_event(void *user, const fedclient_event *event, const char *why) {
    fedjni_client *c = user;
    JNIEnv *env = c->env;
    jmethodID tell = method(c, "onEvent", "([I[B)V");
    jintArray numbers = tell != NULL ? (*env)->NewIntArray(env, EVENT_NUMBERS) : NULL;
    jbyteArray reason = numbers != NULL ? fedjni_bytes(env, why) : NULL;
    if (reason != NULL) {
        put_event(env, event, numbers);
        (*env)->CallVoidMethod(env, c->self, tell, numbers, reason);
    }
    const bool good = !has_thrown(c);
    (*env)->DeleteLocalRef(env, reason);
    (*env)->DeleteLocalRef(env, numbers);
    return good;
}

JNIEXPORT jboolean JNICALL Java_fed_Native_run(JNIEnv *env, jclass type, jlong handle,
                                               jobject self) {
    (void)type;
    fedjni_client *c = client_of(handle);
    fed_error err = {0};
    const fedclient_run_options options = {.until_finished = true, .event = on_event, .user = c};
    const seat outer = sit(c, env, self);
    const fed_status status = fedclient_app_run(c->app, &options, &err);
    leave(c, outer);
    const bool stopped = status == FED_ECANCELED;
    end_call(c, env, stopped ? FED_OK : status, &err);
    return stopped ? JNI_FALSE : JNI_TRUE;
}

JNIEXPORT jbyteArray JNICALL Java_fed_Native_roundWanted(JNIEnv *env, jclass type, jlong handle,
                                                         jobject self, jlong round) {
    (void)type;
    fedjni_client *c = client_of(handle);
    fed_error err = {0};
    const seat outer = sit(c, env, self);
    const fed_status status = fedclient_round_wanted((fedclient_round *)(intptr_t)round, &err);
    leave(c, outer);
    return status == FED_OK ? NULL : fedjni_bytes(env, fed_error_text(&err));
}

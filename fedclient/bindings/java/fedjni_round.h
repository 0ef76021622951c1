/* A round for Java: the arrays from which fed.Round and fed.Model are made. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDJNI_ROUND_H
#define FEDJNI_ROUND_H

#include <jni.h>
#include <stdbool.h>

#include "fedclient/fedclient.h"

/** Local references; NULL where an array was not made. */
typedef struct fedjni_round {
    jobjectArray texts;  /* byte[][]: the task's model, optimizer and app */
    jlongArray numbers;  /* number, version, local steps, batch, seed, task, slot */
    jobjectArray names;  /* byte[][]: the name of each tensor */
    jobjectArray shapes; /* int[][]: the shape of each tensor */
} fedjni_round;

/** Fill in *told. False: an exception is pending. Call fedjni_round_free in both cases. */
bool fedjni_round_report(JNIEnv *env, const fedclient_round *round, fedjni_round *told);
void fedjni_round_free(JNIEnv *env, fedjni_round *told);

#endif

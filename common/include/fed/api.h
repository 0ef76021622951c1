/* Macros around the declarations of a public header: C linkage in C++, and visibility in a shared
 * library. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_API_H
#define FED_API_H

#ifdef __cplusplus
#define FED_API_OPEN  extern "C" {
#define FED_API_CLOSE }
#else
#define FED_API_OPEN
#define FED_API_CLOSE
#endif

/*
 * Each public header has FED_API_BEGIN after its includes and FED_API_END before its last #endif;
 * tests/lint/text.py checks it. The libraries are compiled with -fvisibility=hidden, so a shared
 * library exports only what is declared between the two macros.
 */
#if defined(__GNUC__)
#define FED_API_BEGIN FED_API_OPEN _Pragma("GCC visibility push(default)")
#define FED_API_END   _Pragma("GCC visibility pop") FED_API_CLOSE
#else
#define FED_API_BEGIN FED_API_OPEN
#define FED_API_END   FED_API_CLOSE
#endif

#endif

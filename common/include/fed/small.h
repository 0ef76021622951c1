/* The small build, for a device that trains one kind of net. It leaves out what that net does not
 * need. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_SMALL_H
#define FED_SMALL_H

/*
 * CMake's FED_SMALL=ON builds a trainer for a small device. It has dense, conv, maxpool and relu
 * layers, no blocks of layers, the optimizer sgd at one rate, and neither normalises nor varies
 * samples. A task that needs more is refused with a sentence that says so. A program that calls
 * the optimizer itself must use sgd. The source code is the same: tables have NULL for what is
 * left out, and the linker drops code that no table names. docs/client-memory.md has the sizes.
 */
#ifndef FED_SMALL
#define FED_SMALL 0
#endif

/** An entry of a table that a small build leaves out. */
#define FED_UNLESS_SMALL(pointer) (FED_SMALL ? NULL : (pointer))

#endif

/* The small build, for a device that trains one kind of net: what it leaves out. */
#ifndef FED_SMALL_H
#define FED_SMALL_H

/*
 * CMake's FED_SMALL=ON makes a trainer that has dense, conv, maxpool and relu layers without blocks
 * of them, sgd at one rate, and samples as they are. A task that needs more is refused with a
 * sentence that says so; a program that calls the optimizer itself must keep to sgd. It is the same
 * code: tables hold NULL for what is left out, and the linker drops what no table names.
 * docs/client-memory.md has the sizes.
 */
#ifndef FED_SMALL
#define FED_SMALL 0
#endif

/** An entry of a table that a small build leaves out. */
#define FED_UNLESS_SMALL(pointer) (FED_SMALL ? NULL : (pointer))

#endif

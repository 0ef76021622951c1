/* The common subset of OpenCL C 1.2 and CUDA C, in which kernels are written. This file is placed
 * before each kernel's source. See docs/gpu.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __OPENCL_VERSION__

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL FP_CONTRACT OFF
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef int i32;
typedef long i64;
typedef float4 f32x4;
typedef uint4 u32x4;
#define KERNEL             __kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
#define FUNC               static inline
#define GLOBAL             __global
#define LOCAL              __local    /* for an array in a kernel's outermost scope */
#define LOCALP             __local    /* for what a pointer points to */
#define TABLE              __constant /* for an array of constants outside of kernels */
#define BARRIER()          barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define LANE               ((u32)get_local_id(0))
#define GROUP              ((u32)get_group_id(0))
#define GROUPS             ((u32)get_num_groups(0))
#define BITS_OF(f)         as_uint(f)
#define FLOAT_OF(b)        as_float(b)
#define CLZ(x)             ((u32)clz((u32)(x)))
#define POPCOUNT(x)        ((u32)popcount((u32)(x)))
#define FABS(x)            fabs(x)
#define SQRT(x)            sqrt((float)(x))  /* float arguments; results differ between devices */
#define ROOT64(x)          sqrt((double)(x)) /* correctly rounded on all devices */
#define EXP(x)             exp((float)(x))
#define LOG(x)             log((float)(x))
#define TANH(x)            tanh((float)(x))
#define POW(x, y)          pow((float)(x), (float)(y))
#define ATOMIC_ADD(p, v)   atomic_add(p, v)
#define ATOMIC_ADD64(p, v) atom_add(p, v)
#define ATOMIC_MAX(p, v)   atomic_max(p, v)
#define ATOMIC_MIN(p, v)   atomic_min(p, v)
#define ATOMIC_AND(p, v)   atomic_and(p, v)
#define ATOMIC_OR(p, v)    atomic_or(p, v)
#define LOAD4(p)           (*(GLOBAL const f32x4 *)(p))
#define STORE4(p, v)       (*(GLOBAL f32x4 *)(p) = (v))
#define F32X4(a, b, c, d)  ((f32x4)(a, b, c, d))

#else

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float4 f32x4;
typedef uint4 u32x4;
#define KERNEL extern "C" __global__ void __launch_bounds__(256)
#define FUNC   static __device__ __forceinline__
#define GLOBAL
#define LOCAL __shared__
#define LOCALP
#define TABLE              static __constant__ const
#define BARRIER()          __syncthreads()
#define LANE               threadIdx.x
#define GROUP              blockIdx.x
#define GROUPS             gridDim.x
#define BITS_OF(f)         __float_as_uint(f)
#define FLOAT_OF(b)        __uint_as_float(b)
#define CLZ(x)             ((u32)__clz((int)(x)))
#define POPCOUNT(x)        ((u32)__popc(x))
#define FABS(x)            fabsf(x)
#define SQRT(x)            sqrtf(x)
#define ROOT64(x)          sqrt((double)(x))
#define EXP(x)             expf(x)
#define LOG(x)             logf(x)
#define TANH(x)            tanhf(x)
#define POW(x, y)          powf(x, y)
#define ATOMIC_ADD(p, v)   atomicAdd(p, v)
#define ATOMIC_ADD64(p, v) atomicAdd(p, v)
#define ATOMIC_MAX(p, v)   atomicMax(p, v)
#define ATOMIC_MIN(p, v)   atomicMin(p, v)
#define ATOMIC_AND(p, v)   atomicAnd(p, v)
#define ATOMIC_OR(p, v)    atomicOr(p, v)
#define LOAD4(p)           (*(const f32x4 *)(p))
#define STORE4(p, v)       (*(f32x4 *)(p) = (v))
#define F32X4(a, b, c, d)  make_float4(a, b, c, d)

#endif

#define GROUP_SIZE 256U

/* Functions that combine a value of each of the 256 work-items of a group. All work-items must
 * call them together. The argument room is LOCAL u32[256]; it may be used again at once.
 *
 * wg_scan      the sum of the values of the work-items before this one; *total: of all
 * wg_scan_max  the same with the largest value instead of the sum
 * wg_max       the largest value of all */
FUNC u32 wg_larger(u32 a, u32 b) {
    return a > b ? a : b;
}

#ifdef __OPENCL_VERSION__

/* Work in rows of 16: one work-item of each row combines its values, then one combines the rows. On
 * a CPU this is faster than eight steps of all work-items. */
#define ROW 16U

FUNC u32 wg_scan(LOCALP u32 *room, u32 value, u32 *total) {
    room[LANE] = value;
    BARRIER();
    if (LANE % ROW == 0) {
        for (u32 k = LANE + 1; k < LANE + ROW; k++) {
            room[k] += room[k - 1];
        }
    }
    BARRIER();
    if (LANE == 0) {
        for (u32 k = 2 * ROW - 1; k < GROUP_SIZE; k += ROW) {
            room[k] += room[k - ROW];
        }
    }
    BARRIER();
    u32 sum = room[LANE];
    sum += LANE >= ROW && LANE % ROW != ROW - 1 ? room[LANE / ROW * ROW - 1] : 0;
    *total = room[GROUP_SIZE - 1];
    BARRIER();
    return sum - value;
}

FUNC u32 wg_scan_max(LOCALP u32 *room, u32 value, u32 *most) {
    room[LANE] = value;
    BARRIER();
    if (LANE % ROW == 0) {
        for (u32 k = LANE + 1; k < LANE + ROW; k++) {
            room[k] = wg_larger(room[k], room[k - 1]);
        }
    }
    BARRIER();
    if (LANE == 0) {
        for (u32 k = 2 * ROW - 1; k < GROUP_SIZE; k += ROW) {
            room[k] = wg_larger(room[k], room[k - ROW]);
        }
    }
    BARRIER();
    u32 before = LANE % ROW != 0 ? room[LANE - 1] : 0;
    before = wg_larger(before, LANE >= ROW ? room[LANE / ROW * ROW - 1] : 0);
    *most = room[GROUP_SIZE - 1];
    BARRIER();
    return before;
}

FUNC u32 wg_max(LOCALP u32 *room, u32 value) {
    room[LANE] = value;
    BARRIER();
    if (LANE % ROW == 0) {
        for (u32 k = LANE + 1; k < LANE + ROW; k++) {
            room[LANE] = wg_larger(room[LANE], room[k]);
        }
    }
    BARRIER();
    if (LANE == 0) {
        for (u32 k = ROW; k < GROUP_SIZE; k += ROW) {
            room[0] = wg_larger(room[0], room[k]);
        }
    }
    BARRIER();
    u32 most = room[0];
    BARRIER();
    return most;
}

#else

/* Combine values in warps of 32 by shuffles, then over the eight warps. */
#define WARP  32U
#define WARPS (GROUP_SIZE / WARP)
#define ALL   0xffffffffU

FUNC u32 wg_scan(u32 *room, u32 value, u32 *total) {
    u32 sum = value, base = 0, all = 0;
    for (u32 step = 1; step < WARP; step += step) {
        const u32 before = __shfl_up_sync(ALL, sum, step);
        sum += LANE % WARP >= step ? before : 0;
    }
    if (LANE % WARP == WARP - 1) {
        room[LANE / WARP] = sum;
    }
    BARRIER();
    for (u32 k = 0; k < WARPS; k++) {
        base += k < LANE / WARP ? room[k] : 0;
        all += room[k];
    }
    BARRIER();
    *total = all;
    return base + sum - value;
}

FUNC u32 wg_scan_max(u32 *room, u32 value, u32 *most) {
    u32 max = value, base = 0, all = 0;
    for (u32 step = 1; step < WARP; step += step) {
        const u32 before = __shfl_up_sync(ALL, max, step);
        max = wg_larger(max, LANE % WARP >= step ? before : 0);
    }
    if (LANE % WARP == WARP - 1) {
        room[LANE / WARP] = max;
    }
    const u32 before = __shfl_up_sync(ALL, max, 1);
    BARRIER();
    for (u32 k = 0; k < WARPS; k++) {
        base = wg_larger(base, k < LANE / WARP ? room[k] : 0);
        all = wg_larger(all, room[k]);
    }
    BARRIER();
    *most = all;
    return wg_larger(base, LANE % WARP > 0 ? before : 0);
}

FUNC u32 wg_max(u32 *room, u32 value) {
    for (u32 step = WARP / 2; step > 0; step /= 2) {
        value = wg_larger(value, __shfl_xor_sync(ALL, value, step));
    }
    if (LANE % WARP == 0) {
        room[LANE / WARP] = value;
    }
    BARRIER();
    for (u32 k = 0; k < WARPS; k++) {
        value = wg_larger(value, room[k]);
    }
    BARRIER();
    return value;
}

#endif

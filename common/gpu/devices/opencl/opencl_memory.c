/* Memory of OpenCL devices: shared virtual memory. Where that is missing, and for a program's own
 * memory, a list maps addresses to buffers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/gpu/devices/opencl/opencl_gpu.h"

/* A buffer, and the addresses that stand for its bytes. A kernel gets an address inside the buffer
 * as a sub-buffer from there to the buffer's end. These sub-buffers are kept. */
struct opencl_block {
    opencl_block *next;
    char *at; /* host memory that is reserved but unused, so that addresses are unique */
    size_t size;
    cl_mem buffer;
    struct opencl_part {
        size_t offset;
        cl_mem buffer;
    } * part;
    size_t parts, room;
};

typedef struct opencl_part opencl_part;

/* Find the block of an address. The caller holds the lock. */
static opencl_block *find_block(opencl_gpu *g, const void *at, size_t *offset) {
    for (opencl_block *b = g->blocks; b != NULL; b = b->next) {
        const uintptr_t from = (uintptr_t)b->at, here = (uintptr_t)at;
        if (here >= from && here - from < b->size) {
            *offset = here - from;
            return b;
        }
    }
    return NULL;
}

static fed_status say_stray(opencl_gpu *g, const void *at) {
    return fed_gpu_fail(&g->base, FED_EINVAL, "%p is not an address in this device's memory", at);
}

static fed_status add_block(opencl_gpu *g, cl_mem buffer, size_t size, void **at) {
    const size_t whole = (size + OPENCL_ALIGN - 1) / OPENCL_ALIGN * OPENCL_ALIGN;
    opencl_block *b = calloc(1, sizeof *b);
    char *addresses = aligned_alloc(OPENCL_ALIGN, whole);
    if (b == NULL || addresses == NULL) {
        free(b);
        free(addresses);
        return fed_gpu_fail(&g->base, FED_ENOMEM, "out of memory for the addresses of %zu bytes",
                            size);
    }
    (void)pthread_mutex_lock(&g->lock);
    *b = (opencl_block){.next = g->blocks, .at = addresses, .size = size, .buffer = buffer};
    g->blocks = b;
    (void)pthread_mutex_unlock(&g->lock);
    *at = addresses;
    return FED_OK;
}

static void release_block(opencl_gpu *g, opencl_block *b) {
    for (size_t k = 0; k < b->parts; k++) {
        (void)g->cl.clReleaseMemObject(b->part[k].buffer);
    }
    (void)g->cl.clReleaseMemObject(b->buffer);
    free(b->part);
    free(b->at);
    free(b);
}

void fed_opencl_free_blocks(opencl_gpu *g) {
    while (g->blocks != NULL) {
        opencl_block *b = g->blocks;
        g->blocks = b->next;
        release_block(g, b);
    }
}

static bool free_block(opencl_gpu *g, const void *at) {
    opencl_block *found = NULL;
    (void)pthread_mutex_lock(&g->lock);
    for (opencl_block **b = &g->blocks; *b != NULL; b = &(*b)->next) {
        if ((*b)->at == at) {
            found = *b;
            *b = found->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&g->lock);
    if (found != NULL) {
        release_block(g, found);
    }
    return found != NULL;
}

static fed_status alloc_buffer(opencl_gpu *g, size_t size, void **at) {
    cl_int code = 0;
    cl_mem buffer = g->cl.clCreateBuffer(g->context, CL_MEM_READ_WRITE, size, NULL, &code);
    if (code != CL_SUCCESS) {
        return fed_gpu_fail(&g->base, FED_ENOMEM, "no %zu bytes of its memory are free", size);
    }
    fed_status status = add_block(g, buffer, size, at);
    if (status != FED_OK) {
        (void)g->cl.clReleaseMemObject(buffer);
    }
    return status;
}

fed_status fed_opencl_alloc(fed_gpu *gpu, size_t size, void **at) {
    opencl_gpu *g = (opencl_gpu *)gpu;
    if (!g->shared) {
        return alloc_buffer(g, size, at);
    }
    *at = g->cl.clSVMAlloc(g->context, CL_MEM_READ_WRITE, size, OPENCL_ALIGN);
    return *at != NULL ? FED_OK
                       : fed_gpu_fail(gpu, FED_ENOMEM, "no %zu bytes of its memory are free", size);
}

void fed_opencl_free(fed_gpu *gpu, void *at) {
    opencl_gpu *g = (opencl_gpu *)gpu;
    if (!free_block(g, at) && g->shared) {
        g->cl.clSVMFree(g->context, at);
    }
}

fed_status fed_opencl_adopt(fed_gpu *gpu, void *native, void **at) {
    opencl_gpu *g = (opencl_gpu *)gpu;
    cl_context context = NULL;
    size_t size = 0;
    if (!g->native) {
        return fed_gpu_fail(gpu, FED_ESTATE,
                            "it has its own context: open it with fed_gpu_open_native");
    }
    FED_TRY(fed_opencl_checked(
        g, g->cl.clGetMemObjectInfo(native, CL_MEM_SIZE, sizeof size, &size, NULL),
        "clGetMemObjectInfo"));
    FED_TRY(fed_opencl_checked(
        g, g->cl.clGetMemObjectInfo(native, CL_MEM_CONTEXT, sizeof(cl_context), &context, NULL),
        "clGetMemObjectInfo"));
    if (context != g->context) {
        return fed_gpu_fail(gpu, FED_EINVAL, "the memory belongs to another context");
    }
    FED_TRY(fed_opencl_checked(g, g->cl.clRetainMemObject(native), "clRetainMemObject"));
    fed_status status = add_block(g, native, size, at);
    if (status != FED_OK) {
        (void)g->cl.clReleaseMemObject(native);
    }
    return status;
}

fed_status fed_opencl_alloc_host(fed_gpu *gpu, size_t size, void **at) {
    *at = aligned_alloc(OPENCL_ALIGN, (size + OPENCL_ALIGN - 1) / OPENCL_ALIGN * OPENCL_ALIGN);
    return *at != NULL ? FED_OK
                       : fed_gpu_fail(gpu, FED_ENOMEM, "out of host memory for %zu bytes", size);
}

void fed_opencl_free_host(fed_gpu *gpu, void *at) {
    (void)gpu;
    free(at);
}

static fed_status new_part(opencl_gpu *g, opencl_block *b, size_t offset, cl_mem *buffer) {
    if (b->parts == b->room) {
        const size_t room = b->room > 0 ? 2 * b->room : 8;
        opencl_part *more = realloc(b->part, room * sizeof *more);
        if (more == NULL) {
            return fed_gpu_fail(&g->base, FED_ENOMEM, "out of memory for a kernel's argument");
        }
        b->part = more;
        b->room = room;
    }
    const cl_buffer_region region = {offset, b->size - offset};
    cl_int code = 0;
    *buffer = g->cl.clCreateSubBuffer(b->buffer, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                      &region, &code);
    if (code == CL_MISALIGNED_SUB_BUFFER_OFFSET) {
        return fed_gpu_fail(&g->base, FED_EINVAL,
                            "the memory is not shared virtual memory, so a kernel's argument must "
                            "be at a multiple of 128 bytes; this one is at %zu",
                            offset);
    }
    FED_TRY(fed_opencl_checked(g, code, "clCreateSubBuffer"));
    b->part[b->parts++] = (opencl_part){offset, *buffer};
    return FED_OK;
}

static fed_status find_part(opencl_gpu *g, opencl_block *b, size_t offset, cl_mem *buffer) {
    *buffer = b->buffer;
    if (offset == 0) {
        return FED_OK;
    }
    for (size_t k = 0; k < b->parts; k++) {
        if (b->part[k].offset == offset) {
            *buffer = b->part[k].buffer;
            return FED_OK;
        }
    }
    return new_part(g, b, offset, buffer);
}

fed_status fed_opencl_set_address(opencl_gpu *g, cl_kernel kernel, cl_uint k, const void *at) {
    cl_mem buffer = NULL;
    size_t offset = 0;
    opencl_block *b = at != NULL ? find_block(g, at, &offset) : NULL;
    if (b != NULL) {
        FED_TRY(find_part(g, b, offset, &buffer));
    } else if (g->shared) {
        return fed_opencl_checked(g, g->cl.clSetKernelArgSVMPointer(kernel, k, at),
                                  "clSetKernelArgSVMPointer");
    } else if (at != NULL) {
        return say_stray(g, at);
    }
    return fed_opencl_checked(g, g->cl.clSetKernelArg(kernel, k, sizeof(cl_mem), &buffer),
                              "clSetKernelArg");
}

/* A place on the device: an offset in a buffer, or an address if buffer is NULL. */
typedef struct place {
    cl_mem buffer;
    size_t offset;
} place;

static fed_status find_place(opencl_gpu *g, const void *at, size_t size, place *p) {
    (void)pthread_mutex_lock(&g->lock);
    const opencl_block *b = find_block(g, at, &p->offset);
    p->buffer = b != NULL ? b->buffer : NULL;
    const bool is_there = b != NULL ? size <= b->size - p->offset : g->shared;
    (void)pthread_mutex_unlock(&g->lock);
    return is_there ? FED_OK : say_stray(g, at);
}

static fed_status copy_across(opencl_gpu *g, cl_command_queue queue, void *to, const void *from,
                              size_t size, const place *target) {
    place source = {NULL, 0};
    FED_TRY(find_place(g, from, size, &source));
    if ((source.buffer == NULL) != (target->buffer == NULL)) {
        return fed_gpu_fail(&g->base, FED_EINVAL,
                            "can't copy between the program's memory and the GPU's; copy by the "
                            "host");
    }
    if (source.buffer == NULL) {
        return fed_opencl_checked(
            g, g->cl.clEnqueueSVMMemcpy(queue, CL_FALSE, to, from, size, 0, NULL, NULL),
            "clEnqueueSVMMemcpy");
    }
    return fed_opencl_checked(g,
                              g->cl.clEnqueueCopyBuffer(queue, source.buffer, target->buffer,
                                                        source.offset, target->offset, size, 0,
                                                        NULL, NULL),
                              "clEnqueueCopyBuffer");
}

fed_status fed_opencl_copy(opencl_gpu *g, cl_command_queue queue, void *to, const void *from,
                           size_t size, fed_gpu_way way) {
    place p = {NULL, 0};
    FED_TRY(find_place(g, way == FED_GPU_DOWN ? from : to, size, &p));
    if (way == FED_GPU_ACROSS) {
        return copy_across(g, queue, to, from, size, &p);
    }
    if (p.buffer == NULL) {
        return fed_opencl_checked(
            g, g->cl.clEnqueueSVMMemcpy(queue, CL_FALSE, to, from, size, 0, NULL, NULL),
            "clEnqueueSVMMemcpy");
    }
    if (way == FED_GPU_UP) {
        return fed_opencl_checked(g,
                                  g->cl.clEnqueueWriteBuffer(queue, p.buffer, CL_FALSE, p.offset,
                                                             size, from, 0, NULL, NULL),
                                  "clEnqueueWriteBuffer");
    }
    return fed_opencl_checked(
        g, g->cl.clEnqueueReadBuffer(queue, p.buffer, CL_FALSE, p.offset, size, to, 0, NULL, NULL),
        "clEnqueueReadBuffer");
}

fed_status fed_opencl_fill(opencl_gpu *g, cl_command_queue queue, void *to, uint8_t value,
                           size_t size) {
    place p = {NULL, 0};
    FED_TRY(find_place(g, to, size, &p));
    if (p.buffer == NULL) {
        return fed_opencl_checked(
            g, g->cl.clEnqueueSVMMemFill(queue, to, &value, 1, size, 0, NULL, NULL),
            "clEnqueueSVMMemFill");
    }
    return fed_opencl_checked(
        g, g->cl.clEnqueueFillBuffer(queue, p.buffer, &value, 1, p.offset, size, 0, NULL, NULL),
        "clEnqueueFillBuffer");
}

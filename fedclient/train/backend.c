/* The backends of this build, by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/backend.h"

#include <string.h>

#ifdef FED_HAVE_GPU
#include "fed/gpu.h"
#endif
#include "fed/small.h"
#include "fedclient/train/backend_vtable.h"

#define FEDTRAIN_BACKEND(folder) extern const fedtrain_backend_vtable fedtrain_backend_##folder;
#include "fedclient/train/backends.def"
#undef FEDTRAIN_BACKEND

static const fedtrain_backend_vtable *const backends[] = {
#define FEDTRAIN_BACKEND(folder) &fedtrain_backend_##folder,
#include "fedclient/train/backends.def"
#undef FEDTRAIN_BACKEND
};

enum { BACKENDS = sizeof backends / sizeof backends[0] };

const fedtrain_backend_vtable *fedtrain_backend_get(size_t k) {
    return k < BACKENDS ? backends[k] : NULL;
}

const char *fedtrain_backend_name(size_t k) {
    return k < BACKENDS ? backends[k]->name : NULL;
}

/* Return whether the name is "gpu" or a GPU's name, such as "opencl:0". */
static bool is_device(const char *name) {
#ifdef FED_HAVE_GPU
    return fed_gpu_is_name(name);
#else
    (void)name;
    return false;
#endif
}

static fed_status say_missing(const char *name, fed_error *err) {
    char names[100] = "";
    for (size_t k = 0; k < BACKENDS; k++) {
        strncat(names, k > 0 ? ", " : "", sizeof names - strlen(names) - 1);
        strncat(names, backends[k]->name, sizeof names - strlen(names) - 1);
    }
    return fed_fail(err, FED_EINVAL, "this build has no backend \"%.50s\"; it has %s", name, names);
}

fed_status fedtrain_backend_find(const char *name, const fedtrain_backend_vtable **backend,
                                 fed_error *err) {
    for (size_t k = 0; k < BACKENDS; k++) {
        if (FED_SMALL || name == NULL || strcmp(name, backends[k]->name) == 0 ||
            (backends[k]->device != NULL && is_device(name))) {
            *backend = backends[k];
            return FED_OK;
        }
    }
    return say_missing(name, err);
}

fed_status fedtrain_backend_fits(const char *name, const fed_arch *arch, fed_error *err) {
    const fedtrain_backend_vtable *backend = backends[0];
    FED_TRY(fedtrain_backend_find(name, &backend, err));
    return arch == NULL || backend->supports == NULL ? FED_OK : backend->supports(arch, err);
}

/* Load libnccl.so.2 and look up its functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/collectives/nccl/nccl_calls.h"

#include <dlfcn.h>

typedef struct symbol {
    const char *name;
    size_t at; /* offset of the member in nccl_calls */
} symbol;

static const symbol symbols[] = {
#define X(result, member, symbol, args) {#symbol, offsetof(nccl_calls, member)},
    FEDDC_NCCL_CALLS(X)
#undef X
};

static fed_status resolve(nccl_calls *nccl, fed_error *err) {
    int version = 0;
    for (size_t k = 0; k < sizeof symbols / sizeof symbols[0]; k++) {
        void *found = dlsym(nccl->library, symbols[k].name);
        if (found == NULL) {
            return fed_fail(err, FED_ESTATE,
                            "libnccl.so.2 lacks %s: install NCCL 2.10 or later (on Debian: "
                            "libnccl2)",
                            symbols[k].name);
        }
        *(void **)((char *)nccl + symbols[k].at) = found;
    }
    if (nccl->version(&version) != NCCL_OK || version < NCCL_LEAST) {
        return fed_fail(err, FED_ESTATE,
                        "libnccl.so.2 has version %d: install NCCL 2.10 (21000) or later", version);
    }
    return FED_OK;
}

fed_status feddc_nccl_load(nccl_calls *nccl, fed_error *err) {
    *nccl = (nccl_calls){.library = NULL};
    /* RTLD_NODELETE: NCCL's own threads may still run its code after dlclose. */
    nccl->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (nccl->library == NULL) {
        return fed_fail(err, FED_ENOTFOUND,
                        "the collective nccl needs libnccl.so.2, which is not installed: it is in "
                        "libnccl2 on Debian, from pip in nvidia-nccl-cu12; set LD_LIBRARY_PATH to "
                        "its folder. Or take the collective gather or owners");
    }
    const fed_status status = resolve(nccl, err);
    if (status != FED_OK) {
        feddc_nccl_unload(nccl);
    }
    return status;
}

void feddc_nccl_unload(nccl_calls *nccl) {
    if (nccl->library != NULL) {
        dlclose(nccl->library);
        nccl->library = NULL;
    }
}

/* The table of stores. */
#include "fedserver/stores/store.h"

#define FEDSERVER_STORE(folder) extern const fedserver_store fedserver_store_##folder;
#include "fedserver/stores/stores.def"
#undef FEDSERVER_STORE

static const fedserver_store *const stores[] = {
#define FEDSERVER_STORE(folder) &fedserver_store_##folder,
#include "fedserver/stores/stores.def"
#undef FEDSERVER_STORE
};

const fedserver_store *fedserver_store_at(size_t k) {
    return k < sizeof stores / sizeof stores[0] ? stores[k] : NULL;
}

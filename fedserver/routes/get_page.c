/* GET / and the files that it loads: the dashboard, which loads nothing from other hosts, and the
 * login page. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedserver/front/dashboard/dashboard.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

fed_status fedserver_answer_page(fedserver_response *response, int status, const char *path,
                                 fed_error *err) {
    const fedserver_asset *asset = fedserver_assets;
    while (asset->path != NULL && strcmp(asset->path, path) != 0) {
        asset++;
    }
    if (asset->path == NULL) {
        return fedserver_answer_error(response, err, 404, "not_found", "there is no such file");
    }
    fed_writer page;
    fed_writer_growing(&page);
    fed_write_bytes(&page, asset->bytes, asset->len);
    return fedserver_answer(response, status, asset->content_type, &page, err);
}

fed_status fedserver_get_page(fedserver *server, const fedserver_call *call,
                              fedserver_response *response, fed_error *err) {
    (void)server;
    return fedserver_answer_page(response, 200, call->request->path, err);
}

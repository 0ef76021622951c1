/* GET /: the dashboard, one page without dependencies. */
#include "fedserver/dashboard/dashboard.h"
#include "fedserver/router.h"

fed_status fedserver_get_page(fedserver *server, const fedserver_call *call,
                              fedserver_response *response, fed_error *err) {
    (void)server;
    (void)call;
    fed_writer page;
    fed_writer_growing(&page);
    fed_write_bytes(&page, fedserver_dashboard_html, fedserver_dashboard_html_len);
    return fedserver_answer(response, 200, "text/html; charset=utf-8", &page, err);
}

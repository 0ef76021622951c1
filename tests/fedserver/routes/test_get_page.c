/* The page's files: each route has its file, and no other path has one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/wire.h"
#include "fedserver/routes/answers.h"

static int status_of(const char *path) {
    fed_error err = {0};
    fedserver_response response = {0};
    assert_fed_ok_err(fedserver_answer_page(&response, 200, path, &err));
    assert_non_null(response.body);
    fedserver_blob_free(response.body);
    return response.status;
}

FED_TEST(each_route_of_the_page_has_its_file) {
#define FEDSERVER_ROUTE(at, who, method, path, handler, size, kind)                                \
    if (strcmp(#handler, "fedserver_get_page") == 0) {                                             \
        assert_int_equal(status_of(path), 200);                                                    \
    }
#include "fedserver/routes/routes.def"
#undef FEDSERVER_ROUTE
}

FED_TEST(another_path_has_none) {
    static const char *const paths[] = {"", "/page", "/page.cssx", "/../page.css", "page.css"};
    for (size_t k = 0; k < sizeof paths / sizeof paths[0]; k++) {
        assert_int_equal(status_of(paths[k]), 404);
    }
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}

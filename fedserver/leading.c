/* Functions for adapters of coordinators that share a store: leader, update limit, questions of the
 * front. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/front/relay.h"
#include "fedserver/rounds/intake.h"
#include "fedserver/server.h"

bool fedserver_follows(const fedserver *server, const char **leader, uint64_t *term) {
    *leader = server->lead.address;
    *term = server->lead.term;
    return server->following;
}

void fedserver_followers(fedserver *server, uint32_t count) {
    server->followers = count;
}

uint64_t fedserver_update_limit(const fedserver *server) {
    const uint64_t least = fedserver_intake_head_bytes();
    return least > server->rounds.update_limit ? least : server->rounds.update_limit;
}

void fedserver_update_limit_heard(fedserver *server, uint64_t bytes) {
    server->heard_limit = bytes;
}

bool fedserver_front_asks(fedserver *server, fedserver_question *question) {
    fedserver_request head = {.listener = FEDSERVER_FRONT, .method = "GET", .query = ""};
    while (fedserver_relay_next(server->relay, question)) {
        fedserver_response own = {.status = 200};
        head.path = question->path;
        if (server->routing->alone(server, &head, &own)) {
            fedserver_relay_give(server->relay, question, &own);
            fedserver_blob_free(own.body);
            continue;
        }
        if (server->routing->relayed(&head)) {
            return true;
        }
        fedserver_relay_give(server->relay, question, NULL);
    }
    return false;
}

void fedserver_front_answer(fedserver *server, const fedserver_question *question,
                            const fedserver_response *response) {
    fedserver_relay_give(server->relay, question, response);
}

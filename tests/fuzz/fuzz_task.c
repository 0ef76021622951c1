/* Fuzz task files: each accepted file must give a valid task. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fed/layout_reference.h"
#include "fedserver/task/config.h"
#include "fedserver/task/task_text.h"

static void check_text(const fedserver_task *task) {
    static fedserver_task back;
    fed_error err = {.status = FED_OK};
    fed_writer text, again;
    fed_writer_growing(&text);
    fed_writer_growing(&again);
    fedserver_task_text_write(task, &text);
    require(fedserver_task_text_read(1, (const char *)text.data, text.len, &back, &err) == FED_OK);
    fedserver_task_text_write(&back, &again);
    require_same(&again, text.data, text.len);
    fed_writer_free(&text);
    fed_writer_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    if (memchr(data, '@', len) != NULL) {
        return 0; /* "@FILE" would read a file of this machine */
    }
    fedserver_config config;
    fed_error err = {.status = FED_OK};
    if (fedserver_config_parse("task.json", (const char *)data, len, &config, &err) != FED_OK) {
        require(err.text[0] != '\0');
        return 0;
    }
    const fedserver_round_rules *rules = &config.task.rules;
    const fed_task *wire = &config.task.wire;
    require(rules->rounds > 0 && rules->deadline_ms > 0 && rules->minimum > 0);
    require(rules->minimum <= rules->goal && rules->goal <= rules->cohort);
    require(wire->batch > 0 && wire->local_steps > 0 && wire->learning_rate > 0);
    fed_writer w;
    fed_task sent = *wire, got;
    fed_reader r;
    sent.id = 1;
    fed_writer_growing(&w);
    fed_task_write(&w, &sent);
    fed_reader_init(&r, w.data, w.len);
    require(fed_task_read(&r, &got) == FED_OK && fed_reader_end(&r) == FED_OK);
    fed_writer_free(&w);
    check_text(&config.task);
    fed_arch arch;
    require(fedserver_config_model(&config, &arch, &err) == FED_OK);
    require((config.layout != NULL) == fed_layout_is_reference(wire->model));
    fed_arch_free(&arch);
    fedserver_config_free(&config);
    return 0;
}

/* Looking up what a task says of a round. */
#include "fedserver/task/phases.h"

#include <assert.h>
#include <string.h>

uint32_t fedserver_phase_number(const fedserver_task *task, uint32_t round) {
    uint32_t number = 0;
    while (number < task->phase_count && task->phases[number].round <= round) {
        number++;
    }
    return number;
}

fedserver_phase fedserver_phase_at(const fedserver_task *task, uint32_t number) {
    assert(number <= task->phase_count);
    if (number > 0) {
        return task->phases[number - 1];
    }
    const fed_task *wire = &task->wire;
    fedserver_phase first = {.round = 1,
                             .local_steps = wire->local_steps,
                             .batch = wire->batch,
                             .learning_rate = wire->learning_rate};
    memcpy(first.codec_up, wire->codec_up, sizeof first.codec_up);
    memcpy(first.codec_down, task->codec_down, sizeof first.codec_down);
    memcpy(first.optimizer, wire->optimizer, sizeof first.optimizer);
    return first;
}

fedserver_phase fedserver_phase_of(const fedserver_task *task, uint32_t round) {
    return fedserver_phase_at(task, fedserver_phase_number(task, round));
}

void fedserver_phase_apply(const fedserver_phase *phase, fed_task *wire) {
    wire->local_steps = phase->local_steps;
    wire->batch = phase->batch;
    wire->learning_rate = phase->learning_rate;
    memcpy(wire->codec_up, phase->codec_up, sizeof wire->codec_up);
    memcpy(wire->optimizer, phase->optimizer, sizeof wire->optimizer);
}

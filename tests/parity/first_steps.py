#!/usr/bin/env python3
"""Show how fast rounding errors grow: the loss of the first steps on a text, with our engine and with PyTorch in float32
and in float64.

    first_steps.py FEDTRAIN STEPS OPTION ...    the options are curve.py's; the model must have no dropout, as in
                                                FOR_CURVES of torch_models.py

Prints a table in Markdown: the mean loss of the first steps. All columns begin with the same weights and read the same text.
"""
# SPDX-License-Identifier: Apache-2.0
import copy
import itertools
import sys

import curve
import torch
import torch_models
from torch.nn import functional


def torch_means(net, data, options, stops):
    rule, total, means = curve.Optimizer(options.optimizer, net), 0.0, []
    net.train()
    for step, (x, label) in enumerate(itertools.islice(data.batches(), stops[-1]), 1):
        loss = functional.cross_entropy(net(x).flatten(0, -2), label.flatten())
        rule.step(loss)
        total += loss.item()
        if step in stops:
            means.append(total / step)
    return means


def main(program, steps, *words):
    options, words = curve.parse(words)
    net, _ = torch_models.build(options.model, options.seed)
    data = curve.Text(options)
    stops = [stop for stop in (1, 2, 3, 5, 10, 20, 40, 60, 100) if stop <= int(steps)]
    ours = [next(curve.run_ours(program, net, words, [stop]))[1] for stop in stops]
    theirs = [torch_means(like, data, options, stops) for like in (copy.deepcopy(net), copy.deepcopy(net).double())]
    print("| steps | ours | PyTorch in float32 | PyTorch in float64 |\n|---|---|---|---|")
    for row in zip(stops, ours, *theirs):
        print("| {} | {:.5f} | {:.5f} | {:.5f} |".format(*row))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    main(*sys.argv[1:])

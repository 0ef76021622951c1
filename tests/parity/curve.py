#!/usr/bin/env python3
"""Train a model with our engine and with PyTorch, from the same weights, with the same recipe; print both curves.

    curve.py FEDTRAIN --model MODEL --data DIR [--dataset NAME] [--epochs N] [--every STEPS] [--batch N] [--seed N]
             [--optimizer SPEC] [--augment SPEC] [--normalise] [--train-part PART] [--test-part PART]

The options are fedtrain's, and mean what they mean there. The optimizers are momentum, sgd, adam and adamw, each also with
"+cosine" and "+clip:norm". The first weights are PyTorch's. For the two engines, pictures come in different orders and are
varied by different random numbers, and different values are dropped out. So the curves are alike within noise only. A text
is read in the same order by both.

Prints a table in Markdown with a row for each epoch. With --every and pictures, there are rows within an epoch, too. A row
has the step, and for both engines the mean training loss since the previous row, the test loss, and the accuracy or
perplexity. Exit status 77 where PyTorch is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import collections
import csv
import gzip
import itertools
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("skipped: this Python has no PyTorch (deploy/setup.sh --bench installs it)")
    sys.exit(77)
from torch.nn import functional

import torch_models
from torch_optimizer import Optimizer

def contents(path):
    if os.path.exists(path):
        with open(path, "rb") as file:
            return file.read()
    with gzip.open(path + ".gz") as file:
        return file.read()


def idx_part(directory, part):
    prefix = os.path.join(directory, "t10k" if part == "test" else part)
    images = torch.frombuffer(bytearray(contents(prefix + "-images-idx3-ubyte"))[16:], dtype=torch.uint8)
    labels = torch.frombuffer(bytearray(contents(prefix + "-labels-idx1-ubyte"))[8:], dtype=torch.uint8)
    return images.reshape(-1, 1, 28, 28), labels.long()


def cifar10_part(directory, part):
    names = ["test_batch"] if part == "test" else [f"data_batch_{k}" for k in range(1, 6)]
    data = b"".join(contents(os.path.join(directory, name + ".bin")) for name in names)
    rows = torch.frombuffer(bytearray(data), dtype=torch.uint8).reshape(-1, 3073)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].long()


class Pictures:
    def __init__(self, options):
        read = cifar10_part if options.dataset == "cifar10" else idx_part
        self.options = options
        self.x, self.label = read(options.data, options.train_part)
        self.test_x, self.test_label = read(options.data, options.test_part)
        self.mean, self.deviation = 0.0, 1.0
        if options.normalise:
            channels = (self.x.double() / 255).transpose(0, 1).flatten(1)
            self.mean = channels.mean(1).float().reshape(1, -1, 1, 1)
            self.deviation = channels.std(1, unbiased=False).float().reshape(1, -1, 1, 1)
        augment = dict(pair.split("=") for pair in options.augment.split(",")) if options.augment else {}
        self.crop, self.flip = int(augment.get("crop", 0)), augment.get("flip") == "1"
        self.steps = -(-len(self.x) // options.batch)  # steps of an epoch
        self.order = self.walk()

    def walk(self):
        """Yield indices of samples without end, each pass in another random order."""
        while True:
            yield from torch.randperm(len(self.x)).tolist()

    def ready(self, pixels):
        x = (pixels.float() / 255 - self.mean) / self.deviation
        return x.reshape(len(x), *self.options.shape)

    def varied(self, x):
        if self.crop:
            padded = functional.pad(x, [self.crop] * 4)
            height, width = x.shape[2:]
            at = torch.randint(2 * self.crop + 1, (len(x), 2)).tolist()
            x = torch.stack([p[:, i:i + height, j:j + width] for p, (i, j) in zip(padded, at)])
        if self.flip:
            x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(3), x)
        return x

    def batches(self):
        for _ in range(self.steps):
            index = torch.tensor([next(self.order) for _ in range(self.options.batch)])
            yield self.ready(self.varied(self.x[index])), self.label[index]

    def test(self, net):
        loss = correct = 0
        for k in range(0, len(self.test_x), 500):
            scores, label = net(self.ready(self.test_x[k:k + 500])), self.test_label[k:k + 500]
            loss += functional.cross_entropy(scores, label, reduction="sum").item()
            correct += (scores.argmax(1) == label).sum().item()
        return loss / len(self.test_x), correct / len(self.test_x)


class Text:
    """A text as numbers of words. Words are numbered by falling frequency, equally frequent ones in the order of their
    bytes. A line ends with the word <eos>."""
    NOTHING = -100  # a label that cross_entropy ignores

    def __init__(self, options):
        self.options = options
        words = self.words(options.train_part)
        by_rank = sorted(collections.Counter(words).items(), key=lambda pair: (-pair[1], pair[0]))
        self.number = {word: k for k, (word, _) in enumerate(by_rank)}
        self.train_streams = self.side_by_side(words)
        self.test_streams = self.end_to_end(self.words(options.test_part))
        self.steps = self.train_streams[0].shape[1] // torch_models.TOKENS

    def words(self, part):
        lines = contents(os.path.join(self.options.data, f"ptb.{part}.txt")).split(b"\n")[:-1]
        return [word for line in lines for word in line.split() + [b"<eos>"]]

    def tokens(self, words):
        return torch.tensor([self.number.get(word, self.number[b"<unk>"]) for word in words])

    def side_by_side(self, words):
        """Cut the training text into streams of whole windows, whose beginnings are evenly spread over the text."""
        tokens, streams = self.tokens(words), self.options.batch
        length = (len(tokens) - 1) // streams // torch_models.TOKENS * torch_models.TOKENS
        begins = torch.arange(streams) * (len(tokens) - 1 - length) // max(streams - 1, 1)
        index = begins[:, None] + torch.arange(length)
        return tokens[index], tokens[index + 1]

    def end_to_end(self, words):
        """Cut the test text into streams in which each word is predicted once. The last windows are filled up with
        NOTHING, which does not count."""
        tokens, streams = self.tokens(words), self.options.batch
        last = len(tokens) - 1
        length = -(-last // streams)
        place = torch.arange(-(-length // torch_models.TOKENS) * torch_models.TOKENS)
        index = torch.arange(streams)[:, None] * length + place
        counts = (place < length) & (index < last)
        return tokens[index.clamp_max(last)], torch.where(counts, tokens[(index + 1).clamp_max(last)], self.NOTHING)

    def windows(self, streams):
        x, label = streams
        for k in range(0, x.shape[1] - torch_models.TOKENS + 1, torch_models.TOKENS):
            yield x[:, k:k + torch_models.TOKENS], label[:, k:k + torch_models.TOKENS]

    def batches(self):
        return self.windows(self.train_streams)

    def test(self, net):
        losses = [functional.cross_entropy(net(x).flatten(0, 1), label.flatten(), reduction="sum").item()
                  for x, label in self.windows(self.test_streams)]
        loss = sum(losses) / (self.test_streams[1] != self.NOTHING).sum().item()
        return loss, math.exp(loss)


def points(data, options):
    """The steps after which both models are measured."""
    every = options.every or data.steps
    return [epoch * data.steps + min(step, data.steps)
            for epoch in range(options.epochs) for step in range(every, data.steps + every, every)]


def forget(net):
    if hasattr(net, "hidden"):
        net.hidden = None


def run_torch(net, data, options):
    """Train with PyTorch, and yield (step, training loss, test loss, quality) at each point."""
    rule, step = Optimizer(options.optimizer, net), 0
    for point in points(data, options):
        net.train()
        if step % data.steps == 0:
            batches = data.batches()
            forget(net)
        losses = []
        for x, label in itertools.islice(batches, point - step):
            loss = functional.cross_entropy(net(x).flatten(0, -2), label.flatten())
            rule.step(loss)
            losses.append(loss.item())
        step = point
        net.eval()
        forget(net)
        with torch.no_grad():
            yield step, sum(losses) / len(losses), *data.test(net)


def save(path, net):
    """Write the weights to a safetensors file. A tensor with several names is written under its first name only."""
    header, parts, at, seen = {}, [], 0, set()
    for name, tensor in net.state_dict().items():
        if tensor.dtype == torch.float32 and tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            parts.append(tensor.contiguous().numpy().tobytes())
            header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(parts[-1])]}
            at += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def run_ours(program, net, words, stops):
    """Train with fedtrain, and yield the same at each point. fedtrain runs from point to point, since it measures at its
    end."""
    with tempfile.TemporaryDirectory() as directory:
        init, curve, checkpoint = (os.path.join(directory, name) for name in ("init", "curve", "checkpoint"))
        save(init, net)
        begin = ["--init", init]
        for stop in stops:
            subprocess.run([program, "train", *words, *begin, "--steps", str(stop), "--checkpoint", checkpoint,
                            "--csv", curve], check=True, stdout=subprocess.DEVNULL)
            begin = ["--resume"]
            with open(curve, encoding="utf-8", newline="") as file:
                row = list(csv.reader(file))[-1]
            yield int(row[1]), *map(float, row[3:6])


def parse(words):
    """Read this script's own options and fedtrain's."""
    own, parser = argparse.ArgumentParser(add_help=False), argparse.ArgumentParser()
    own.add_argument("--epochs", type=int, default=1)
    own.add_argument("--every", type=int)
    options, words = own.parse_known_args(words)
    for name, preset in (("model", None), ("data", None), ("dataset", "mnist"), ("optimizer", "adam"), ("augment", ""),
                         ("train-part", "train"), ("test-part", "test")):
        parser.add_argument("--" + name, default=preset, required=preset is None)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--normalise", action="store_true")
    return parser.parse_args(words, options), words


def main():
    program, *words = sys.argv[1:]
    options, words = parse(words)
    net, options.shape = torch_models.build(options.model, options.seed)
    data = Text(options) if options.dataset == "ptb" else Pictures(options)
    quality = "perplexity" if options.dataset == "ptb" else "accuracy"
    columns = " | ".join(f"{who} {what}" for who in ("ours:", "PyTorch:") for what in ("training loss", "test loss", quality))
    print(f"| step | {columns} |\n|{'---|' * 7}")
    ours = run_ours(program, net, words, points(data, options))  # before run_torch, which changes the initial weights
    for mine, theirs in zip(ours, run_torch(net, data, options)):
        if mine[0] != theirs[0]:
            sys.exit(f"our engine was measured at step {mine[0]}, PyTorch at {theirs[0]}")
        shown = (f"{row[1]:.4f} | {row[2]:.4f} | {f'{row[3]:.2f}' if quality == 'perplexity' else f'{row[3]:.2%}'}"
                 for row in (mine, theirs))
        print(f"| {mine[0]} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    main()

"""Compare our engine with PyTorch, step by step: same weights, same batches.

    parity.py PARITY_DUMP [MODEL ...]

For each model of models.def: the loss and the gradient of a batch; then, after some steps with each of three
optimizers, how weights and running statistics have changed, the losses on the way, and the scores at the end. All names
and shapes must be those of PyTorch's own state_dict. Without MODEL the small models are compared; if FED_PARITY is
"all", all models are.

PyTorch computes in float64, as the more exact reference. But a gradient jumps where a ReLU's input is 0, and where two
values of a max-pool's window are equal. Among millions of units a few are always so near to such a jump that rounding
decides. Hence PyTorch's ReLUs and max-pools are made to choose as ours did. Two things must stay below a bound: the
difference of the gradients, and the distance from the jump of each unit for which PyTorch would have chosen otherwise.
A column without a bound has the difference of the gradients if each engine chooses for itself.

Prints a table in Markdown: the norm of each difference, divided by the norm of the values. Exit status 1 if a number is
above its bound, 77 (skip) where PyTorch is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
from unittest import mock

try:
    import torch
except ImportError:
    print("skipped: this Python has no PyTorch (deploy/setup.sh --bench installs it)")
    sys.exit(77)
from torch.nn import functional

import torch_models
from torch_optimizer import Optimizer

SMALL = ["lr", "mlp", "hdc", "lenet5-caffe", "lenet5", "resnet20", "inception-bn-cifar", "wordlstm"]
BATCH, STEPS, FEW_STEPS = 2, 4, 2  # FEW_STEPS: for models of pictures of 224x224
OPTIMIZERS = ["sgd:lr={},decay=1e-4", "momentum:lr={},m=0.9,nesterov=1,decay=1e-4", "adam:lr=1e-3"]
RATES = collections.defaultdict(lambda: 0.01, vgg16=1e-4)  # at 0.01 vgg16 diverges


def read(directory, name):
    """The tensors of a safetensors file: a length, a JSON header, little-endian floats."""
    with open(os.path.join(directory, name + ".safetensors"), "rb") as file:
        data = file.read()
    (size,) = struct.unpack_from("<Q", data)
    tensors = {}
    for key, entry in json.loads(data[8:8 + size]).items():
        if key != "__metadata__":
            begin, end = entry["data_offsets"]
            flat = torch.frombuffer(bytearray(data[8 + size + begin:8 + size + end]), dtype=torch.float32)
            tensors[key] = flat.reshape(entry["shape"])
    return tensors


def values(directory, name):
    return read(directory, name)["values"]


def distance(a, b):
    a, b = a.double(), b.double()
    return ((a - b).norm() / b.norm().clamp_min(1e-30)).item()


def flat(tensors):
    return torch.cat([tensor.double().flatten() for tensor in tensors])


class Choices:
    """The choices of our ReLUs (on or off) and max-pools (which value), layer after layer, imposed on PyTorch's layers."""

    def __init__(self, directory, name):
        with open(os.path.join(directory, name + ".choices"), "rb") as file:
            self.data = bytearray(file.read())
        self.at = 0
        self.count = self.others = 0  # number of choices, and of those that differ in PyTorch
        self.farthest = 0.0  # largest difference of values with other choices, relative to the layer's root mean square

    def take(self, like, dtype):
        """Take one choice for each value of "like". Channels are the second dimension of "like", and the last one of
        our choices."""
        ours = torch.frombuffer(self.data, dtype=dtype, count=like.numel(), offset=self.at)
        self.at += ours.numel() * ours.element_size()
        return ours.reshape(like.movedim(1, -1).shape).movedim(-1, 1)

    def note(self, theirs, y, x):
        """Count where PyTorch's choices differ. theirs: PyTorch's output for x; y: its output with our choices."""
        gap = (theirs - y).detach().abs()
        self.count += gap.numel()
        self.others += gap.count_nonzero().item()
        self.farthest = max(self.farthest, (gap.max() / x.detach().square().mean().sqrt()).item())
        return y

    def relu(self, x, inplace=False):
        return self.note(torch.relu(x), x * self.take(x, torch.bool), x)

    def max_pool2d(self, x, kernel_size, stride, padding, *_, **__):
        theirs = torch.max_pool2d(x.detach(), kernel_size, stride, padding)
        place = self.take(theirs, torch.int32).long()
        return self.note(theirs, x.flatten(2).gather(2, place.flatten(2)).reshape(theirs.shape), x)

    @contextlib.contextmanager
    def imposed(self):
        with mock.patch.object(functional, "relu", self.relu), \
             mock.patch.object(functional, "max_pool2d", self.max_pool2d):
            yield
        if self.at != len(self.data):
            sys.exit(f"of {len(self.data)} bytes of choices PyTorch's modules took {self.at}")


class Case:
    """One model in PyTorch on the batches of a dump."""

    def __init__(self, model, directory, batch):
        self.net, shape = torch_models.build(model)
        self.net.double()
        for layer in self.net.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
            elif isinstance(layer, torch.nn.LSTM):
                layer.dropout = 0.0
        tokens = shape == "tokens"
        x = values(directory, "x")
        self.x = x.long().reshape(-1, batch, torch_models.TOKENS) if tokens else x.double().reshape(-1, batch, *shape)
        self.label = values(directory, "label").long().reshape(len(self.x), -1)
        self.start = read(directory, "start")

    def load(self, state):
        """Load our tensors into PyTorch's net by their names, all of which must fit. A shared weight has two names
        there."""
        if "encoder.weight" in state:
            state = {**state, "decoder.weight": state["encoder.weight"]}
        self.net.load_state_dict(state, strict=True)
        self.forget()

    def forget(self):
        if hasattr(self.net, "hidden"):
            self.net.hidden = None

    def loss(self, step):
        scores = self.net(self.x[step])
        return functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), self.label[step])

    def gradient(self):
        self.load(self.start)
        self.net.train()
        self.net.zero_grad()
        loss = self.loss(0)
        loss.backward()
        return loss.detach(), {name: weight.grad.clone() for name, weight in self.net.named_parameters()}

    def train(self, spec, choices):
        self.load(self.start)
        self.net.train()
        rule, losses = Optimizer(spec, self.net), []
        with choices.imposed():
            for step in range(len(self.x)):
                loss = self.loss(step)
                rule.step(loss)
                losses.append(loss.item())
        end = {name: tensor.clone() for name, tensor in self.net.state_dict().items()}
        self.net.eval()
        self.forget()
        with torch.no_grad():
            return torch.tensor(losses, dtype=torch.float64), end, self.net(self.x[0])


class Row:
    """A row of the table. Values above their bound are marked."""

    def __init__(self, model):
        self.cells, self.failed = [model], False

    def add(self, value, bound=float("inf")):
        good = value <= bound
        self.failed |= not good
        self.cells.append(f"{value:.0e}{'' if good else ' **above ' + format(bound, '.0e') + '**'}")

    def show(self):
        print(f"| {' | '.join(self.cells)} |", flush=True)


COLUMNS = ("model", "loss", "gradient", "worst tensor", "choices", "others", "farthest", "gradient, own choices",
           *(f"{spec.partition(':')[0]}: {what}" for spec in OPTIMIZERS for what in ("weights", "losses", "scores")))


def compare_gradients(row, directory, case):
    ours, choices = read(directory, "gradient"), Choices(directory, "gradient")
    with choices.imposed():
        loss, theirs = case.gradient()
    if set(ours) != set(theirs):
        sys.exit(f"{row.cells[0]}: the gradient's tensors differ: {sorted(set(ours) ^ set(theirs))}")
    ours_flat, whole = flat(ours[name] for name in theirs), flat(theirs.values())
    row.add(distance(values(directory, "loss"), loss.reshape(1)), 1e-5)
    row.add(distance(ours_flat, whole), 1e-4)
    # Compare each tensor, too, so that an error in a small tensor is seen. Norms near 0 count as `least`.
    least = 1e-2 * whole.norm()
    row.add(max(((ours[name] - grad).norm() / grad.norm().clamp_min(least)).item() for name, grad in theirs.items()), 1e-4)
    row.cells += [f"{choices.count:,}", f"{choices.others:,}"]
    row.add(choices.farthest, 1e-4)
    row.add(distance(ours_flat, flat(case.gradient()[1].values())))


def compare_training(row, directory, case, k, spec):
    end, their_losses, their_end, their_scores = read(directory, f"{k}.end"), *case.train(spec, Choices(directory, str(k)))
    row.add(distance(flat(end[n] - case.start[n] for n in end), flat(their_end[n] - case.start[n] for n in end)), 1e-2)
    row.add(distance(values(directory, f"{k}.losses"), their_losses), 1e-3)
    row.add(distance(values(directory, f"{k}.scores"), their_scores.flatten()), 1e-2)


def compare_model(program, model):
    steps = FEW_STEPS if torch_models.MODELS[model][1] == torch_models.IMAGE else STEPS
    row, optimizers = Row(model), [spec.format(RATES[model]) for spec in OPTIMIZERS]
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([program, model, str(BATCH), str(steps), directory, *optimizers], check=True)
        case = Case(model, directory, BATCH)
        compare_gradients(row, directory, case)
        for k, spec in enumerate(optimizers):
            compare_training(row, directory, case, k, spec)
    row.show()
    return row.failed


def main(program, *models):
    if not models:
        named = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
        if set(named) != set(torch_models.MODELS):
            sys.exit(f"torch_models.py and models.def differ: {sorted(set(named) ^ set(torch_models.MODELS))}")
        models = named if os.environ.get("FED_PARITY") == "all" else SMALL
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    failed = [model for model in models if compare_model(program, model)]
    if failed:
        sys.exit(f"not the same as PyTorch: {', '.join(failed)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])

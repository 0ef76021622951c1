"""Compare our engine with PyTorch, step by step: same weights, same batches.

    parity.py PARITY_DUMP [--reference] [MODEL ...]

For each model of models.def: the loss and the gradient of a batch; then, with each of three optimizers, the loss at
every step, the weights and running statistics after the last, and the scores that they give. All names and shapes must
be those of PyTorch's own state_dict. Without a MODEL the small ones; all of them if FED_PARITY is "all".

PyTorch computes in float32, and in float64 to show what is right: a ReLU whose input is nearly 0 may be on in one
engine and off in the other, and Adam makes whole steps of a gradient that is 0 but for rounding (of a bias before batch
normalization). What counts is the nearer of the two; and after several steps, that it is within a bound, or within
twice the distance that PyTorch's own float32 has from its float64, the last column.

Exit status 1 if a difference is above its bound, 77 (skip) where PyTorch is missing.
"""
import json
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

SMALL = ["lr", "mlp", "hdc", "lenet5-caffe", "lenet5", "resnet20", "inception-bn-cifar", "wordlstm"]
BATCH, STEPS, FEW_STEPS = 2, 4, 2  # few: for models of pictures of 224x224

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, weight_decay=1e-4),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-4),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3),
}

# Bounds on norms of differences over norms. Where rounding turns one ReLU on, Adam makes whole steps of all its weights.
GRADIENT, LOSS, LOSSES, SCORES = 1e-4, 1e-5, 1e-3, 1e-2
CHANGE = {"sgd": 1e-2, "momentum": 1e-2, "adam": 5e-2}


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


class Case:
    """One model in PyTorch, in one precision, on the batches of a dump."""

    def __init__(self, model, directory, batch, dtype):
        self.net, shape = torch_models.build(model)
        self.net.to(dtype)
        for layer in self.net.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
            elif isinstance(layer, torch.nn.LSTM):
                layer.dropout = 0.0
        tokens = shape == "tokens"
        x = values(directory, "x")
        self.x = x.long().reshape(-1, batch, torch_models.TOKENS) if tokens else x.to(dtype).reshape(-1, batch, *shape)
        self.label = values(directory, "label").long().reshape(len(self.x), -1)
        self.start = read(directory, "start")

    def load(self, state):
        """Our tensors, under their names: strict, but for a weight that is listed twice because it is shared."""
        if "encoder.weight" in state:
            state = {**state, "decoder.weight": state["encoder.weight"]}
        self.net.load_state_dict(state, strict=True)
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
        return loss.item(), {name: weight.grad.clone() for name, weight in self.net.named_parameters()}

    def train(self, optimizer):
        self.load(self.start)
        self.net.train()
        rule, losses = OPTIMIZERS[optimizer](self.net.parameters()), []
        for step in range(len(self.x)):
            rule.zero_grad()
            loss = self.loss(step)
            loss.backward()
            rule.step()
            losses.append(loss.item())
        end = {name: tensor.clone() for name, tensor in self.net.state_dict().items()}
        self.net.eval()
        if hasattr(self.net, "hidden"):
            self.net.hidden = None
        with torch.no_grad():
            return torch.tensor(losses), end, self.net(self.x[0])


class Report:
    def __init__(self, model):
        self.model, self.failed = model, False

    def compare(self, what, bound, to32, to64, own=0.0):
        """Ours to PyTorch in float32, and in float64; own: between these two, if that much is allowed."""
        good = min(to32, to64) <= max(bound, 2 * own)
        self.failed |= not good
        print(f"{self.model:18} {what:17} {to32:8.1e} {to64:8.1e} {bound:8.0e} {f'{own:8.1e}' if own else ''}"
              f"{'' if good else '   TOO FAR'}", flush=True)

    def compare_all(self, what, bound, ours, theirs):
        single, double = theirs
        self.compare(what, bound, distance(ours, single), distance(ours, double), distance(single, double))


def compare_gradients(report, directory, cases):
    loss, ours = values(directory, "loss"), read(directory, "gradient")
    theirs = [case.gradient() for case in cases]
    report.compare("loss", LOSS, *(distance(loss, torch.tensor([loss_of])) for loss_of, _ in theirs))
    if set(ours) != set(theirs[0][1]):
        sys.exit(f"{report.model}: the gradient's tensors differ: {sorted(set(ours) ^ set(theirs[0][1]))}")
    report.compare("gradient", GRADIENT, *(distance(flat(ours[n] for n in grad), flat(grad.values()))
                                           for _, grad in theirs))
    # Each tensor by itself too, so that a small one can't be wrong unseen; but what is near 0 only has to be so.
    whole = flat(theirs[1][1].values()).norm().item()
    worst = [max((ours[n].double() - g.double()).norm().item() / max(g.double().norm().item(), 1e-2 * whole)
                 for n, g in grad.items()) for _, grad in theirs]
    report.compare("  worst tensor", 10 * GRADIENT, *worst)


def compare_training(report, directory, cases, optimizer):
    losses, end, scores = (values(directory, f"{optimizer}.losses"), read(directory, f"{optimizer}.end"),
                           values(directory, f"{optimizer}.scores"))
    start = cases[0].start
    theirs = [case.train(optimizer) for case in cases]
    report.compare_all(f"{optimizer}: losses", LOSSES, losses, [t[0] for t in theirs])
    report.compare_all(f"{optimizer}: change", CHANGE[optimizer], flat(end[n] - start[n] for n in start),
                       [flat(t[1][n].double() - start[n].double() for n in start) for t in theirs])
    report.compare_all(f"{optimizer}: scores", SCORES, scores, [t[2].flatten() for t in theirs])


def compare_model(program, model, options):
    large = torch_models.MODELS[model][1] == torch_models.IMAGE
    batch, steps = BATCH, (FEW_STEPS if large else STEPS)
    report = Report(model)
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([program, model, str(batch), str(steps), directory, *options], check=True)
        cases = [Case(model, directory, batch, dtype) for dtype in (torch.float32, torch.float64)]
        compare_gradients(report, directory, cases)
        for optimizer in OPTIMIZERS:
            compare_training(report, directory, cases, optimizer)
    return report.failed


def main(program, *words):
    options = ["reference"] if "--reference" in words else []
    models = [word for word in words if not word.startswith("--")]
    if not models:
        named = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
        if set(named) != set(torch_models.MODELS):
            sys.exit(f"torch_models.py and models.def differ: {sorted(set(named) ^ set(torch_models.MODELS))}")
        models = named if os.environ.get("FED_PARITY") == "all" else SMALL
    print(f"{'':18} {'distance from':17} {'float32':>8} {'float64':>8} {'bound':>8} {'or twice':>8}")
    failed = [model for model in models if compare_model(program, model, options)]
    if failed:
        sys.exit(f"not the same as PyTorch: {', '.join(failed)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])

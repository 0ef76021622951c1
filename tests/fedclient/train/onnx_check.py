"""Check ONNX files with ONNX's own checker, and by running them.

    onnx_check.py DIRECTORY       checks each NAME.onnx there; NAME.in and NAME.out: float32 inputs and scores of fedtrain's net

Exit status 1 if a file is not valid, or its scores differ from NAME.out. The operators are written here from their definitions in ONNX's
documentation, for the version that the files name, and only as far as fedtrain's models use them.
"""
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper


def windows(x, kernel, strides, pads, fill):
    """Return the values in each window of a padded x, with the shape (n, c, oh, ow, kh, kw)."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(2, 3))
    return seen[:, :, ::strides[0], ::strides[1]]


def conv(a, x, w, b=None):
    n, group = x.shape[0], a["group"]
    seen = windows(x, a["kernel_shape"], a["strides"], a["pads"], 0)
    per = w.shape[0] // group
    y = [np.einsum("nchwij,ocij->nohw", seen[:, g * w.shape[1]:(g + 1) * w.shape[1]], w[g * per:(g + 1) * per], optimize=True)
         for g in range(group)]
    y = np.concatenate(y, axis=1)
    assert y.shape[0] == n
    return y if b is None else y + b[None, :, None, None]


def average_pool(a, x):
    assert not any(a["pads"])
    return windows(x, a["kernel_shape"], a["strides"], a["pads"], 0).mean(axis=(4, 5))


def batch_normalization(a, x, scale, b, mean, var):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    scale, b, mean, var = (t.reshape(shape) for t in (scale, b, mean, var))
    return (x - mean) / np.sqrt(var + a["epsilon"]) * scale + b


def lrn(a, x):
    channels, size = x.shape[1], a["size"]
    square_sum = np.zeros_like(x)
    for c in range(channels):
        first, last = max(0, c - (size - 1) // 2), min(channels - 1, c + size // 2)
        square_sum[:, c] = (x[:, first:last + 1] ** 2).sum(axis=1)
    return x / (a["bias"] + a["alpha"] / size * square_sum) ** a["beta"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(a, x, w, r, b):
    """The operator LSTM. Gates are in the order input, output, forget, cell. Returns y (t, directions, batch, hidden)."""
    hidden = a["hidden_size"]
    h = c = np.zeros((x.shape[1], hidden))
    y = []
    for x_t in x:
        gates = x_t @ w[0].T + h @ r[0].T + b[0][:4 * hidden] + b[0][4 * hidden:]
        i, o, f, g = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        y.append(h)
    return np.stack(y)[:, None]


def reshape(_, x, shape):
    return x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(shape)])


def pad(_, x, pads):
    return np.pad(x, list(zip(pads[:x.ndim], pads[x.ndim:])))


def gemm(a, x, w, b=0):
    assert a["transB"] == 1
    return x @ w.T + b


OPERATORS = {
    "Add": lambda a, x, y: x + y,
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Concat": lambda a, *x: np.concatenate(x, axis=a["axis"]),
    "Conv": conv,
    "Gather": lambda a, x, i: x[i],
    "Gemm": gemm,
    "GlobalAveragePool": lambda a, x: x.mean(axis=(2, 3), keepdims=True),
    "Identity": lambda a, x: x,
    "LRN": lrn,
    "LSTM": lstm,
    "MatMul": lambda a, x, y: x @ y,
    "MaxPool": lambda a, x: windows(x, a["kernel_shape"], a["strides"], a["pads"], -np.inf).max(axis=(4, 5)),
    "Pad": pad,
    "Relu": lambda a, x: np.maximum(x, 0),
    "Reshape": reshape,
    "Sigmoid": lambda a, x: sigmoid(x),
    "Squeeze": lambda a, x, axes: np.squeeze(x, tuple(axes)),
    "Tanh": lambda a, x: np.tanh(x),
    "Transpose": lambda a, x: x.transpose(a["perm"]),
}


def run(graph, name, x):
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    values = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in values.items()}
    values[name] = x
    for node in graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        result = OPERATORS[node.op_type](attributes, *(values[i] for i in node.input))
        values[node.output[0]] = result
    return values["scores"]


def check(path):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    used = {name for node in model.graph.node for name in node.input}
    unused = [t.name for t in model.graph.initializer if t.name not in used]
    assert not unused, f"weights that nothing reads: {unused}"
    assert len({node.name for node in model.graph.node}) == len(model.graph.node), "two nodes have one name"
    (given,), (output,) = model.graph.input, model.graph.output
    dims = given.type.tensor_type.shape.dim
    assert dims[0].dim_param == "batch" and output.name == "scores"
    x = np.fromfile(path[:-5] + ".in", np.float32).reshape([-1] + [d.dim_value for d in dims[1:]])
    ours = np.fromfile(path[:-5] + ".out", np.float32)
    x = x.astype(np.int64 if given.name == "tokens" else np.float64)
    scores = run(model.graph, given.name, x)
    want = [len(x)] + [d.dim_value for d in output.type.tensor_type.shape.dim[1:]]
    assert list(scores.shape) == want, f"scores of {scores.shape}, but the graph says {want}"
    scale = np.abs(scores).max()
    error = np.abs(scores.ravel() - ours).max() / scale
    print(f"{os.path.basename(path)}: {len(model.graph.node)} nodes, relative difference {error:.1e}")
    assert scale > 1e-3 and error < 2e-5, "the scores are not ours"


def main():
    paths = sorted(glob.glob(os.path.join(sys.argv[1], "*.onnx")))
    assert paths, "no ONNX files"
    failed = 0
    for path in paths:
        try:
            check(path)
        except Exception as problem:
            failed += 1
            print(f"{os.path.basename(path)}: {type(problem).__name__}: {problem}", file=sys.stderr)
    sys.exit(1 if failed else 0)


main()

"""The models of models.def, built from PyTorch's modules. They are written by hand, not derived from the texts in
models.def, so that a mistake in either is found. Tensors have the names under which the models were published.
"""
# SPDX-License-Identifier: Apache-2.0
import torch
from torch import nn
from torch.nn import functional


def chain(**layers):
    """A net of layers in order. Layers that have tensors are named by their keys."""
    net = nn.Sequential()
    for name, layer in layers.items():
        net.add_module(name, layer)
    return net


def lr():
    return chain(flat=nn.Flatten(), dense1=nn.Linear(784, 10))


def perceptron(*widths):
    net = nn.Sequential(nn.Flatten())
    for k, (of, to) in enumerate(zip(widths, widths[1:]), 1):
        net.add_module(f"dense{k}", nn.Linear(of, to))
        if to != widths[-1]:
            net.add_module(f"relu{k}", nn.ReLU())
    return net


def lenet5_caffe():
    return chain(conv1=nn.Conv2d(1, 20, 5), pool1=nn.MaxPool2d(2), conv2=nn.Conv2d(20, 50, 5), pool2=nn.MaxPool2d(2),
                 flat=nn.Flatten(), dense1=nn.Linear(800, 500), relu=nn.ReLU(), dense2=nn.Linear(500, 10))


def lenet5():
    return chain(conv1=nn.Conv2d(1, 6, 5, padding=2), tanh1=nn.Tanh(), pool1=nn.AvgPool2d(2),
                 conv2=nn.Conv2d(6, 16, 5), tanh2=nn.Tanh(), pool2=nn.AvgPool2d(2), flat=nn.Flatten(),
                 fc1=nn.Linear(400, 120), tanh3=nn.Tanh(), fc2=nn.Linear(120, 84), tanh4=nn.Tanh(),
                 fc3=nn.Linear(84, 10))


class Block(nn.Module):
    """A residual block: two 3x3 convolutions, or (deep) one 3x3 between two 1x1 convolutions, and the shortcut."""

    def __init__(self, width, out, stride, deep=False, projected=True):
        super().__init__()
        self.stride, self.more, last = stride, out - width, out
        if deep:
            out //= 4
            self.conv1, self.bn1 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
            self.conv2 = nn.Conv2d(out, out, 3, stride=stride, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(out)
            self.conv3, self.bn3 = nn.Conv2d(out, last, 1, bias=False), nn.BatchNorm2d(last)
        else:
            self.conv1 = nn.Conv2d(width, out, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(out)
            self.conv2, self.bn2 = nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
            self.conv3 = None
        self.downsample = None
        if projected and (stride > 1 or width != last):
            self.downsample = nn.Sequential(nn.Conv2d(width, last, 1, stride=stride, bias=False), nn.BatchNorm2d(last))

    def around(self, x):
        if self.downsample is not None:
            return self.downsample(x)
        if self.stride > 1:  # option A of He et al. 2016
            return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.more // 2, self.more // 2))
        return x

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.conv3 is not None:
            y = self.bn3(self.conv3(functional.relu(y)))
        return functional.relu(y + self.around(x))


def stage(width, out, count, stride, **kind):
    return nn.Sequential(*(Block(width if k == 0 else out, out, stride if k == 0 else 1, **kind) for k in range(count)))


def cifar_resnet(n):
    return chain(conv1=nn.Conv2d(3, 16, 3, padding=1, bias=False), bn1=nn.BatchNorm2d(16), relu=nn.ReLU(),
                 layer1=stage(16, 16, n, 1, projected=False), layer2=stage(16, 32, n, 2, projected=False),
                 layer3=stage(32, 64, n, 2, projected=False), pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(),
                 linear=nn.Linear(64, 10))


def resnet(counts, deep=False):
    net = chain(conv1=nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), bn1=nn.BatchNorm2d(64), relu=nn.ReLU(),
                maxpool=nn.MaxPool2d(3, stride=2, padding=1))
    width = 64
    for k, count in enumerate(counts):
        out = 64 * 2**k * (4 if deep else 1)
        net.add_module(f"layer{k + 1}", stage(width, out, count, 1 if k == 0 else 2, deep=deep))
        width = out
    net.add_module("avgpool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flat", nn.Flatten())
    net.add_module("fc", nn.Linear(width, 1000))
    return net


def resnet20_convs():
    """The 19 convolutions of resnet20 in a row, each with a ReLU: what bench_train measures."""
    net, width = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()), 16
    for out in [16] * 6 + [32] * 6 + [64] * 6:
        net.extend([nn.Conv2d(width, out, 3, stride=2 if out > width else 1, padding=1), nn.ReLU()])
        width = out
    return net.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)])


# ---- Large nets, with torchvision's names of layers ----

def vgg16():
    features, width = [], 3
    for count, out in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            features += [nn.Conv2d(width, out, 3, padding=1), nn.ReLU()]
            width = out
        features.append(nn.MaxPool2d(2))
    classifier = [nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
                  nn.Linear(4096, 1000)]
    return chain(features=nn.Sequential(*features), flat=nn.Flatten(), classifier=nn.Sequential(*classifier))


def alexnet():
    features = [nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, stride=2),
                nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, stride=2),
                nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
                nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, stride=2)]
    classifier = [nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
                  nn.Linear(4096, 1000)]
    return chain(features=nn.Sequential(*features), flat=nn.Flatten(), classifier=nn.Sequential(*classifier))


def unit(width, out, k, stride=1):
    return chain(conv=nn.Conv2d(width, out, k, stride=stride, padding=k // 2), bn=nn.BatchNorm2d(out), relu=nn.ReLU())


class Mix(nn.Module):
    """Branches side by side, each a list of units by name; their outputs are joined."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = branches  # lists of names of units
        self.out = 0

    def add(self, name, width, out, k, stride=1):
        self.add_module(name, unit(width, out, k, stride))

    def forward(self, x):
        outputs = []
        for branch in self.branches:
            y = x
            for name in branch:
                y = getattr(self, name)(y)
            outputs.append(y)
        return torch.cat(outputs, 1)


def mix(width, a, b, c, d, e, f, pool):
    block = Mix(["1x1"], ["3x3_reduce", "3x3"], ["double_reduce", "double_0", "double_1"], ["pool", "proj"])
    block.add("1x1", width, a, 1)
    block.add("3x3_reduce", width, b, 1)
    block.add("3x3", b, c, 3)
    block.add("double_reduce", width, d, 1)
    block.add("double_0", d, e, 3)
    block.add("double_1", e, e, 3)
    block.pool = pool(3, stride=1, padding=1)
    block.add("proj", width, f, 1)
    block.out = a + c + e + f
    return block


def down(width, b, c, d, e):
    block = Mix(["3x3_reduce", "3x3"], ["double_reduce", "double_0", "double_1"], ["pool"])
    block.add("3x3_reduce", width, b, 1)
    block.add("3x3", b, c, 3, 2)
    block.add("double_reduce", width, d, 1)
    block.add("double_0", d, e, 3)
    block.add("double_1", e, e, 3, 2)
    block.pool = nn.MaxPool2d(3, stride=2, padding=1)
    block.out = width + c + e
    return block


def inception_bn():
    net = nn.Sequential()
    net.add_module("1", unit(3, 64, 7, 2))
    net.add_module("pool1", nn.MaxPool2d(3, stride=2))
    net.add_module("2_reduce", unit(64, 64, 1))
    net.add_module("2", unit(64, 192, 3))
    net.add_module("pool2", nn.MaxPool2d(3, stride=2))
    width = 192
    for name, *sizes in (("3a", 64, 64, 64, 64, 96, 32), ("3b", 64, 64, 96, 64, 96, 64), ("3c", 128, 160, 64, 96),
                         ("4a", 224, 64, 96, 96, 128, 128), ("4b", 192, 96, 128, 96, 128, 128),
                         ("4c", 160, 128, 160, 128, 160, 128), ("4d", 96, 128, 192, 160, 192, 128),
                         ("4e", 128, 192, 192, 256), ("5a", 352, 192, 320, 160, 224, 128),
                         ("5b", 352, 192, 320, 192, 224, 128)):
        block = down(width, *sizes) if len(sizes) == 4 else mix(width, *sizes,
                                                                nn.MaxPool2d if name == "5b" else nn.AvgPool2d)
        net.add_module(name, block)
        width = block.out
    net.add_module("pool3", nn.AdaptiveAvgPool2d(1))
    net.add_module("flat", nn.Flatten())
    net.add_module("fc1", nn.Linear(width, 1000))
    return net


def inception_bn_cifar():
    net, width = nn.Sequential(), 96
    net.add_module("1", unit(3, 96, 3))
    for name, *sizes in (("3a", 32, 32), ("3b", 32, 48), ("3c", 80), ("4a", 112, 48), ("4b", 96, 64), ("4c", 80, 80),
                         ("4d", 48, 96), ("4e", 96), ("5a", 176, 160), ("5b", 176, 160)):
        if len(sizes) == 2:
            block = Mix(["1x1"], ["3x3"])
            block.add("1x1", width, sizes[0], 1)
            block.add("3x3", width, sizes[1], 3)
            width = sum(sizes)
        else:
            block = Mix(["3x3"], ["pool"])
            block.add("3x3", width, sizes[0], 3, 2)
            block.pool = nn.MaxPool2d(3, stride=2, padding=1)
            width += sizes[0]
        net.add_module(name, block)
    net.add_module("pool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flat", nn.Flatten())
    net.add_module("fc1", nn.Linear(width, 10))
    return net


class WordLSTM(nn.Module):
    """The model of PyTorch's example word_language_model with --tied. The LSTM's state is kept from batch to batch."""

    def __init__(self, size, share):
        super().__init__()
        self.drop = nn.Dropout(share)
        self.encoder = nn.Embedding(10000, size)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        self.rnn = nn.LSTM(size, size, 2, dropout=share, batch_first=True)
        self.decoder = nn.Linear(size, 10000)
        self.decoder.weight = self.encoder.weight
        self.hidden = None

    def forward(self, x):
        y, hidden = self.rnn(self.drop(self.encoder(x)), self.hidden)
        self.hidden = tuple(h.detach() for h in hidden)
        return self.decoder(self.drop(y))


# ---- Models by name, with the shape of a sample or "tokens" ----

PICTURE, DIGIT, IMAGE = (3, 32, 32), (1, 28, 28), (3, 224, 224)

MODELS = {
    "lr": (lr, (784,)),
    "mlp": (lambda: perceptron(784, 200, 200, 10), (784,)),
    "hdc": (lambda: perceptron(784, 500, 500, 500, 500, 10), (784,)),
    "lenet5-caffe": (lenet5_caffe, DIGIT),
    "lenet5": (lenet5, DIGIT),
    "resnet20": (lambda: cifar_resnet(3), PICTURE),
    "resnet32": (lambda: cifar_resnet(5), PICTURE),
    "resnet110": (lambda: cifar_resnet(18), PICTURE),
    "resnet18": (lambda: resnet((2, 2, 2, 2)), IMAGE),
    "resnet34": (lambda: resnet((3, 4, 6, 3)), IMAGE),
    "resnet50": (lambda: resnet((3, 4, 6, 3), deep=True), IMAGE),
    "vgg16": (vgg16, IMAGE),
    "alexnet": (alexnet, IMAGE),
    "inception-bn": (inception_bn, IMAGE),
    "inception-bn-cifar": (inception_bn_cifar, PICTURE),
    "wordlstm": (lambda: WordLSTM(200, 0.2), "tokens"),
    "wordlstm-medium": (lambda: WordLSTM(650, 0.5), "tokens"),
}
FOR_BENCHMARKS = {"resnet20-convs": (resnet20_convs, PICTURE)}
# A model for curve.py, without dropout, so that both learning curves must agree.
FOR_CURVES = {"input tokens 35 of 10000 | encoder: embedding 200 | rnn: lstm 200 layers 2 | decoder: dense 10000 each tied encoder":
              (lambda: WordLSTM(200, 0.0), "tokens")}
TOKENS, WORDS = 35, 10000


def build(name, seed=1):
    """The model, with weights as PyTorch draws them, and the shape of a sample, or "tokens"."""
    torch.manual_seed(seed)
    make, shape = {**MODELS, **FOR_BENCHMARKS, **FOR_CURVES}[name]
    return make(), shape

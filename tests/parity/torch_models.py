"""The models of models.def as PyTorch's own modules, with the tensor names that the text there gives.

Nothing here is derived from that text: it says independently what each model is.
"""
import torch
from torch import nn


def chain(**layers):
    """Layers in order; the names of those that have tensors are their keys."""
    net = nn.Sequential()
    for name, layer in layers.items():
        net.add_module(name, layer)
    return net


def lr():
    return chain(flat=nn.Flatten(), dense1=nn.Linear(784, 10))


def lenet5_caffe():
    return chain(conv1=nn.Conv2d(1, 20, 5), pool1=nn.MaxPool2d(2), conv2=nn.Conv2d(20, 50, 5), pool2=nn.MaxPool2d(2),
                 flat=nn.Flatten(), dense1=nn.Linear(800, 500), relu=nn.ReLU(), dense2=nn.Linear(500, 10))


def hdc():
    return chain(flat=nn.Flatten(), dense1=nn.Linear(784, 500), relu1=nn.ReLU(), dense2=nn.Linear(500, 500),
                 relu2=nn.ReLU(), dense3=nn.Linear(500, 500), relu3=nn.ReLU(), dense4=nn.Linear(500, 500),
                 relu4=nn.ReLU(), dense5=nn.Linear(500, 10))


def resnet20_convs():
    """Its 19 convolutions in a row, each with a ReLU: what bench_train measures."""
    net, width = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()), 16
    for out in [16] * 6 + [32] * 6 + [64] * 6:
        net.extend([nn.Conv2d(width, out, 3, stride=2 if out > width else 1, padding=1), nn.ReLU()])
        width = out
    return net.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)])


MODELS = {"lr": lr, "lenet5-caffe": lenet5_caffe, "hdc": hdc, "resnet20-convs": resnet20_convs}

INPUTS = {"lr": (784,), "lenet5-caffe": (1, 28, 28), "hdc": (784,), "resnet20-convs": (3, 32, 32)}


def build(name):
    """The model, with weights as PyTorch draws them, and the shape of one sample."""
    torch.manual_seed(1)
    return MODELS[name](), INPUTS[name]

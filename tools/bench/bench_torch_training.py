#!/usr/bin/env python3
"""Times what training takes in PyTorch on one GPU, float32, to set beside talc's times: gradients of convolutions and transposed
convolutions. Training steps of networks are timed by compare_models.py --train.

usage: bench_torch_training.py [transposed] [PROBLEM ...]      all of them without arguments; a problem is a name of `talc bench --list`

talc's own: `talc bench -d cuda A_dx A_dw ...`, the same for the input gradients that transposed convolutions are. Milliseconds: the least of several rounds, the better of cuDNN's choice by
rule and by measurement; with TF32 the better of NCHW and channels last.
"""

import re
import sys

import torch
import torch.nn.functional as F
from torch import nn

from bench_torch import least_seconds

PROBLEMS = {
    "A": "n8c64h512w256o128k5x7p0", "B": "n8c32h512w512o64k5x9p0", "kb55": "n8c64h512w1024o128k3x3p0",
    "kb63": "n16c16h1024w1024o128k3x3p0", "resnet56": "n64c64h56w56o64k3x3p1", "resnet14": "n64c256h14w14o256k3x3p1",
    "vgg112": "n32c128h112w112o128k3x3p1",
}
# KernelBench, level 1: images, channels, output channels, height and width, then nn.ConvTranspose2d's options.
TRANSPOSED = {
    "kb57": (8, 64, 64, (1024, 1024), dict(kernel_size=(3, 3))),
    "kb65": (8, 64, 64, (512, 512), dict(kernel_size=(3, 7))),
    "kb69": (64, 64, 128, (128, 256), dict(kernel_size=(3, 5))),
    "kb71": (8, 32, 32, (512, 1024), dict(kernel_size=(3, 3))),
    "kb75": (16, 32, 64, (128, 256), dict(kernel_size=(3, 5), stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=4)),
    "kb78": (8, 32, 32, (512, 1024), dict(kernel_size=(3, 7), padding=(1, 3))),
    "kb81": (16, 32, 64, (64, 128), dict(kernel_size=(3, 3), stride=5, padding=1, dilation=2)),
}


def least_milliseconds(run):
    best = float("inf")
    for torch.backends.cudnn.benchmark in (False, True):
        best = min(best, least_seconds(lambda _: run(), 1))
    return best * 1e3


def time_gradients(name):
    n, c, h, w, oc, kh, kw, pad = map(int, re.findall(r"\d+", PROBLEMS[name]))
    shapes = (n, oc, h + 2 * pad - kh + 1, w + 2 * pad - kw + 1), (n, c, h, w), (oc, c, kh, kw)
    operands = [torch.randn(shape, device="cuda") for shape in shapes]
    times = []
    for torch.backends.cudnn.allow_tf32 in (False, True):
        best = float("inf")
        for layout in (torch.contiguous_format, torch.channels_last)[:1 + torch.backends.cudnn.allow_tf32]:
            dy, x, weight = (operand.to(memory_format=layout) for operand in operands)
            best = min(best, least_milliseconds(lambda: torch.ops.aten.convolution_backward(
                dy, x, weight, None, [1, 1], [pad, pad], [1, 1], False, [0, 0], 1, [True, True, False])))
        times.append(best)
    print(f"{name:9} dx and dw: fp32 {times[0]:8.3f}  TF32 {times[1]:8.3f}", flush=True)


def time_transposed():
    torch.backends.cudnn.allow_tf32 = False
    for name, (n, c, oc, extents, options) in TRANSPOSED.items():
        layer, x = nn.ConvTranspose2d(c, oc, bias=False, **options).cuda(), torch.randn(n, c, *extents, device="cuda")
        with torch.no_grad():
            print(f"{name:9} transposed: fp32 {least_milliseconds(lambda: layer(x)):8.3f}", flush=True)


def main(names):
    unknown = [name for name in names if name not in PROBLEMS and name not in ("transposed",)]
    if unknown:
        sys.exit(f"bench_torch_training.py: no problem '{unknown[0]}'; there are {' '.join(PROBLEMS)}")
    if not torch.cuda.is_available():
        sys.exit("bench_torch_training.py: PyTorch finds no GPU")
    for name in names or ["transposed", *PROBLEMS]:
        if name in PROBLEMS:
            time_gradients(name)
        else:
            time_transposed()


if __name__ == "__main__":
    main(sys.argv[1:])

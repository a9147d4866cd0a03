#!/usr/bin/env python3
"""Times talc's convolutions and their gradients beside PyTorch's on one GPU, in one run, and prints a table.

usage: bench_torch.py TALC [PROBLEM ...]        TALC is the talc command; problems and sets as `talc bench` takes them (gpu)

For each problem, strict and with TF32 admitted, first `talc bench` runs the algorithm that talc chooses, then PyTorch does
the same convolution without TF32 and with it: the best of NCHW and channels last, and of cuDNN's choice by rule and by
measurement. Both are timed by events, the least of several rounds, each run on the next of as many sets of operands as talc
used. A transposed convolution is the gradient by the input (_dx) of the convolution with x and y exchanged.
"""

import os
import re
import sys

import torch
import torch.nn.functional as F

from bench_tables import talc

ROUNDS = 5
ROUND_SECONDS = 0.02


def least_seconds(run, sets):
    """The least mean time of a run, in rounds of about ROUND_SECONDS."""
    def timed(count):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for i in range(count):
            run(i % sets)
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / 1e3

    timed(1)
    count = max(1, min(1000, int(ROUND_SECONDS / timed(1))))
    timed(count)
    return min(timed(count) for _ in range(ROUNDS)) / count


def torch_seconds(p, direction, sets, layout):
    """The seconds of a problem in one layout; direction is "", "dx" or "dw"."""
    def random(*extents):
        return (torch.rand(extents, device="cuda") - 0.5).to(memory_format=layout)

    x, w = (p["N"], p["C"], p["H"], p["W"]), (p["OC"], p["C"] // p["groups"], p["KH"], p["KW"])
    y = (p["N"], p["OC"], p["OH"], p["OW"])
    stride, padding, dilation = ((p[f"{name}"], p[f"{other}"]) for name, other in
                                 (("stride_h", "stride_w"), ("pad_top", "pad_left"), ("dilation_h", "dilation_w")))
    xs = [random(*(y if direction == "dx" else x)) for _ in range(sets)]
    weight = random(*(y if direction == "dw" else w))  # what is not taken in turn
    kept = [None] * sets

    def run(i):
        kept[i] = None
        if direction == "":
            kept[i] = F.conv2d(xs[i], weight, stride=stride, padding=padding, dilation=dilation, groups=p["groups"])
            return
        dy, other = (xs[i], weight) if direction == "dx" else (weight, xs[i])
        operands = (dy, like, other) if direction == "dx" else (dy, other, like)
        kept[i] = torch.ops.aten.convolution_backward(
            *operands, None, stride, padding, dilation, False, [0, 0], p["groups"], [direction == "dx", direction == "dw", False])

    like = random(*(x if direction == "dx" else w)) if direction else None
    return min(least_seconds(run, sets) for torch.backends.cudnn.benchmark in (False, True))


def milliseconds(seconds):
    return f"{seconds * 1e3:.3f}"


def columns(command, name, tf32):
    """The columns of one class: algorithm, talc's time, its share of the copy rate where that is strict, PyTorch's, their ratio."""
    # One process at a time on the GPU: PyTorch's memory goes back first.
    torch.cuda.empty_cache()
    done = talc(command, "bench", name, "--chosen", "--unchecked", "--device", "cuda", "--no-peers",
                environment={**os.environ, "TALC_PRECISION": "tf32" if tf32 else "strict"})["problems"][0]
    p = done["problem"]
    if p["padding_mode"] != "zeros" or (p["pad_top"], p["pad_left"]) != (p["pad_bottom"], p["pad_right"]):
        raise SystemExit(f"{name}: PyTorch's convolution has no such padding")
    ran = next(c for c in done["contenders"] if c["timed"])
    title = ran["name"] + (f" ({ran['form']})" if ran["form"] else "")
    torch.backends.cudnn.allow_tf32 = tf32
    direction = re.search(r"(?:_(dx|dw))?$", p["text"]).group(1) or ""
    best = min(torch_seconds(p, direction, done["sets"], layout) for layout in (torch.contiguous_format, torch.channels_last))
    share = [] if tf32 else [f"{ran['share_of_copy']:.0%}", f"{ran['share_of_product']:.0%}"]
    return [title, milliseconds(ran["seconds_least"]), *share, milliseconds(best), f"{best / ran['seconds_least']:.2f}"]


def main(command, problems):
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_grad_enabled(False)
    listed = talc(command, "bench", "--list")
    names = []
    for problem in problems or ["gpu"]:
        names += [row["name"] for row in listed if problem in (row["set"], row["name"]) and "problem" in row] or [problem]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}\n")
    heads = ["problem", "strict", "ms", "of the copy", "of the product", "PyTorch fp32", "over talc",
             "TF32 class", "ms", "PyTorch TF32", "over talc"]
    print(f"| {' | '.join(heads)} |\n|{'-|' * len(heads)}")
    for name in names:
        print(f"| {' | '.join([name, *columns(command, name, False), *columns(command, name, True)])} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__.strip())
    main(sys.argv[1], sys.argv[2:])

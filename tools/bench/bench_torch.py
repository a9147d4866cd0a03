#!/usr/bin/env python3
"""Times the fastest of talc's convolutions beside PyTorch's on one GPU, in one run, and prints a table.

usage: bench_torch.py TALC [PROBLEM ...]        TALC is the talc command; problems and sets as `talc bench` takes them (gpu)

For each problem first `talc bench` runs, then PyTorch does the same convolution: float32 in NCHW and
channels last, TF32 off, cuDNN's choice by rule and by measurement, the better counting. Both are timed by events, the least
of several rounds, each run on the next of as many sets of operands as talc used.
"""

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


def torch_seconds(p, sets, layout):
    x = torch.rand(p["N"], p["C"], p["H"], p["W"], device="cuda")
    w = torch.rand(p["OC"], p["C"] // p["groups"], p["KH"], p["KW"], device="cuda") - 0.5
    xs = [x.clone().to(memory_format=layout) for _ in range(sets)]
    w = w.to(memory_format=layout)
    del x
    kept = [None] * sets

    def run(i):
        kept[i] = None
        kept[i] = F.conv2d(xs[i], w, stride=(p["stride_h"], p["stride_w"]), padding=(p["pad_top"], p["pad_left"]),
                           dilation=(p["dilation_h"], p["dilation_w"]), groups=p["groups"])

    best = float("inf")
    for torch.backends.cudnn.benchmark in (False, True):
        best = min(best, least_seconds(run, sets))
    return best


def milliseconds(seconds):
    return "" if seconds is None else f"{seconds * 1e3:.3f}"


def main(command, problems):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.set_grad_enabled(False)
    listed = talc(command, "bench", "--list")
    names = []
    for problem in problems or ["gpu"]:
        names += [row["name"] for row in listed if problem in (row["set"], row["name"]) and "problem" in row] or [problem]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}\n")
    print("| problem | algorithm | talc, ms | of the copy rate | of the product rate | PyTorch NCHW, ms | NHWC, ms | NCHW over talc |")
    print("|-|-|-|-|-|-|-|-|")
    for name in names:
        # One process at a time on the GPU: PyTorch's memory goes back first.
        torch.cuda.empty_cache()
        done = talc(command, "bench", name, "--device", "cuda", "--no-peers")["problems"][0]
        p = done["problem"]
        if p["padding_mode"] != "zeros" or (p["pad_top"], p["pad_left"]) != (p["pad_bottom"], p["pad_right"]):
            raise SystemExit(f"{name}: PyTorch's convolution has no such padding")
        rows = [c for c in done["contenders"] if c["timed"]]
        best = min(rows, key=lambda c: c["seconds_least"])
        nchw = torch_seconds(p, done["sets"], torch.contiguous_format)
        nhwc = torch_seconds(p, done["sets"], torch.channels_last)
        print(f"| {name} | {best['name']} | {milliseconds(best['seconds_least'])} | {best['share_of_copy']:.1%} | "
              f"{best['share_of_product']:.1%} | {milliseconds(nchw)} | {milliseconds(nhwc)} | "
              f"{nchw / best['seconds_least']:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__.strip())
    main(sys.argv[1], sys.argv[2:])

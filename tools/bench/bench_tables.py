#!/usr/bin/env python3
"""Prints the tables of docs/performance.md, all measured now.

usage: bench_tables.py BUILD [DEVICE]        BUILD is the build folder; cuda unless a device is named

Convolutions and networks are timed beside PyTorch where it is installed and finds the GPU: some fifteen minutes in all.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

ROUNDS = "9"
SETS = "quick edges models random"
GRADIENTS = [f"{name}_{direction}" for name in "A B kb55 kb63 resnet56 resnet14 vgg112".split() for direction in ("dx", "dw")]
# KernelBench's transposed convolutions, level 1, 57 to 81.
TRANSPOSED = ("n8c64h1026w1026o64k3x3_dx n8c64h514w518o64k3x7_dx n64c128h130w260o64k3x5_dx n8c32h514w1026o32k3x3_dx "
              "n16c64h257w766o32k3x5s2x3p1x2d2x1g4_dx n8c32h512w1024o32k3x7p1x3_dx n16c64h318w638o32k3x3s5x5p1x1d2x2_dx").split()
NETWORKS = "resnet18 resnet50 vgg16 mobilenet_v2 efficientnet_b0 densenet121".split()
NETWORK_TABLES = (("Networks, 1 image", ["lenet", "resnet20", *NETWORKS], ["--batch", "1"]),
                  ("Networks, 32 images", NETWORKS, ["--batch", "32"]),
                  ("Training steps, 32 images", ["lenet", "resnet20", *NETWORKS], ["--batch", "32", "--train"]))
OPS = ("relu add transpose transpose_u8 deep_nhwc sum sum_rows sum_rows_10 mean_planes_7 argmax_rows_1001 softmax softmax_short "
       "softmax_odd softmax_long batch_norm batch_norm_train batch_norm_train_7")
POOLING = "max_pool_2 max_pool_3 max_pool_3i avg_pool_3 adaptive_56 global_avg_pool max_3_56 avg_3_56 avg_5_28 max_11_2048"
CALLS = "view relu add sum softmax max_pool2d batch_norm2d matmul conv2d conv2d_1x1"


def talc(command, *arguments, environment=None):
    done = subprocess.run([command, *arguments, "--json"], check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def number(value, digits=3):
    return "" if value is None else f"{value:.{digits}g}" if value < 1000 else f"{value:.0f}"


def percent(value):
    return "" if value is None else f"{100 * value:.1f} %"


def milliseconds(seconds):
    return number(seconds * 1e3)


def heading(text, *columns):
    print(f"\n## {text}\n\n| {' | '.join(columns)} |\n|{'-|' * len(columns)}", flush=True)


def print_convolutions(command, device):
    heading("Convolutions", "convolution", "algorithm", "ms", "TFLOP/s", "of the product", "GB/s", "of the copy")
    for problem in talc(command, "bench", "A", "B", "gpu", "--device", device, "--repeat", ROUNDS, "--no-peers")["problems"]:
        c = min((c for c in problem["contenders"] if c["timed"]), key=lambda c: c["seconds_least"])
        print(f"| {problem['name']} | {c['name']} | {milliseconds(c['seconds_least'])} | {number(c['gflops'] / 1e3)} | "
              f"{percent(c['share_of_product'])} | {number(c['gigabytes_per_second'])} | {percent(c['share_of_copy'])} |")


def print_ops(title, command, device, ops, what):
    heading(title, "op on 1 GiB", "", "ms", "GB/s", "of the copy")
    for op in talc(command, "bench", *ops.split(), "--device", device, "--repeat", ROUNDS)["ops"]:
        print(f"| {op['name']} | {what[op['name']]} | {milliseconds(op['seconds_least'])} | "
              f"{number(op['gigabytes_per_second'])} | {percent(op['share_of_copy'])} |")


def print_calls(command, device, what):
    heading("What a call costs", "call", "", "microseconds")
    for op in talc(command, "bench", *(f"host_{call}" for call in CALLS.split()), "--device", device, "--repeat", ROUNDS)["ops"]:
        if op["timed"]:
            print(f"| {op['name'].removeprefix('host_')} | {what[op['name']]} | {op['seconds_least'] * 1e6:.2f} |")


def print_demo(command, device):
    heading("The demo", "problem", "ms", "share of the bound", "peak memory, MB")
    for problem in "A", "B":
        run = talc(command, "run", "model-new", "--problem", problem, "--device", device)
        print(f"| {problem} | {milliseconds(run['seconds'])} | {percent(run['check']['share_of_bound'])} | "
              f"{number(run['peak_memory'] / 1e6)} |")


def print_checks(command, device):
    heading("The check", "set", "problems", "checks", "failed")
    for name in SETS.split():
        counted = ["1000"] if name == "random" else []
        done = talc(command, "check", name, *counted, "--device", device)
        checks, failed = (sum(row[key] for row in done["rows"]) for key in ("checks", "failed"))
        print(f"| {name} | {done['problems']} | {checks:,} | {failed} |", flush=True)


def has_torch(device):
    if device == "cpu" or importlib.util.find_spec("torch") is None:
        return False
    import torch
    return torch.cuda.is_available()


def main(build, device="cuda"):
    command = str(Path(build) / "tools" / "talc")
    what = {row["name"]: row["what"] for row in talc(command, "bench", "--list")}
    rates = talc(command, "bench", "relu", "--device", device)
    print(f"{rates['description']}: a large product makes {number(rates['product_flops_per_second'] / 1e12)} TFLOP/s, "
          f"a large copy moves {number(rates['copy_bytes_per_second'] / 1e9, 4)} GB/s.")
    if has_torch(device):
        import bench_products
        import bench_torch
        for title, problems in ("Convolutions", ["A", "B", "gpu"]), ("Gradients", GRADIENTS), ("Transposed", TRANSPOSED):
            print(f"\n## {title}\n")
            bench_torch.main(command, problems)
        print("\n## Matrix products", flush=True)
        bench_products.main(str(Path(build) / "libtalc.so"), 100)
    else:
        print_convolutions(command, device)
    print_ops("Other ops", command, device, OPS, what)
    print_ops("Pooling", command, device, POOLING, what)
    print_calls(command, device, what)
    if has_torch(device):
        compare = Path(__file__).parents[1] / "torch" / "compare_models.py"
        for title, networks, options in NETWORK_TABLES:
            print(f"\n## {title}\n", flush=True)
            subprocess.run([sys.executable, compare, command, *networks, *options, "--brief", "--turns", "1"], check=True)
    print_demo(command, device)
    print_checks(command, device)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__.strip())
    main(*sys.argv[1:])

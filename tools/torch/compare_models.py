#!/usr/bin/env python3
"""Times networks on a GPU in talc and in PyTorch, taking turns in one run.

    compare_models.py build/tools/talc [NETWORK ...] [--batch 1] [--train]
                      [--compile] [--turns 3] [--brief]

talc's figures come from `talc bench`, eager and recorded, strict and with TF32
admitted; PyTorch's are eager, by torch.cuda.CUDAGraph, that also with weights
and images in channels last, and, with --compile, by
torch.compile(mode="max-autotune"), with cudnn.benchmark on, without TF32 and
with it. With --train they are training steps: forward, cross entropy, backward,
SGD with momentum and weight decay. "latency" is one pass with a wait for the
GPU after it, "in a row" the time of each of passes that are waited for
together: the least and the median of all turns' rounds, in microseconds. Memory
is the most that was held at once, in MB. --brief prints a line a network: of the
least times in a row talc's recorded and eager ones in milliseconds, strict and
with TF32 admitted, beside the least of PyTorch's ways, and the memory of both.
"""
import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time

try:
    import torch
    from torch.nn import functional as F
except ImportError as missing:
    print(f"compare_models.py needs PyTorch: {missing}", file=sys.stderr)
    sys.exit(2)

import networks

DEFAULT = ["lenet", "resnet20", "resnet18", "resnet50", "vgg16", "mobilenet_v2", "efficientnet_b0", "densenet121"]


# ---- PyTorch --------------------------------------------------------------------------------------------------------

def on_side_stream(run, count):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(count):
            run()
    torch.cuda.current_stream().wait_stream(side)


def graphed(run):
    on_side_stream(run, 5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def model_and_images(name, batch, way):
    layout = torch.channels_last if way == "graph channels last" else torch.contiguous_format
    model, x = networks.make(name).cuda(), torch.randn(batch, *networks.image(name), device="cuda")
    return model.to(memory_format=layout), x.to(memory_format=layout)


def forward_pass(name, batch, way):
    model, x = model_and_images(name, batch, way)
    model = model.eval()
    model = torch.compile(model, mode="max-autotune") if way == "compile" else model

    def run():
        with torch.inference_mode():
            return model(x)
    return graphed(run) if way.startswith("graph") else run


def training_step(name, batch, way):
    model, x = model_and_images(name, batch, way)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4, foreach=True)
    labels = torch.randint(0, networks.NETWORKS[name][3], (len(model(x)),), device="cuda")
    forward = torch.compile(model, mode="max-autotune-no-cudagraphs") if way == "compile" else model

    def run():
        optimizer.zero_grad(set_to_none=True)
        y = forward(x)
        (F.cross_entropy(y, labels) if y.dim() == 2 else (y * y).mean()).backward()
        optimizer.step()
    return graphed(run) if way.startswith("graph") else run


def seconds(run, count):
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(count):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / count


def measure_torch(times, way, run):
    once = max(seconds(run, 1) for _ in range(3))
    for what, count in ("latency", 1), ("in a row", max(1, min(50, int(0.5 / once)))):
        rounds = max(3, min(51, int(1 / (once * count))))
        times.setdefault((f"PyTorch {way}", what), []).extend(1e6 * seconds(run, count) for _ in range(rounds))


def torch_ways(options, name):
    """(way, whether TF32 is allowed, function), one after the other, each freed before the next."""
    for way in ["eager", "graph", "graph channels last"] + ["compile"] * options.compile:
        for tf32 in (False, True):
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
            torch.cuda.reset_peak_memory_stats()
            try:
                run = (training_step if options.train else forward_pass)(name, options.batch, way)
                for _ in range(5):
                    run()
                yield way + " TF32" * tf32, run, torch.cuda.max_memory_allocated()
            except Exception as error:  # pylint: disable=broad-except
                print(f"{name}: PyTorch {way}: {str(error).splitlines()[0]}", file=sys.stderr)
            run = None
            gc.collect()
            torch._dynamo.reset()
            torch.cuda.empty_cache()


# ---- talc -----------------------------------------------------------------------------------------------------------

def measure_talc(times, peaks, options, name):
    for precision in "strict", "tf32":
        command = [options.talc, "bench", name, "--batch", str(options.batch), "--device", "cuda", "--json"]
        done = subprocess.run(command + ["--train"] * options.train, env={**os.environ, "TALC_PRECISION": precision},
                              capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{name}: {done.stderr}", file=sys.stderr)
            continue
        for way in json.loads(done.stdout)["ways"]:
            label = f"talc {way['way']}" + " TF32" * (precision == "tf32")
            peaks[label] = way["peak"]
            for what, key in ("latency", "latency"), ("in a row", "in_a_row"):
                times.setdefault((label, what), []).extend(1e6 * t for t in way[key])


def print_brief(name, times, peaks):
    cells = [name]
    for tf32 in (False, True):
        ours, eager = "talc graph" + " TF32" * tf32, "talc eager" + " TF32" * tf32
        theirs = [way for way, what in times if way.startswith("PyTorch") and way.endswith("TF32") == tf32 and what == "in a row"]
        least = {way: min(times[way, "in a row"]) for way in [ours, eager, *theirs] if (way, "in a row") in times}
        best = min(theirs, key=least.get, default=None)
        known = ours in least and best is not None
        cells += [f"{least[way] / 1e3:.3f}" if way in least else "" for way in (ours, eager, best)]
        cells += [f"{least[best] / least[ours]:.2f}" if known else ""]
        if not tf32:
            memory = [f"{peaks[way] / 1e6:,.0f}" if way in peaks else "" for way in (ours, best)]
    print(f"| {' | '.join(cells + memory)} |", flush=True)


def compare(options, name):
    times, peaks = {}, {}
    for _ in range(options.turns):
        measure_talc(times, peaks, options, name)
        for way, run, peak in torch_ways(options, name):
            peaks["PyTorch " + way] = peak
            measure_torch(times, way, run)
    if options.brief:
        print_brief(name, times, peaks)
        return
    for (way, what), taken in sorted(times.items()):
        print(f"| {name} | {way} | {what} | {min(taken):.1f} | {statistics.median(taken):.1f} | {peaks[way] / 1e6:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("talc", help="the built command, build/tools/talc")
    parser.add_argument("networks", nargs="*", default=DEFAULT, help="names (" + ", ".join(DEFAULT) + ")")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--train", action="store_true", help="training steps in place of forward passes")
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which takes minutes a network")
    parser.add_argument("--brief", action="store_true", help="one line a network")
    options = parser.parse_args()
    for name in options.networks:
        if name not in networks.NETWORKS:
            parser.error(f"there is no network '{name}'; there are {', '.join(networks.NETWORKS)}")
    if not torch.cuda.is_available():
        print("compare_models.py: PyTorch finds no GPU", file=sys.stderr)
        return 2
    torch.backends.cudnn.benchmark = True
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, batch {options.batch}, "
          f"{'training steps' if options.train else 'forward passes'}, microseconds\n")
    if options.brief:
        print("| network | strict, ms | eager | PyTorch fp32 | over talc | TF32 class, ms | eager | PyTorch TF32 | over talc | MB | PyTorch |\n"
              f"|{'-|' * 11}")
    else:
        print("| network | | | least | median | MB |\n|-|-|-|-|-|-|")
    for name in options.networks:
        compare(options, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

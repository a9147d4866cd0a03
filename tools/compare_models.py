#!/usr/bin/env python3
"""Times forward passes of LeNet and ResNet-20 on a GPU in talc and in PyTorch, taking turns in one run.

    compare_models.py build/examples/example_latency [--batch 1] [--turns 3]

talc's figures come from examples/latency.c, eager and by talc_capture; PyTorch's are eager and by torch.cuda.CUDAGraph,
with cudnn.benchmark on, once with TF32 off, as talc computes, and once with it on. "latency" is one pass with a wait for
the GPU after it, "back to back" the time of each of 50 passes that are waited for together; both copy the input into
the graph's first. Microseconds: the least and the median of all turns' rounds."""
import argparse
import statistics
import subprocess
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(f"compare_models.py needs PyTorch: {missing}", file=sys.stderr)
    sys.exit(2)


# ---- The models, as in examples/lenet.h and examples/resnet20.h -----------------------------------------------------

class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class Block(nn.Module):
    def __init__(self, channels_in, out, stride, option):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.new, self.shortcut = out - channels_in, None
        if stride != 1 and option == "B":
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.shortcut is not None:
            x = self.shortcut(x)
        elif self.new:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.new // 2, self.new // 2))
        return F.relu(y + x)


class ResNet20(nn.Module):
    def __init__(self, option):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        widths = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
        self.blocks = nn.Sequential(*[Block(*width, option) for width in widths])
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.linear(F.adaptive_avg_pool2d(x, 1).flatten(1))


MODELS = {
    "lenet": (LeNet, (1, 28, 28)),
    "resnet20": (lambda: ResNet20("A"), (3, 32, 32)),
    "resnet20-b": (lambda: ResNet20("B"), (3, 32, 32)),
}


# ---- PyTorch --------------------------------------------------------------------------------------------------------

def graphed(model, x):
    """A function that replays the model's forward pass on its argument."""
    fixed = x.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            model(fixed)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(fixed)

    def replay(x):
        fixed.copy_(x)
        graph.replay()
        return y
    return replay


def passes(run, x, count):
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(count):
        run(x)
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / count * 1e6


def measure_torch(times, subjects):
    with torch.inference_mode():
        for (model, way), (run, x, tf32) in subjects.items():
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
            for what, count, rounds in (("latency", 1, 101), ("back to back", 50, 15)):
                passes(run, x, count)
                times.setdefault((model, f"PyTorch {way} {what}"), []).extend(
                    passes(run, x, count) for _ in range(rounds))


def torch_subjects(batch):
    subjects = {}
    for name, (make, shape) in MODELS.items():
        for tf32 in (False, True):
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
            with torch.inference_mode():
                model, x = make().cuda().eval(), torch.rand(batch, *shape, device="cuda")
                for _ in range(5):
                    model(x)
                label = " TF32" if tf32 else ""
                subjects[name, "eager" + label] = model, x, tf32
                subjects[name, "graph" + label] = graphed(model, x), x, tf32
    return subjects


# ---- talc -----------------------------------------------------------------------------------------------------------

def measure_talc(times, program, batch):
    lines = subprocess.run([program, "cuda", str(batch)], check=True, capture_output=True, text=True).stdout
    for line in lines.splitlines():
        model, what, *figures = line.split(",")
        times.setdefault((model, "talc " + what), []).extend(map(float, figures))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the built example `latency`")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("compare_models.py: PyTorch finds no GPU", file=sys.stderr)
        return 2
    torch.backends.cudnn.benchmark = True
    subjects, times = torch_subjects(options.batch), {}
    for _ in range(options.turns):
        measure_talc(times, options.program, options.batch)
        measure_torch(times, subjects)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, batch {options.batch}, microseconds a pass\n")
    print("| model | | least | median |\n|-|-|-|-|")
    for (model, what), taken in sorted(times.items()):
        print(f"| {model} | {what} | {min(taken):.1f} | {statistics.median(taken):.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Trains LeNet-5 in talc and in a peer from the same weights on the same batches, and compares (compare_torch.py train).

The peer is PyTorch on the CPU; for another device than the CPU it is talc on the CPU. Images are digits that talc draws. The
runs and their limits:

    sgd f64, adam f64    the losses of 200 steps, relative                                                    1e-10
    sgd f32              those of 40 steps                                                                    1e-4
    adam f32             40 single updates from the gradients and the state that talc's run has there         1e-6

SGD has momentum 0.9, Nesterov, weight decay and a cosine schedule; Adam has PyTorch's defaults.

In f32 a gradient jumps where rounding decides whether a unit is above 0, and training makes more of it: with 64 normalised
images a step, PyTorch's losses come to differ by 1e-2 from its own with the images in another order. So the f32 runs have 16
images a step, of pixels in 0 .. 1, where few units are that near to 0. Adam divides by the size of the gradient, so that where this
is rounding alone an update may have either sign. Hence single updates, in which an element may be off relative to the larger
of itself and the learning rate, the size of an update.
"""
import argparse
import json
import pathlib
import sys
import tempfile
from ctypes import byref

import numpy as np
import torch

from talc_library import (DTYPES, Conv2dLayer, LinearLayer, OptimizerOptions, Pair, Pool2dOptions, Progress, Refused,
                          Schedule, Talc, dims)

STEPS, FIRST, BATCHES = 200, 40, 50
BATCH = {"f64": 64, "f32": 16}
RATE = {"sgd": 0.05, "adam": 1e-3}
MOMENTUM, DECAY = 0.9, 5e-4
SGD, ADAM, COSINE = 0, 1, 2  # talc_optimizer_kind, talc_schedule_kind
LIMITS = {("sgd", "f64"): 1e-10, ("adam", "f64"): 1e-10, ("sgd", "f32"): 1e-4, ("adam", "f32"): 1e-6}

# LeNet-5, as examples/lenet.h has it: channels, kernel and padding, or features.
LAYERS = [("conv2d", 1, 6, 5, 2), ("relu",), ("max_pool2d", 2), ("conv2d", 6, 16, 5, 0), ("relu",), ("max_pool2d", 2),
          ("flatten",), ("linear", 400, 120), ("relu",), ("linear", 120, 84), ("relu",), ("linear", 84, 10)]
NAMES = [f"{i}.{name}" for i, layer in enumerate(LAYERS) if len(layer) > 2 for name in ("weight", "bias")]


# ---- The two sides: the same methods ----------------------------------------------------------------------------

class TalcRun:
    def __init__(self, talc, kind, dtype):
        self.talc = talc
        self.net = talc.nn_sequential()
        for name, *sizes in LAYERS:
            talc.nn_sequential_append(self.net, getattr(self, name)(DTYPES[dtype], *sizes))
        talc.module_to(self.net, talc.device)
        sgd = kind == "sgd"
        options = OptimizerOptions(kind=ADAM, lr=RATE[kind])
        if sgd:
            options = OptimizerOptions(kind=SGD, lr=RATE[kind], momentum=MOMENTUM, nesterov=True, weight_decay=DECAY)
        self.optimizer = talc.optimizer_new(self.net, byref(options))
        if sgd:
            talc.optimizer_schedule(self.optimizer, byref(Schedule(kind=COSINE, steps=STEPS)))

    def conv2d(self, dtype, channels, out, kernel, padding):
        return self.talc.nn_conv2d(byref(Conv2dLayer(in_channels=channels, out_channels=out, kernel=Pair(kernel, kernel),
                                                     padding=Pair(padding, padding), dtype=dtype)))

    def linear(self, dtype, features, out):
        return self.talc.nn_linear(byref(LinearLayer(in_features=features, out_features=out, dtype=dtype)))

    def max_pool2d(self, _, kernel):
        return self.talc.nn_max_pool2d(byref(Pool2dOptions(kernel=Pair(kernel, kernel))))

    def relu(self, _):
        return self.talc.nn_relu()

    def flatten(self, _):
        return self.talc.nn_flatten()

    def parameters(self):
        return {name: self.talc.module_find(self.net, name.encode()) for name in NAMES}

    def values(self):
        return {name: self.talc.download(p) for name, p in self.parameters().items()}

    def gradients(self):
        return {name: self.talc.download(self.talc.grad(p)) for name, p in self.parameters().items()}

    def give_gradients(self, gradients):
        """That of sum(p g) is g."""
        scope = self.talc.scope_enter()
        self.talc.optimizer_zero_grad(self.optimizer)
        for name, p in self.parameters().items():
            product = self.talc.mul(p, self.talc.upload(gradients[name]))
            self.talc.backward(self.talc.sum(product, dims([]), False))
        self.talc.scope_leave(scope)

    def backward(self, images, labels):
        scope = self.talc.scope_enter()
        loss = self.talc.cross_entropy(self.talc.forward(self.net, self.talc.upload(images)), self.talc.upload(labels))
        self.talc.optimizer_zero_grad(self.optimizer)
        self.talc.backward(loss)
        value = self.talc.item(loss)
        self.talc.scope_leave(scope)
        return value

    def step(self):
        self.talc.optimizer_step(self.optimizer)

    def save(self, path):
        self.talc.checkpoint_save(str(path).encode(), self.net, self.optimizer, byref(Progress()))

    def load(self, path):
        self.talc.checkpoint_load(str(path).encode(), self.net, self.optimizer, byref(Progress()))

    def close(self):
        self.talc.optimizer_free(self.optimizer)
        self.talc.module_free(self.net)


class TorchRun:
    def __init__(self, kind, dtype):
        layers = {"conv2d": lambda channels, out, kernel, padding: torch.nn.Conv2d(channels, out, kernel, padding=padding),
                  "linear": torch.nn.Linear, "max_pool2d": torch.nn.MaxPool2d, "relu": torch.nn.ReLU,
                  "flatten": torch.nn.Flatten}
        self.net = torch.nn.Sequential(*[layers[name](*sizes) for name, *sizes in LAYERS])
        self.net.to(torch.float32 if dtype == "f32" else torch.float64)
        self.schedule = None
        if kind == "sgd":
            self.optimizer = torch.optim.SGD(self.net.parameters(), RATE[kind], MOMENTUM, weight_decay=DECAY, nesterov=True)
            self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, STEPS)
        else:
            self.optimizer = torch.optim.Adam(self.net.parameters(), RATE[kind])

    def values(self):
        return {name: p.detach().numpy().copy() for name, p in self.net.named_parameters()}

    def give_gradients(self, gradients):
        for name, p in self.net.named_parameters():
            p.grad = torch.from_numpy(gradients[name])

    def backward(self, images, labels):
        loss = torch.nn.functional.cross_entropy(self.net(torch.from_numpy(images)), torch.from_numpy(labels))
        self.optimizer.zero_grad()
        loss.backward()
        return loss.item()

    def step(self):
        self.optimizer.step()
        if self.schedule is not None:
            self.schedule.step()

    def load(self, path):
        """Parameters, and Adam's state where the checkpoint has one."""
        saved = read_safetensors(path)
        with torch.no_grad():
            for name, p in self.net.named_parameters():
                p.copy_(saved[name])
                if f"optimizer.{name}.exp_avg" in saved:
                    self.optimizer.state[p] = {"step": saved[f"optimizer.{name}.step"][0].to(torch.float32)} | {
                        state: saved[f"optimizer.{name}.{state}"] for state in ("exp_avg", "exp_avg_sq")}

    def close(self):
        pass


def read_safetensors(path):
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    entries = json.loads(content[8:start])
    dtypes = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
    arrays = {}
    for name, entry in entries.items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in entry["data_offsets"])
            array = np.frombuffer(content[begin:end], dtypes[entry["dtype"]]).reshape(entry["shape"])
            arrays[name] = torch.from_numpy(array.copy())
    return arrays


# ---- Runs -------------------------------------------------------------------------------------------------------

def digits(talc, seed, dtype):
    """Batches of images and labels."""
    count = BATCHES * BATCH[dtype]
    dataset = talc.dataset_digits(count, seed)
    images = np.stack([np.ctypeslib.as_array(talc.dataset_pixels(dataset, i), (1, 28, 28)) for i in range(count)]) / 255
    labels = np.array([talc.dataset_label(dataset, i) for i in range(count)], np.int64)
    talc.dataset_free(dataset)
    if dtype == "f64":
        images = (images - images.mean()) / images.std()
    images = images.astype("f4" if dtype == "f32" else "f8")
    order = np.random.default_rng(seed).permutation(count).reshape(BATCHES, -1)
    return [(images[some], labels[some]) for some in order]


def compare_losses(ours, peer, batches, steps):
    """The largest relative difference of a loss, NaN where a loss is none; what was compared; and where it is."""
    losses = []
    for i in range(steps):
        losses.append([run.backward(*batches[i % BATCHES]) for run in (ours, peer)])
        ours.step()
        peer.step()
    losses = np.array(losses)
    off = np.abs(losses[:, 0] - losses[:, 1]) / np.abs(losses[:, 1])
    at = int(np.argmax(off))  # of NaN, where there is one
    return off[at], f"the losses of {steps} steps, {losses[0, 1]:.2f} to {losses[-1, 1]:.2f},", f"in step {at + 1}"


def compare_updates(ours, peer, batches, steps, checkpoint):
    """The same of an element after one update, relative to the larger of itself and the rate."""
    off = []
    for i in range(steps):
        ours.backward(*batches[i % BATCHES])
        ours.save(checkpoint)
        peer.load(checkpoint)
        peer.give_gradients(ours.gradients())
        ours.step()
        peer.step()
        a, b = ours.values(), peer.values()
        off.append([(np.abs(a[name] - b[name]) / np.maximum(np.abs(b[name]), RATE["adam"])).max() for name in NAMES])
    step, name = np.unravel_index(np.argmax(off), np.shape(off))
    return off[step][name], f"the parameters after each of {steps} updates", f"{NAMES[name]} in step {step + 1}"


def compare(talc, peer_of, kind, dtype, seed, folder):
    """Prints the line of one run. Whether it is within its limit."""
    talc.manual_seed(seed)
    ours, peer = TalcRun(talc, kind, dtype), peer_of(kind, dtype)
    checkpoint = pathlib.Path(folder, "checkpoint.safetensors")
    ours.save(checkpoint)
    peer.load(checkpoint)
    batches, steps = digits(talc, seed, dtype), STEPS if dtype == "f64" else FIRST
    if (kind, dtype) == ("adam", "f32"):
        worst, what, where = compare_updates(ours, peer, batches, steps, checkpoint)
    else:
        worst, what, where = compare_losses(ours, peer, batches, steps)
    ours.close()
    peer.close()
    within = bool(worst <= LIMITS[kind, dtype])
    print(f"{kind:<5}{dtype}  {what} differ by at most {worst:.2e}, {where}; the limit is {LIMITS[kind, dtype]:.0e}"
          + ("" if within else "  FAILED"), flush=True)
    return within


def main(arguments, library):
    parser = argparse.ArgumentParser(prog="compare_torch.py train", description="Compares training LeNet with PyTorch.")
    parser.add_argument("--seed", type=int, default=1, help="of weights, digits and their order (1)")
    parser.add_argument("--device", default="cpu", help="of talc (cpu); for another, the peer is talc on the CPU")
    parser.add_argument("--library", metavar="PATH", default=library, help="libtalc.so (build/libtalc.so)")
    options = parser.parse_args(arguments)
    if options.seed < 0:
        parser.error("the seed must be at least 0")
    try:
        talc = Talc(options.library, options.device)
    except (OSError, AttributeError, RuntimeError, Refused) as error:
        print(f"compare_torch.py train: nothing to compare: {error}", file=sys.stderr)
        return 2
    if options.device == "cpu":
        peer, peer_of = f"PyTorch {torch.__version__}", TorchRun
    else:
        cpu = Talc(options.library, "cpu")
        peer, peer_of = "talc on cpu", lambda kind, dtype: TalcRun(cpu, kind, dtype)
    torch.set_num_threads(1)  # threads of two libraries would wait for each other
    print(f"LeNet-5 by talc on {options.device} and by {peer}, seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        within = [compare(talc, peer_of, kind, dtype, options.seed, folder) for kind, dtype in LIMITS]
    return 0 if all(within) else 1

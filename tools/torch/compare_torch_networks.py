"""Holds networks of examples/networks against PyTorch's in float64, with the same random weights (compare_torch.py networks).

For each network and element type, with its limits:

    logits       in evaluation mode, relative in norm                                           1e-4 f32, 1e-11 f64
    loss         cross entropy in train mode, dropout and stochastic depth at 0, relative       1e-4 f32, 1e-11 f64
    gradient     of every parameter, in norm relative to itself, or to a thousandth of all
                 gradients together where it is smaller than that                               1e-3 f32, 1e-9 f64
    statistics   every running mean and variance after that step, relative in norm              1e-4 f32, 1e-10 f64

The weights are He's normal ones, and norms have the statistics of a batch, with random weights and biases in f64. In f32 a gradient jumps
where rounding decides whether a unit is above 0, or which of a window is the largest: in deep networks that makes more of it than the
limit, in PyTorch too. So norms have weights about 0.25 and biases about 1.75 there, negative in a third of the channels that a ReLU
follows: whole channels are on or off. And a gradient beyond its limit counts only when it is so with each of SEEDS seeds in a row. Beside
f32 stands what PyTorch's own f32 differs by from its float64. Images are smaller than networks are made for, where these allow it.
"""
import argparse
import copy
import ctypes
import pathlib
import sys
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import networks
from pt2safetensors import save_safetensors
from talc_library import DTYPES, Refused, Talc

WHAT = ("logits", "loss", "gradient", "statistics")
LIMITS = {"f32": (1e-4, 1e-4, 1e-3, 1e-4), "f64": (1e-11, 1e-11, 1e-9, 1e-10)}
TORCH = {"f32": torch.float32, "f64": torch.float64}
SIZES = {"lenet": 28, "resnet20": 32, "resnet20-b": 32, "unet": 32, "dcgan": 1, "vit_c": 224}  # others 64
SEEDS = 4
SWITCHED_OFF = ("Dropout", "StochasticDepth")


def set_norm(norm, dtype, before_relu):
    if dtype == "f64":
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, std=0.1)
    else:
        nn.init.uniform_(norm.weight, 0.2, 0.3)
        nn.init.uniform_(norm.bias, 1.5, 2)
        if before_relu:
            with torch.no_grad():
                norm.bias *= torch.where(torch.rand_like(norm.bias) < 1 / 3, -1, 1)


def reference(name, dtype, size, images):
    """A network in float64 whose weights are numbers of the type."""
    model = networks.make(name).double()
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight)
            if module.bias is not None:
                nn.init.normal_(module.bias, std=0.1)
        children = list(module.children())
        for norm, after in zip(children, children[1:] + [None]):
            if isinstance(norm, nn.BatchNorm2d):
                norm.momentum = 1
                set_norm(norm, dtype, isinstance(after, (nn.ReLU, nn.ReLU6)))
    for path, parameter in model.named_parameters():
        if path.endswith("layer_scale"):  # 1e-6 would hide what a block computes
            nn.init.uniform_(parameter, 0.5, 1)
    with torch.no_grad():
        model(torch.randn(images, networks.image(name)[0], size, size, dtype=torch.float64))
        for module in model.modules():
            module.momentum = 0.1
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(tensor.to(TORCH[dtype]))
    return model


def passes(model, x, labels):
    """Logits, loss, gradients and statistics of a PyTorch network."""
    with torch.no_grad():
        logits = model.eval()(x)
    model.train()
    for module in model.modules():
        if type(module).__name__ in SWITCHED_OFF:
            module.eval()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    return {"logits": {"": logits.numpy()}, "loss": {"": loss.detach().numpy()},
            "gradient": {name: p.grad.numpy() for name, p in model.named_parameters()},
            "statistics": {name: buffer.numpy() for name, buffer in model.named_buffers()}}


class TalcNetwork:
    def __init__(self, talc, library, name, model, dtype, folder):
        self.talc, self.model = talc, model
        path = pathlib.Path(folder, "weights.safetensors")
        save_safetensors(path, {key: (t.to(TORCH[dtype]) if t.is_floating_point() else t).numpy() for key, t in model.state_dict().items()})
        library.talc_network_new.restype, library.talc_network_new.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_void_p]
        self.net = library.talc_network_new(name.encode(), None)
        talc.module_cast(self.net, DTYPES[dtype])
        talc.module_load(self.net, str(path).encode(), True)
        talc.module_to(self.net, talc.device)

    def tensors(self, names, read):
        return {name: self.talc.download(read(self.talc.module_find(self.net, name.encode()))) for name in names}

    def passes(self, x, labels):
        talc, scope = self.talc, self.talc.scope_enter()
        x, labels = talc.upload(x), talc.upload(labels)
        talc.module_eval(self.net)
        talc.no_grad_enter()
        logits = talc.download(talc.forward(self.net, x))
        talc.no_grad_leave()
        talc.module_train(self.net)
        for name, module in self.model.named_modules():
            child = talc.module_child(self.net, name.encode())
            if type(module).__name__ in SWITCHED_OFF and (child or module.p > 0):
                talc.module_eval(child)
        loss = talc.cross_entropy(talc.forward(self.net, x), labels)
        talc.backward(loss)
        result = {"logits": {"": logits}, "loss": {"": np.array(talc.item(loss))},
                  "gradient": self.tensors((name for name, _ in self.model.named_parameters()), talc.grad),
                  "statistics": self.tensors((name for name, _ in self.model.named_buffers()), lambda tensor: tensor)}
        talc.scope_leave(scope)
        talc.module_free(self.net)
        return result


def differences(got, expected):
    """Of each kind the largest relative difference, and the name of where it is."""
    found = {}
    for what in WHAT:
        total = np.sqrt(sum(np.sum(np.square(array, dtype=float)) for array in expected[what].values()))
        worst = 0.0, ""
        for name, array in expected[what].items():
            if got[what][name].shape != array.shape:
                worst = np.inf, name
                continue
            scale = max(np.linalg.norm(array.ravel().astype(float)), 1e-3 * total, 1e-300)
            off = np.linalg.norm((got[what][name] - array).ravel().astype(float)) / scale
            if not off <= worst[0]:  # NaN is the worst
                worst = float(off), name
        found[what] = worst
    return found


def compare(talc, library, name, dtype, seed, options, folder):
    """Prints the line of one network. What is beyond its limit."""
    torch.manual_seed(seed)
    size = options.size or SIZES.get(name, 64)
    model = reference(name, dtype, size, options.images)
    x = torch.randn(options.images, networks.image(name)[0], size, size, dtype=TORCH[dtype])
    with torch.no_grad():
        shape = list(copy.deepcopy(model).train()(x.double()).shape)
    labels = torch.randint(0, shape.pop(1), shape)
    started = time.perf_counter()
    got = TalcNetwork(talc, library, name, model, dtype, folder).passes(x.numpy(), labels.numpy())
    took = time.perf_counter() - started
    peer = passes(copy.deepcopy(model).float(), x, labels) if dtype == "f32" and not options.no_peer else None
    expected = passes(model, x.double(), labels)
    ours, theirs = differences(got, expected), differences(peer, expected) if peer else None
    beyond = [what for what, limit in zip(WHAT, LIMITS[dtype]) if not ours[what][0] <= limit]
    cells = [f"{ours[what][0]:8.1e}" + (f" ({theirs[what][0]:.0e})" if theirs else " " * 8) for what in WHAT]
    print(f"{name:<16}{dtype}  {'  '.join(cells)}  {took:5.1f} s  {ours['gradient'][1]}" +
          (f"  BEYOND: {', '.join(beyond)}, seed {seed}" if beyond else ""), flush=True)
    return beyond


def holds(talc, library, name, dtype, options, folder):
    """Whether a network is within its limits, in f32 with one of some seeds as to gradients."""
    beyond = None
    for seed in range(options.seed, options.seed + (SEEDS if dtype == "f32" else 1)):
        beyond = compare(talc, library, name, dtype, seed, options, folder)
        if beyond != ["gradient"]:
            break
    return not beyond


def main(arguments, library):
    parser = argparse.ArgumentParser(prog="compare_torch.py networks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="networks (all)")
    parser.add_argument("--dtype", choices=["f32", "f64"], help="one element type (both)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and images (1)")
    parser.add_argument("--images", type=int, default=2, help="of a batch (2)")
    parser.add_argument("--size", type=int, help="height and width of an image")
    parser.add_argument("--no-peer", action="store_true", help="leave out PyTorch's own f32")
    parser.add_argument("--device", default="cpu", help="talc's (cpu); PyTorch computes on the CPU")
    parser.add_argument("--library", metavar="PATH", default=library, help="libtalc.so (build/libtalc.so)")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in networks.NETWORKS:
            parser.error(f"there is no network '{name}'; there are {', '.join(networks.NETWORKS)}")
    try:
        talc = Talc(options.library, options.device)
        library = ctypes.CDLL(str(pathlib.Path(options.library).parent / "examples/networks/libtalc_networks.so"))
    except (OSError, AttributeError, RuntimeError, Refused) as error:
        print(f"compare_torch.py networks: nothing to compare: {error}", file=sys.stderr)
        return 2
    print(f"talc on {options.device}, beside it PyTorch {torch.__version__} in f32; {options.images} image(s), seed {options.seed}\n"
          f"{'':<16}{'':<3}  " + "  ".join(f"{what:<16}" for what in WHAT) + "          the worst gradient")
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or networks.NETWORKS:
            for dtype in [options.dtype] if options.dtype else LIMITS:
                failed += [] if holds(talc, library, name, dtype, options, folder) else [f"{name} {dtype}"]
    print(f"FAILED: {', '.join(failed)}" if failed else "all within their limits")
    return 1 if failed else 0

"""Has `talc check model` judge the layers of PyTorch's networks, right ones and wrong ones (compare_torch.py activations).

Each network of networks.py runs in PyTorch with random weights, in evaluation and in train mode (dropout and stochastic depth at 0), and
hooks keep what every module gives. `talc check model NETWORK --activations` on the same weights and images must find all layers right.

--plant N does that N times more in each mode with an error in one layer of PyTorch's run, drawn from PLANTS: that layer must be the first
wrong one. Images are smaller than networks are made for, where these allow it.
"""
import argparse
import contextlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import networks
from compare_torch_networks import SIZES, SWITCHED_OFF
from pt2safetensors import save_safetensors

MODES = ("eval", "train")


def save_tensors(path, tensors):
    save_safetensors(path, {name: tensor.detach().numpy() for name, tensor in tensors.items()})


def activations(model, x):
    """What each module gave, by name, its second call with :2 behind it. Copies: a ReLU may work in place on what came before."""
    kept, calls, hooks = {}, {}, []
    for name, module in model.named_modules():
        def keep(_module, _inputs, output, name=name or "output"):
            output = output[0] if isinstance(output, tuple) else output
            calls[name] = calls.get(name, 0) + 1
            kept[name if calls[name] == 1 else f"{name}:{calls[name]}"] = output.detach().clone()
        hooks.append(module.register_forward_hook(keep))
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return kept


def make(name, seed, size):
    """A network with He's weights, whose norms have weights, biases and the statistics of a batch, and an image."""
    torch.manual_seed(seed)
    model = networks.make(name)
    for module in model.modules():
        if isinstance(module, (*CONV, nn.Linear)):
            nn.init.kaiming_normal_(module.weight)
        if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
            module.momentum = 1
    shape = networks.image(name)[0], size, size
    with torch.no_grad():
        model(torch.randn(2, *shape) + 0.5)
    for module in model.modules():
        module.momentum = 0.1
    return model, torch.randn(1, *shape) + 0.5


def set_mode(model, mode):
    model.train(mode == "train")
    for module in model.modules():
        if type(module).__name__ in SWITCHED_OFF:
            module.eval()


# ---- Errors ---------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def changed(module, **attributes):
    before = {name: getattr(module, name) for name in attributes}
    for name, value in attributes.items():
        setattr(module, name, value)
    yield
    for name, value in before.items():
        setattr(module, name, value)


@contextlib.contextmanager
def changed_elements(tensor, change):
    before = tensor.detach().clone()
    with torch.no_grad():
        change(tensor)
    yield
    with torch.no_grad():
        tensor.copy_(before)


def swap(tensor):
    tensor[[0, -1]] = tensor[[-1, 0]].clone()


def one_sided(module):
    """All the padding above and on the left."""
    h, w = module.padding

    def forward(x):
        return F.conv2d(F.pad(x, (2 * w, 0, 2 * h, 0)), module.weight, module.bias, module.stride, 0, module.dilation, module.groups)
    return changed(module, forward=forward)


CONV, NORM = (nn.Conv2d, nn.ConvTranspose2d), (nn.BatchNorm2d, nn.LayerNorm)
PLANTS = {  # which modules have it, and how
    "weight * 1.01": ((*CONV, nn.Linear, *NORM), lambda m: changed_elements(m.weight, lambda w: w.mul_(1.01))),
    "one weight": ((*CONV, nn.Linear), lambda m: changed_elements(m.weight, lambda w: w.view(-1)[7:8].add_(5 * w.std()))),
    "channels swapped": ((*CONV, nn.Linear), lambda m: changed_elements(m.weight, swap)),
    "padding": ((nn.Conv2d,), one_sided),
    "eps": (NORM, lambda m: changed(m, eps=m.eps * 10)),
    "bias": (NORM, lambda m: changed_elements(m.bias, swap)),
}


def plants(model, ran, count, draw):
    """Some errors in modules that ran: what, where, and the context that makes it."""
    places = [(what, name, change, module) for what, (kinds, change) in PLANTS.items() for name, module in model.named_modules()
              if name in ran and isinstance(module, kinds) and not (what == "padding" and module.padding == (0, 0))]
    by_kind = {what: [place for place in places if place[0] == what] for what in PLANTS}
    kinds = [what for what in PLANTS if by_kind[what]]
    for i in range(count):
        what, name, change, module = draw.choice(by_kind[kinds[i % len(kinds)]])
        yield what, name, lambda change=change, module=module: change(module)


# ---- The command ----------------------------------------------------------------------------------------------------

def judged(options, name, folder, mode):
    """The report of talc check model on what lies in the folder. RuntimeError: there is none."""
    command = [str(options.talc), "check", "model", name, "--json", "--device", options.device, *(["--train"] if mode == "train" else []),
               *(f"--{what}={folder}/{file}" for what, file in (("weights", "weights.safetensors"), ("input", "x.npy"),
                                                                 ("activations", "activations.safetensors")))]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        raise RuntimeError((run.stderr or f"exit code {run.returncode}").strip())
    return json.loads(run.stdout)


def line_of(report):
    first = report["first_wrong"]
    if first is None:
        worst = max((layer for layer in report["layers"] if layer["step"] is not None), key=lambda layer: layer["step"])
        return f"worst step {worst['step']:.3f} in {worst['layer'] or 'the model'} {worst['op']}"
    layer = report["layers"][first]
    return (f"first wrong {layer['layer'] or 'the model'} {layer['op']}, own {layer['own']}, step {layer['step']}, "
            f"unexplained {layer.get('unexplained')}, allowed {layer.get('allowed')}")


def compare(options, name, folder):
    """Prints a line for each run of a network. How many were judged wrongly."""
    size = options.size or SIZES.get(name, 64)
    model, x = make(name, options.seed, size)
    save_tensors(pathlib.Path(folder, "weights.safetensors"), model.state_dict())
    np.save(pathlib.Path(folder, "x.npy"), x.numpy())
    draw, failed = random.Random(f"{name} {options.seed}"), 0
    for mode in MODES if options.mode is None else [options.mode]:
        set_mode(model, mode)
        state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
        ran = activations(model, x)
        for what, where, plant in [("right", "", contextlib.nullcontext), *plants(model, ran, options.plant, draw)]:
            model.load_state_dict(state)  # the statistics that train mode has moved
            with plant():
                kept = activations(model, x)
            save_tensors(pathlib.Path(folder, "activations.safetensors"), kept)
            started = time.perf_counter()
            report = judged(options, name, folder, mode)
            first = report["first_wrong"]
            right = report["passed"] if not where else first is not None and report["layers"][first]["layer"] == where
            failed += not right
            print(f"{'ok' if right else 'FAILED':<7}{name:<16}{mode:<6}{what + (' in ' + where if where else ''):<50}"
                  f"{time.perf_counter() - started:6.1f} s  {line_of(report)}", flush=True)
    return failed


def main(arguments, library):
    parser = argparse.ArgumentParser(prog="compare_torch.py activations", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="networks (all)")
    parser.add_argument("--plant", type=int, default=0, metavar="N", help="errors in each mode of each network (0)")
    parser.add_argument("--mode", choices=MODES, help="one mode (both)")
    parser.add_argument("--seed", type=int, default=1, help="of weights, image and errors (1)")
    parser.add_argument("--size", type=int, help="height and width of the image")
    parser.add_argument("--device", default="cpu", help="talc's (cpu); PyTorch computes on the CPU")
    parser.add_argument("--talc", metavar="PATH", default=library.parent / "tools/talc", help="the command (build/tools/talc)")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in networks.NETWORKS:
            parser.error(f"there is no network '{name}'; there are {', '.join(networks.NETWORKS)}")
    print(f"talc on {options.device} judges PyTorch {torch.__version__}, seed {options.seed}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or networks.NETWORKS:
            try:
                failed += compare(options, name, folder)
            except RuntimeError as error:
                print(f"FAILED {name}: {error}", flush=True)
                failed += 1
            except OSError as error:
                print(f"compare_torch.py activations: {error}", file=sys.stderr)
                return 2
    print(f"{failed} runs judged wrongly" if failed else "all judged rightly")
    return 1 if failed else 0

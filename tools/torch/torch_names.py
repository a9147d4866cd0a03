#!/usr/bin/env python3
"""Prints the part of docs/models.md that says what PyTorch calls the ops and layers of talc.

usage: torch_names.py TALC      TALC is the command, which lists the functions of the library

Names are the same but for those of OTHER; a function without a namesake in PyTorch is not listed. Needs torch.
"""

import json
import subprocess
import sys
import textwrap

import torch
import torch.nn.functional as F

# Where PyTorch's name is another: of talc_NAME, and of talc_nn_NAME.
OTHER = {
    "max": "torch.amax", "min": "torch.amin", "max_indices": "torch.max", "min_indices": "torch.min", "concat": "torch.cat",
    "matmul": "torch.matmul", "batch_norm2d": "F.batch_norm", "instance_norm2d": "F.instance_norm", "upsample2d": "F.interpolate",
    "grad": "Tensor.grad", "backward": "Tensor.backward", "to": "Tensor.to", "cast": "Tensor.to", "view": "Tensor.view",
    "expand": "Tensor.expand", "hardsigmoid_ramp": None, "hardswish_ramp": None, "gelu_tanh": 'F.gelu(approximate="tanh")', "equal": "torch.eq",
    "not_equal": "torch.ne", "less": "torch.lt", "less_equal": "torch.le", "greater": "torch.gt", "greater_equal": "torch.ge",
    "slice": "Tensor.__getitem__", "copy": "Tensor.copy_", "fill": "Tensor.fill_", "item": "Tensor.item", "contiguous": "Tensor.contiguous",
    "detach": "Tensor.detach", "masked_fill": "Tensor.masked_fill", "local_response_norm": "F.local_response_norm",
}
LAYERS = {"sequential": "Sequential", "module_list": "ModuleList", "pad2d": "ZeroPad2d, ReflectionPad2d, ...", "drop_path": None}


def class_of(name):
    """The class of torch.nn whose name is that without underscores, whatever its case."""
    plain = name.replace("_", "")
    return next((entry for entry in dir(torch.nn) if entry.lower() == plain), None)


def op_of(name):
    if name in OTHER:
        return OTHER[name]
    if hasattr(F, name) and name not in ("relu", "sigmoid", "tanh"):
        return f"F.{name}"
    return f"torch.{name}" if hasattr(torch, name) else None


def is_same(theirs, ours):
    """Whether torch.NAME or F.NAME is talc_NAME, and nn.NAME talc_nn_NAME but for capitals and underscores."""
    plain = ours.removeprefix("talc_")
    if theirs.startswith("nn."):
        return plain.removeprefix("nn_").replace("_", "") == theirs.removeprefix("nn.").lower()
    return theirs in (f"torch.{plain}", f"F.{plain}")


def main():
    listed = json.loads(subprocess.run([sys.argv[1], "ops", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    ops, layers = [], []
    for function, declared in listed["functions"].items():
        name = function.removeprefix("talc_")
        if name.startswith("nn_"):
            theirs = LAYERS.get(name[3:], class_of(name[3:]))
            if theirs is not None:
                layers.append((f"nn.{theirs}", function))
        elif declared["result"] == "talc_tensor *" and op_of(name) is not None:
            ops.append((op_of(name), function))
    for begin, pairs in (("As `torch.NAME` or `F.NAME` there is `talc_NAME` for ", ops),
                         ("As layers, `talc_nn_NAME`, there are ", layers)):
        names = sorted(theirs.split(".")[-1] for theirs, ours in pairs if is_same(theirs, ours))
        print("\n".join(textwrap.wrap(begin + ", ".join(names) + ".", 120)) + "\n")
    print("| PyTorch | talc |\n|-|-|")
    for theirs, ours in sorted(ops + layers):
        if not is_same(theirs, ours):
            print(f"| {theirs} | `{ours}` |")


main()

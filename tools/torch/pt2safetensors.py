#!/usr/bin/env python3
"""Writes a PyTorch checkpoint's state_dict as safetensors.

The checkpoint is loaded with weights_only=True, so that it cannot run code. It
holds a state_dict, or a dictionary that has one as "state_dict",
"model_state_dict" or "model". A "module." that begins all names
(nn.DataParallel) goes, and "_orig_mod." in names (torch.compile); half
precision becomes float32, bool uint8; a batch norm without num_batches_tracked,
as old checkpoints have it, gets one of 0. --rename replaces a regular
expression in names: torchvision's files of DenseNet need --rename
'(norm|relu|conv)\\.([12])=\\1\\2'. A file of torch.save(model), a whole module,
is code to run: where you trust it, save its state_dict where its classes can be
imported, torch.save(torch.load(FILE, weights_only=False).state_dict(), NEW),
and convert NEW. Needs numpy and PyTorch.
"""
import argparse
import json
import os
import re
import struct
import sys
import warnings

import numpy as np

DTYPES = {"float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "uint8": "U8"}


def save_safetensors(path, arrays):
    """Writes arrays by name: an 8-byte length, a JSON header of dtypes, shapes and offsets, then the bytes. A file stays as it was
    until all of them are written."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = os.path.realpath(path) if os.path.isfile(path) else path  # a link stays one
    part = f"{path}.part" if os.path.isfile(path) or not os.path.exists(path) else path  # a device is no file to replace
    try:
        with open(part, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for array in arrays.values():
                file.write(np.ascontiguousarray(array).tobytes())
        if part != path:
            os.replace(part, path)
    finally:
        if part != path and os.path.exists(part):
            os.remove(part)


def arrays_of(checkpoint, renames=()):
    """The state_dict of what torch.load gave, as arrays by name. ValueError: there is none, or one of another type."""
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(checkpoint, dict) and isinstance(checkpoint.get(key), dict):
            checkpoint = checkpoint[key]
    if not isinstance(checkpoint, dict) or not checkpoint:
        raise ValueError("it holds no state_dict")
    for name in checkpoint:
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"{name!r} is no tensor's name")
    plain = {name: name.replace("_orig_mod.", "") for name in checkpoint}
    prefix = "module." if all(name.startswith("module.") for name in plain.values()) else ""
    arrays = {}
    for name, tensor in checkpoint.items():
        if not hasattr(tensor, "detach"):
            raise ValueError(f"'{name}' is a {type(tensor).__name__}, no tensor")
        name = plain[name][len(prefix):]
        for pattern, text in renames:
            name = re.sub(pattern, text, name)
        if name in arrays:
            raise ValueError(f"two tensors are named '{name}'")
        tensor = tensor.detach().cpu()
        arrays[name] = (tensor.float() if str(tensor.dtype) in ("torch.float16", "torch.bfloat16") else tensor).numpy()
        if arrays[name].dtype == bool:
            arrays[name] = arrays[name].astype(np.uint8)
        if arrays[name].dtype.name not in DTYPES:
            raise ValueError(f"'{name}' is {arrays[name].dtype}, which talc has not")
    for name in list(arrays):
        before, _, last = name.rpartition(".")
        if last == "running_mean":
            arrays.setdefault(".".join(filter(None, (before, "num_batches_tracked"))), np.zeros((), np.int64))
    return arrays


def load(torch, path):
    """What torch.load makes of a file. ValueError: it is none of torch.save's; PyTorch's own text advises to run what the file says."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("it is not a regular file")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        if "Unsupported global" in str(error) or "Unsupported class" in str(error):
            raise ValueError("it is no checkpoint of torch.save, or holds more than tensors, which "
                             "is code to run, as of torch.save(model): --help says what to do"
                             ) from error
        raise ValueError("it is no checkpoint of torch.save, or holds more than tensors, which may be code to run") from error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("out")
    parser.add_argument("--rename", action="append", default=[], metavar="PATTERN=TEXT")
    options = parser.parse_args()
    try:
        import torch
    except ImportError as missing:
        sys.exit(f"pt2safetensors.py needs PyTorch: {missing}")
    try:
        renames = [rename.split("=", 1) for rename in options.rename]
        if any(len(rename) != 2 for rename in renames):
            raise ValueError("--rename takes PATTERN=TEXT")
        warnings.simplefilter("ignore")
        arrays = arrays_of(load(torch, options.checkpoint), renames)
        save_safetensors(options.out, arrays)
    except OSError as error:
        sys.exit(f"pt2safetensors.py: {error.filename or options.out}: {error.strerror or error}")
    except Exception as error:  # pylint: disable=broad-except
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        sys.exit(f"pt2safetensors.py: {options.checkpoint}: {(kind + str(error)).splitlines()[0]}")
    print(f"{options.out}: {len(arrays)} tensors, {sum(a.nbytes for a in arrays.values()) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()

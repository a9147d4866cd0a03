#!/usr/bin/env python3
"""Writes the onnx package's own tests of operators, and its light networks, as folders that onnx_cases runs.

usage: write_cases.py FOLDER [PATTERN]

Left out are types that talc has not, and opsets past 23. Needs the packages onnx and numpy.
"""

import fnmatch
import pathlib
import sys
import warnings

import numpy
import onnx
from onnx.backend.test.case import node
from onnx.backend.test.runner import Runner

LIGHT = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
TYPES = {numpy.dtype(name): name for name in ("float32", "float64", "int32", "int64", "uint8", "bool")}


def as_arrays(values):
    """None for one that is no array of a type of talc."""
    arrays = []
    for value in values:
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        if not isinstance(value, (numpy.ndarray, numpy.generic)) or value.dtype not in TYPES:
            return None
        array = numpy.asarray(value)
        arrays.append(array.astype("uint8") if array.dtype == bool else numpy.ascontiguousarray(array).reshape(array.shape))
    return arrays


def opset_of(model):
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


def write(folder, model, inputs, outputs):
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for index, array in enumerate(arrays):
            numpy.save(folder / f"{kind}_{index}.npy", array)


def write_light(folder, path):
    """A whole network, whose weights are one number each, with the input and output that the package has for it."""
    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [Runner.generate_dummy_data(value, seed=0, name=path.stem, random=False) for value in model.graph.input
              if value.name not in weights]
    outputs = []
    for index in range(len(model.graph.output)):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.with_name(f"{path.stem}_output_{index}.pb").read_bytes())
        outputs.append(onnx.numpy_helper.to_array(tensor))
    write(folder, model, inputs, outputs)


def write_all(target, pattern="*"):
    """Returns a text of how many."""
    warnings.simplefilter("ignore")
    count = left_out = 0
    for case in node.collect_testcases(None):
        if not fnmatch.fnmatch(case.name, pattern) or case.model is None:
            continue
        inputs, outputs = case.data_sets[0]
        inputs, outputs = as_arrays(inputs), as_arrays(outputs)
        if inputs is None or outputs is None or not 9 <= opset_of(case.model) <= 23:
            left_out += 1
            continue
        write(target / case.name, case.model, inputs, outputs)
        count += 1
    for network in sorted(LIGHT.glob("light_*.onnx")):
        if network.stem == "light_squeezenet":
            continue  # whose softmax is of 1000 equal numbers of 9.5e9: one rounding that differs decides it
        if fnmatch.fnmatch(network.stem, pattern):
            write_light(target / network.stem, network)
            count += 1
    return f"{count} cases, {left_out} of other types or opsets left out"


if __name__ == "__main__":
    print(write_all(pathlib.Path(sys.argv[1]), *sys.argv[2:]))

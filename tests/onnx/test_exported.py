#!/usr/bin/env python3
"""Whether the reader lists what the Python package onnx does, of networks that both of PyTorch's exporters write and of
the package's own: test_exported.py ONNX_DUMP [FILE.onnx ...]. Skipped where Python has no onnx; without torchvision
only the package's own networks are read."""
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy
    import onnx
    from onnx import numpy_helper
except ImportError:
    sys.exit(77)

NETWORKS = ("resnet18", "squeezenet1_1", "mobilenet_v3_small")
OPSETS = range(9, 24)


def exported(folder):
    """Files of the networks by each exporter."""
    try:
        import torch
        import torchvision
    except ImportError:
        return
    warnings.filterwarnings("ignore")
    for name in NETWORKS:
        network = getattr(torchvision.models, name)(weights=None).eval()
        for dynamo in (True, False):
            path = folder / f"{name}_{'dynamo' if dynamo else 'legacy'}.onnx"
            options = {"verbose": False} if dynamo else {}
            torch.onnx.export(network, (torch.rand(1, 3, 224, 224),), str(path), dynamo=dynamo, **options)
            yield path


def tensor(proto):
    """A tensor as onnx_dump prints it, with the sum over its bytes."""
    text = f" {proto.data_type} [{','.join(map(str, proto.dims))}] {numpy.prod(proto.dims, dtype=int)}"
    if proto.data_type == onnx.TensorProto.STRING:
        return text
    elements = numpy.frombuffer(numpy_helper.to_array(proto).tobytes(), numpy.uint8).astype(numpy.uint64)
    return text + f" {(1 + int((elements * (2 * numpy.arange(elements.size, dtype=numpy.uint64) + 1)).sum())) % 2**32}"


def info(what, proto):
    kind = proto.type.tensor_type
    shaped = kind.HasField("shape")
    dims = [f" {dim.dim_value if dim.HasField('dim_value') else -1}:{dim.dim_param}" for dim in kind.shape.dim]
    return f"{what} {proto.name} {kind.elem_type} {len(dims) if shaped else -1}" + "".join(dims)


def attribute(proto):
    kinds = onnx.AttributeProto
    values = {kinds.FLOAT: lambda: f" {proto.f:.9g}", kinds.INT: lambda: f" {proto.i}",
              kinds.STRING: lambda: f" {proto.s.decode()}", kinds.TENSOR: lambda: tensor(proto.t),
              kinds.FLOATS: lambda: "".join(f" {value:.9g}" for value in proto.floats),
              kinds.INTS: lambda: "".join(f" {value}" for value in proto.ints),
              kinds.STRINGS: lambda: "".join(f" {value.decode()}" for value in proto.strings)}
    return f"  {proto.name} {proto.type}" + values.get(proto.type, str)()


def listed(model):
    """The lines that onnx_dump has to print, and the opset."""
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    graph, initialized = model.graph, {proto.name for proto in model.graph.initializer}
    lines = [f"model {model.ir_version} {opset} '{model.producer_name}' '{model.producer_version}'"]
    lines += [info("input", proto) for proto in graph.input if proto.name not in initialized]
    lines += [info("output", proto) for proto in graph.output]
    lines += [f"initialiser {proto.name}" + tensor(proto) for proto in graph.initializer]
    for node in graph.node:
        lines.append(f"node {node.op_type} '{node.name}' '{node.domain}' ({','.join(node.input)}) ({','.join(node.output)})")
        lines += [attribute(proto) for proto in node.attribute]
    return lines, opset


def difference(dump, path):
    """How the dump of a file differs from what onnx makes of it; None: it does not."""
    expected, opset = listed(onnx.load(path))
    done = subprocess.run([dump, path, "elements"], capture_output=True, text=True, check=False)
    if opset not in OPSETS:
        refusal = f"opset {opset}: 9 to 23 are read"
        return None if done.returncode == 1 and refusal in done.stderr else f"{path}: not refused as {refusal}"
    if done.returncode != 0:
        return f"{path}: {done.stderr}"
    got = done.stdout.splitlines()
    wrong = [f"  {theirs}\n  {ours}" for theirs, ours in zip(expected, got) if theirs != ours]
    if len(expected) != len(got):
        wrong.append(f"  {len(expected)} lines, here {len(got)}")
    return f"{path}: {len(wrong)} differences, the first of these:\n{wrong[0]}" if wrong else None


def main(dump, *paths):
    with tempfile.TemporaryDirectory() as name:
        light = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
        paths = [*map(pathlib.Path, paths)] or [*exported(pathlib.Path(name)), *sorted(light.glob("*.onnx"))]
        problems = [problem for path in paths if (problem := difference(dump, path))]
    print("\n".join(problems) or f"{len(paths)} files agree")
    return 1 if problems or not paths else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

#!/usr/bin/env python3
"""Reads every #include of the project and fails on an edge that the layers forbid.

    tools, examples, tests --> everything public (tests: everything)
    check, onnx --> nn, ops, tensor;   nn --> ops, tensor;   backends --> ops, tensor;   ops --> tensor;   tensor --> libc, threads

usage: check_layers.py ROOT | check_layers.py --self-test
"""

import pathlib
import re
import sys
import tempfile

# What a folder may include of the project. The longest folder that begins a file's path counts.
MAY_INCLUDE = {
    "tensor": ["tensor"],
    "ops": ["ops", "tensor"],
    "backends": ["backends/backends.h", "ops", "tensor"],
    "backends/registry.c": ["backends", "ops", "tensor"],
    "nn": ["nn", "ops", "tensor"],
    "check": ["check", "backends/backends.h", "nn", "ops", "tensor"],
    "nn/data": ["nn", "ops", "tensor"],
    "onnx": ["onnx", "nn", "ops", "tensor"],
    "talc.h": ["talc.h", "backends/backends.h", "check", "nn", "onnx", "ops", "tensor"],
    "networks.h": ["talc.h"],
    "tools": ["tools", "examples", "talc.h", "talc"],
    "examples": ["examples", "talc.h", "talc"],
    "tests": ["tests", "tensor", "ops", "backends", "nn", "onnx", "check", "tools", "examples", "talc.h", "talc"],
}

# System headers beyond C11, POSIX and Linux, and the only places that may use them.
LIBRARIES = {
    r"jansson\.h": ["tensor/safetensors.c", "tensor/safetensors_save.c", "tools", "tests"],
    r"(cblas|openblas_config|f77blas|lapacke?)\.h": ["backends/cpu/device/openblas.h", "tools", "tests"],
    r"(cuda|cublas|curand|cufft|nvrtc|nvtx|cooperative_groups|mma|driver_types).*": ["backends/cuda", "tests/device/ranges_listener.c", "tests/support/gpu.c"],
    r"(zlib|png|pngconf|jpeglib|jerror)\.h": ["nn/data", "tools", "tests"],
    r"pb(_\w+)?\.h": ["onnx", "tests"],
    r"(mpi|nccl)\.h": ["nn/parallel", "tests/parallel"],
    r"(netdb|netinet/\w+|sys/socket)\.h": ["nn/parallel", "tools"],
    r"argp\.h": ["tools", "examples", "tests"],
    r"criterion/.*": ["tests"],
    r"sanitizer/.*": ["tests"],
}

SYSTEM = set("""
alloca assert complex ctype dirent dlfcn emmintrin errno fcntl features fnmatch fenv float getopt immintrin inttypes iso646 libgen limits locale
math poll pthread sched semaphore setjmp signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn
string strings tgmath threads time unistd sys/ioctl sys/mman sys/resource sys/stat sys/syscall sys/time sys/types sys/wait
""".split())

# What the build makes, and the only places that may include it.
GENERATED = {"onnx/onnx.pb.h": ["onnx", "tests"]}

# Of a backend's folders: what every one may include, and what else some may.
KERNELS_MAY_INCLUDE = ["primitives", "device", "gemm"]
BETWEEN_KERNELS = [("backends/cuda/conv2d", "backends/cuda/matmul")]

# The one function that a layer declares and a higher one defines: of the devices that there are, the host's.
LOOK_UPS = ["talc_device_host"]

SUFFIXES = (".c", ".h", ".cu", ".cuh", ".cpp")
DECLARED = re.compile(r"^(?!static\b)\w[\w \*]*?\b(talc_\w+)\([^;{}]*\);", re.MULTILINE)
DEFINED = re.compile(r"^(?!static\b)\w[\w \*]*?\b(talc_\w+)\([^;{}]*\)\s*\{", re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)


def within(path, places):
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def rule_for(path):
    places = [place for place in MAY_INCLUDE if within(path, [place])]
    if not places:
        return None
    # Each folder of backends/ is one backend, which knows itself and no other.
    own = ["/".join(path.split("/")[:2])] if re.match("backends/[^/]+/", path) else []
    return MAY_INCLUDE[max(places, key=len)] + own


def resolve(root, source, name):
    """A quoted include as a path from the root, relative to the file first, as the compiler does; None when missing."""
    for base in (source.parent, root):
        found = (base / name).resolve()
        if found.is_file() and found.is_relative_to(root):
            return found.relative_to(root).as_posix()
    return None


def public_headers(root):
    """The headers, and lists read by them, that the build files of the library's folders have as public, and those of
    ops.def that ops.h includes."""
    listed = {name for name in ("talc.h", "networks.h") if (root / name).is_file()}
    if (root / "ops/ops.def").is_file():
        ops = re.findall(r"^TALC_OP\((\w+),", (root / "ops/ops.def").read_text(), re.MULTILINE)
        listed |= {f"ops/{name}.h" for name in ops if f'"{name}.h"' in (root / "ops/ops.h").read_text()}
    for folder in ("tensor", "ops", "backends", "nn", "onnx", "check"):
        for build in (root / folder).rglob("meson.build"):
            for block in re.findall(r"public_(?:headers|lists)\s*\+?=\s*(?:files\()?\[(.*?)\]", build.read_text(), re.DOTALL):
                listed |= set(re.findall(r"'([^']+\.(?:h|def))'", block))
    return listed


def check_system(path, name):
    for pattern, places in LIBRARIES.items():
        if re.fullmatch(pattern, name):
            return None if within(path, places) else f"<{name}> belongs in {', '.join(places)} only"
    if name.removesuffix(".h") in SYSTEM or within(path, ["tests", "tools", "examples"]):
        return None
    if within(path, ["backends/cuda"]) and path.endswith((".cu", ".cuh")):
        return None
    return f"<{name}> is no header of C11, POSIX or a library that this file may use"


def folder_of_kernels(path):
    """backends/cuda/conv2d of backends/cuda/conv2d/implicit_gemm/plan.h; None of other layers' files."""
    match = re.match(r"backends/\w+/\w+(?=/)", path)
    return match and match.group()


def check_project(root, source, path, name, public):
    if name in GENERATED:
        return None if within(path, GENERATED[name]) else f'"{name}" belongs in {", ".join(GENERATED[name])} only'
    target = resolve(root, source, name)
    if target is None:
        return f'"{name}" is not in the project'
    allowed = rule_for(path)
    if allowed is None:
        return f"{path} is in no layer"
    if not within(target, allowed):
        return f"{path} may not include {target}"
    user, used = folder_of_kernels(path), folder_of_kernels(target)
    if user and used and user != used and used.split("/")[2] not in KERNELS_MAY_INCLUDE \
            and (user, used) not in BETWEEN_KERNELS:
        return f"{path} may not include {target}: kernels share {', '.join(KERNELS_MAY_INCLUDE)} alone"
    if path in public:
        if target not in public:
            return f"the public header {path} includes the private {target}"
        if resolve(source.parent, source, name) is None and (source.parent / name).resolve().is_file() is False:
            return f'the public header {path} must include "{name}" relatively'
    elif path.endswith(".c") and not within(path, ["tools", "examples"]) and name != target:
        return f'"{name}" must be written from the root: "{target}"'
    if within(path, ["tools", "examples"]) and within(target, ["talc.h", "tensor", "ops", "backends", "nn", "onnx", "check"]):
        if target not in public:
            return f"{path} includes the private {target}"
    return None


def check_homes(root):
    """A function that a layer calls is defined in that layer or below: what its headers declare is defined in it."""
    declared, defined = [], {}
    for layer in ("tensor", "ops", "backends", "nn", "onnx", "check"):
        for source in sorted((root / layer).rglob("*.[ch]")):
            text, path = COMMENT.sub("", source.read_text()), source.relative_to(root).as_posix()
            if path.endswith(".h"):
                declared += [(layer, path, name) for name in DECLARED.findall(text)]
            else:
                defined.update({name: (layer, path) for name in DEFINED.findall(text)})
    return [f"{path}: {name} is declared here and defined in {defined[name][1]}" for layer, path, name in declared
            if name in defined and defined[name][0] != layer and name not in LOOK_UPS]


def check(root):
    """All forbidden edges of the tree, as texts."""
    public = public_headers(root)
    problems = check_homes(root)
    for source in sorted(root.rglob("*")):
        path = source.relative_to(root).as_posix()
        if not path.endswith(SUFFIXES) or not within(path, MAY_INCLUDE):
            continue
        text = source.read_text()
        for match in INCLUDE.finditer(text):
            kind, name = match.groups()
            if kind == "<" and name.startswith("talc/"):
                inside = within(path, ["tensor", "ops", "backends", "nn", "onnx", "check"])
                problem = f"<{name}> is how programs include talc, the library does not" if inside else None
            elif kind == "<":
                problem = check_system(path, name)
            else:
                problem = check_project(root, source, path, name, public)
            if problem:
                problems.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {problem}")
        # Programs and layers above speak of devices by name; only the registry knows which backends there are.
        outside = not within(path, ["backends", "tests"])
        for match in re.finditer(r"\btalc_(?:cpu|cuda)_\w+", COMMENT.sub("", text)):
            if outside:
                problems.append(f"{path}: names {match.group()}, which is the backend's own")
    return problems


# ---- Self-test: planted trees -----------------------------------------------------------------------------------

GOOD = {
    "talc.h": '#include "tensor/tensor.h"\n#include "ops/ops.h"\n',
    "networks.h": '#include "talc.h"\n',
    "tensor/meson.build": "public_headers += [\n  'tensor/tensor.h',\n]\n",
    "tensor/tensor.h": "#include <stdint.h>\n",
    "tensor/memory.h": '#include "tensor/tensor.h"\n',
    "tensor/safetensors.c": "#include <jansson.h>\n",
    "ops/meson.build": "public_headers += ['ops/ops.h']\n",
    "ops/ops.def": 'TALC_OP(softmax, NAMES("softmax"), IN(x) OUT(y))\n',
    "ops/ops.h": '#include "../tensor/tensor.h"\n#include "softmax.h"\n',
    "ops/softmax.h": "\n",
    "ops/ops.c": '#include "ops/ops.h"\n#include "tensor/memory.h"\n#include <math.h>\n'
                 'int talc_ops(int a,\n             int b)\n{\n    return a;\n}\n',
    "backends/backends.h": "\n",
    "backends/registry.c": '#include "backends/cpu/cpu.h"\n#include "backends/cuda/cuda.h"\n',
    "backends/cpu/cpu.h": '#include "ops/ops.h"\n',
    "backends/cpu/device/openblas.h": "#include <cblas.h>\n",
    "backends/cpu/pool2d/pool2d.h": '#include "backends/cpu/primitives/walk.h"\n',
    "backends/cpu/primitives/walk.h": "\n",
    "backends/cuda/cuda.h": "#include <cuda_runtime_api.h>\n",
    "nn/module.c": '#include "ops/ops.h"\n',
    "onnx/read.c": '#include "onnx/onnx.pb.h"\n#include "nn/nn.h"\n#include <pb_decode.h>\n',
    "nn/nn.h": "\n",
    "tools/cli/talc.c": '#include <talc/talc.h>\n#include <argp.h>\n',
    "tests/test_a.c": '#include "tensor/memory.h"\n#include <criterion/criterion.h>\n',
}

# file, its planted text, a part of the complaint that is expected
BAD = [
    ("tensor/shape.c", '#include "ops/ops.h"\n', "may not include ops/ops.h"),
    ("tensor/shape.c", '#include "../ops/ops.h"\n', "may not include ops/ops.h"),
    ("tensor/tensor.h", "int talc_ops(int a,\n         int b);\n", "talc_ops is declared here and defined in ops/ops.c"),
    ("tensor/npy.c", "#include <jansson.h>\n", "belongs in tensor/safetensors.c"),
    ("tensor/shape.c", '#include "nowhere.h"\n', "is not in the project"),
    ("tensor/shape.c", "#include <talc/talc.h>\n", "the library does not"),
    ("tensor/shape.c", '#include "tensor.h"\n', "must be written from the root"),
    ("ops/conv2d.c", '#include "backends/backends.h"\n', "may not include backends/backends.h"),
    ("ops/conv2d.c", '#include "nn/nothing.h"\n', "is not in the project"),
    ("ops/conv2d.c", "#  include <cblas.h>\n", "belongs in backends/cpu/device/openblas.h"),
    ("ops/conv2d.c", "void f(void) { talc_cpu_fill(); }\n", "names talc_cpu_fill"),
    ("ops/ops.h", '#include "tensor/memory.h"\n', "includes the private tensor/memory.h"),
    ("ops/ops.h", '#include "tensor/tensor.h"\n', "relatively"),
    ("backends/cpu/conv2d/conv2d.c", '#include "backends/cuda/cuda.h"\n', "may not include backends/cuda/cuda.h"),
    ("backends/cuda/conv2d.cu", '#include "backends/cpu/cpu.h"\n', "may not include backends/cpu/cpu.h"),
    ("backends/cpu/conv2d/conv2d.c", "#include <cblas.h>\n", "belongs in backends/cpu/device/openblas.h"),
    ("backends/cpu/conv2d/conv2d.c", "#include <cuda_runtime.h>\n", "belongs in backends/cuda"),
    ("backends/cpu/norm/norm.c", '#include "backends/cpu/pool2d/pool2d.h"\n', "kernels share primitives"),
    ("backends/other.c", '#include "backends/cpu/cpu.h"\n', "may not include backends/cpu/cpu.h"),
    ("nn/linear.c", '#include "onnx/onnx.pb.h"\n', "belongs in onnx"),
    ("nn/linear.c", "#include <pb.h>\n", "belongs in onnx"),
    ("onnx/read.c", '#include "backends/cpu/cpu.h"\n', "may not include backends/cpu/cpu.h"),
    ("nn/linear.c", '#include "backends/cpu/cpu.h"\n', "may not include backends/cpu/cpu.h"),
    ("nn/linear.c", "#include <zlib.h>\n", "belongs in nn/data"),
    ("nn/linear.c", "#include <gtk/gtk.h>\n", "is no header of"),
    ("tools/info.c", '#include "tensor/memory.h"\n', "may not include tensor/memory.h"),
    ("examples/a.c", '#include "backends/cpu/cpu.h"\n', "may not include backends/cpu/cpu.h"),
    ("networks.h", '#include "tensor/tensor.h"\n', "may not include tensor/tensor.h"),
]


def plant(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def self_test():
    failures = []
    for path, text, expected in [(None, None, None)] + BAD:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            plant(root, GOOD if path is None else {**GOOD, path: text})
            problems = check(root)
            if path is None and problems:
                failures.append(f"the good tree is refused: {problems}")
            if path is not None and not any(expected in problem for problem in problems):
                failures.append(f"{path} with {text!r} passes, or is refused for another reason: {problems}")
    return failures


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = self_test() if sys.argv[1] == "--self-test" else check(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


main()

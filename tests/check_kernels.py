#!/usr/bin/env python3
"""Compares registers, stack and static shared memory of every CUDA kernel with tests/kernel_resources.txt, and fails on
each that differs, is missing there, or is gone. Numbers that fell fail too: unnoticed, what was won could be lost again.

With an nvcc other than the table's, or without cuobjdump or c++filt, nothing is compared: the exit status is 77.

usage: check_kernels.py NVCC SOURCE OBJECT [SOURCE OBJECT ...] [--write] | check_kernels.py --self-test
"""

import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/kernel_resources.txt"
SKIPPED = 77

HEAD = """\
# Of every kernel: registers of a thread, rounded up to the 8 that a GPU allocates at a time; bytes of a thread's stack, for
# local arrays and spilled registers; bytes of a block's static shared memory; name. Instantiations with the same three
# numbers share a line: sum<float|double, 1> is two kernels. tests/check_kernels.py compares, and writes this file.
"""
ALLOCATED = 8
NAMES = ("registers", "stack", "shared memory")
BETWEEN_WORDS = r"([<>,]+ ?)" # of a name with template arguments


def output_of(*command, **options):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True, **options).stdout


def find_cuobjdump(nvcc):
    """The one beside nvcc, on PATH, or in Triton, which comes with PyTorch; None when there is none."""
    where = "import importlib.util as i; print(i.find_spec('triton').submodule_search_locations[0])"
    for path in (os.path.dirname(nvcc), None):
        if found := shutil.which("cuobjdump", path=path):
            return found
    for python in (sys.executable, "python3"):
        run = subprocess.run([python, "-c", where], text=True, capture_output=True, check=False)
        if found := shutil.which("cuobjdump", path=run.stdout.strip() + "/backends/nvidia/bin"):
            return found
    return None


# ---- What cuobjdump prints --------------------------------------------------------------------------------------


def readable(function):
    """The kernel's name and template arguments: no parameters, result, or namespaces that all kernels are in."""
    name = re.sub(r"\(anonymous namespace\)::|\btalc::", "", function).removeprefix("void ")
    depth = 0
    for position, letter in enumerate(name):
        if letter == "(" and depth == 0:
            name = name[:position]
            break
        depth += (letter == "<") - (letter == ">")
    return re.sub("> +(?=>)", ">", name)


def resources_of(source, dump):
    """(source, architecture, kernel) -> (registers, stack, shared), of a dump whose names are demangled."""
    found, architecture, kernel = {}, None, None
    for line in dump.splitlines():
        if match := re.match(r"arch = (\w+)", line):
            architecture = match[1]
        elif match := re.match(r" Function (.*):$", line):
            kernel = (source, architecture, readable(match[1]))
        elif match := re.match(r"  REG:(\d+) STACK:(\d+) SHARED:(\d+) ", line):
            if kernel in found:
                sys.exit(f"{source}: two kernels are called {kernel[2]}: the table cannot tell them apart")
            registers, stack, shared = map(int, match.groups())
            found[kernel] = (-(-registers // ALLOCATED) * ALLOCATED, stack, shared)
    if not found:
        sys.exit(f"{source}: cuobjdump shows no kernel")
    return found


# ---- The table --------------------------------------------------------------------------------------------------


def natural(text):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def merged(kernels):
    """The same kernels as fewer texts, in which 1|2 stands for 1 and for 2."""
    families = {}
    for kernel in kernels:
        words = re.split(BETWEEN_WORDS, kernel)
        families.setdefault(tuple(words[1::2]), set()).add(tuple((word,) for word in words[::2]))
    for between, family in families.items():
        for place in range(1, len(between) + 1):
            alike = {}
            for words in family:
                alike.setdefault((words[:place], words[place + 1:]), set()).update(words[place])
            family = {(*before, tuple(sorted(values, key=natural)), *after) for (before, after), values in alike.items()}
        for words in family:
            yield "".join("|".join(values) + text for values, text in zip(words, (*between, "")))


def expanded(text):
    """The kernels that a text of merged() stands for."""
    words = re.split(BETWEEN_WORDS, text)
    return ["".join(choice) for choice in itertools.product(*(word.split("|") for word in words))]


def table_of(nvcc, resources):
    groups, lines = {}, []
    for (source, architecture, kernel), numbers in resources.items():
        groups.setdefault((source, architecture), {}).setdefault(numbers, []).append(kernel)
    for (source, architecture), group in sorted(groups.items()):
        lines.append(f"{source} {architecture}\n")
        texts = [(natural(text), text, numbers) for numbers, kernels in group.items() for text in merged(kernels)]
        lines += [f"{registers:5}{stack:5}{shared:7}  {text}\n" for _, text, (registers, stack, shared) in sorted(texts)]
    return f"{nvcc}\n{HEAD}" + "".join(lines)


def read_table(text):
    """The nvcc that the table is of, and its resources."""
    nvcc, *lines = text.splitlines()
    resources, place = {}, None
    for line in lines:
        if match := re.match(r" +(\d+) +(\d+) +(\d+)  (.*)", line):
            for kernel in expanded(match[4]):
                resources[(*place, kernel)] = tuple(int(number) for number in match.groups()[:3])
        elif not line.startswith("#"):
            place = tuple(line.split())
    return nvcc, resources


def check(table, built):
    problems = []
    for key in sorted(table.keys() | built.keys(), key=lambda key: (*key[:2], natural(key[2]))):
        source, architecture, kernel = key
        where, now, old = f"backends/cuda/{source}.cu: {kernel} on {architecture}", built.get(key), table.get(key)
        if old is None:
            numbers = ", ".join(f"{name} {number}" for name, number in zip(NAMES, now))
            problems.append(f"{where} is not in the table ({numbers})")
        elif now is None:
            problems.append(f"{where} is in the table, but no longer built")
        elif now != old:
            changes = [f"{name} {was} -> {number}" for name, was, number in zip(NAMES, old, now) if was != number]
            problems.append(f"{where}: {', '.join(changes)}")
    return problems


# ---- Self-test: a planted dump ----------------------------------------------------------------------------------

DUMP = """
Fatbin elf code:
================
arch = sm_90
Resource usage:
 Common:
  GLOBAL:0
 Function void talc::(anonymous namespace)::sum<float, (talc::pass)0, talc::form<1, true> >(float*, void (*)(int)):
  REG:40 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function void talc::(anonymous namespace)::sum<double, (talc::pass)0, talc::form<1, true> >(double*, void (*)(int)):
  REG:40 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function void talc::(anonymous namespace)::sum<double, (talc::pass)1, talc::form<1, true> >(double*, void (*)(int)):
  REG:40 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function void talc::(anonymous namespace)::sum<float, (talc::pass)1, talc::form<1, true> >(float*, void (*)(int)):
  REG:255 STACK:88 SHARED:1024 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function add_up:
  REG:8 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
TEXT = """\
reduce/sum sm_90
    8    0      0  add_up
   40    0   1024  sum<double, (pass)1, form<1, true>>
   40    0   1024  sum<double|float, (pass)0, form<1, true>>
  256   88   1024  sum<float, (pass)1, form<1, true>>
"""
PLANTED = [
    ("REG:8 ", "REG:9 ", "reduce/sum.cu: add_up on sm_90: registers 8 -> 16"),
    ("REG:255 ", "REG:168 ", "sum<float, (pass)1, form<1, true>> on sm_90: registers 256 -> 168"),
    ("STACK:88 ", "STACK:96 ", "sum<float, (pass)1, form<1, true>> on sm_90: stack 88 -> 96"),
    ("SHARED:0 ", "SHARED:16 ", "add_up on sm_90: shared memory 0 -> 16"),
    ("add_up", "add_all", "add_all on sm_90 is not in the table (registers 8, stack 0, shared memory 0)"),
    ("add_up", "add_all", "add_up on sm_90 is in the table, but no longer built"),
    ("sum<double, (talc::pass)0", "sum<int, (talc::pass)0", "sum<double, (pass)0, form<1, true>> on sm_90 is in the table"),
    ("sm_90", "sm_100", "add_up on sm_100 is not in the table"),
]


def self_test():
    failures, resources = [], resources_of("reduce/sum", DUMP)
    text = table_of("nvcc 1", resources)
    if text != "nvcc 1\n" + HEAD + TEXT:
        failures.append(f"the table is written as\n{text}")
    if read_table(text) != ("nvcc 1", resources) or check(read_table(text)[1], resources):
        failures.append(f"the table is read as {read_table(text)}")
    for old, new, expected in PLANTED:
        problems = check(resources, resources_of("reduce/sum", DUMP.replace(old, new)))
        if not any(expected in problem for problem in problems):
            failures.append(f"{old} -> {new} passes, or is refused for another reason: {problems}")
    return failures


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    if arguments == ["--self-test"]:
        problems = self_test()
        print("\n".join(problems))
        sys.exit(1 if problems else 0)
    if len(arguments) < 3 or len(arguments) % 2 == 0:
        sys.exit(__doc__)
    nvcc, pairs = arguments[0], zip(arguments[1::2], arguments[2::2])
    version = "nvcc " + re.search(r"release (.*)", output_of(nvcc, "--version"))[1]
    old_version, table = read_table(TABLE.read_text()) if TABLE.exists() else (None, {})
    writes, cuobjdump = "--write" in sys.argv, find_cuobjdump(nvcc)
    if cuobjdump is None or shutil.which("c++filt") is None:
        print(f"skipped: there is no {'c++filt' if cuobjdump else 'cuobjdump'}")
        sys.exit(SKIPPED)
    if version != old_version and not writes:
        print(f"skipped: the table is of {old_version}, the library of {version}")
        sys.exit(SKIPPED)
    built = {}
    for source, compiled in pairs:
        dump = output_of(cuobjdump, "--dump-resource-usage", compiled)
        built.update(resources_of(source, output_of("c++filt", input=dump)))
    if writes:
        TABLE.write_text(table_of(version, built))
        return
    problems = check(table, built)
    if problems:
        problems.append(f"Where that is meant: meson test -C {os.path.relpath('.', ROOT)} kernels --test-args=--write\n"
                        "writes the table anew.")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


main()

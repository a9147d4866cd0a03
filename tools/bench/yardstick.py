#!/usr/bin/env python3
"""Times two builds of talc side by side on the shapes of yardstick.txt, to see what a change of the code costs.

usage: yardstick.py [OPTION ...] OLD NEW      OLD, NEW: two talc programs, such as ../old/build/tools/talc

Each round runs both builds, in processes of their own and in turn; a time is the median of the rounds. What is slower
by more than 5 % and 1 us is timed again, alone, and counts as a loss if it is slower again. Exit code 1: a loss.
"""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys

LOSS, LOSS_SECONDS = 1.05, 1e-6
CPU_FLOPS = 2e9  # on the CPU problems of more are left out


def read_list(path):
    """[(kind, name, words)]: kind is strict or tf32 (of a convolution), op, or network."""
    lines = (line.split("#")[0].split() for line in open(path))
    return [(words[0], words[1], words[2:]) for words in lines if words]


def run(talc, arguments, precision=""):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    environment["TALC_PRECISION"] = precision
    done = subprocess.run([talc, "bench", "--json", *arguments], env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"yardstick: {talc} bench {' '.join(arguments)} ends with {done.returncode}")
    return json.loads(done.stdout)


def time_convolutions(talc, kind, names, options):
    found = run(talc, [*options, "--chosen", "--unchecked", "--no-peers", *names], "tf32" if kind == "tf32" else "")
    for problem in found["problems"]:
        ran = [c for c in problem["contenders"] if c["timed"]]
        if ran:
            yield f"{kind} {problem['name']}", ran[0]["seconds_least"], ran[0]["name"]


def time_ops(talc, names, options):
    for op in run(talc, [*options, "--size", "256MiB", *names])["ops"]:
        if op["timed"]:
            yield f"op {op['name']}", op["seconds_least"], ""


def time_network(talc, name, words, options):
    found = run(talc, [name, *words, *options])
    for way in found["ways"]:
        yield f"network {' '.join([name, *words])} {way['way']}", min(way["in_a_row"]), ""


def time_all(talc, entries, device):
    """{entry: (seconds, algorithm)}"""
    options = ["--device", device]
    found = []
    for kind in ("strict", "tf32"):
        names = [name for k, name, _ in entries if k == kind]
        if names and not (kind == "tf32" and device == "cpu"):
            found += time_convolutions(talc, kind, names, options)
    ops = [name for kind, name, _ in entries if kind == "op"]
    if ops:
        found += time_ops(talc, ops, options)
    for kind, name, words in entries:
        if kind == "network":
            found += time_network(talc, name, words, options)
    return {name: (seconds, algorithm) for name, seconds, algorithm in found}


def compare(old, new, entries, device, rounds):
    """{entry: (old seconds, new seconds, old algorithm, new algorithm)}"""
    seconds, algorithms = {}, {}
    for turn in range(rounds):
        print(f"round {turn + 1} of {rounds}", file=sys.stderr)
        for build in ((0, 1), (1, 0))[turn % 2]:
            for name, (time, algorithm) in time_all((old, new)[build], entries, device).items():
                seconds.setdefault((name, build), []).append(time)
                algorithms[name, build] = algorithm
    return {name: (statistics.median(seconds[name, 0]), statistics.median(seconds[name, 1]),
                   algorithms[name, 0], algorithms[name, 1])
            for name, build in seconds if build == 1 and (name, 0) in seconds}


def loses(old, new):
    return new > LOSS * old and new - old > LOSS_SECONDS


def flops(text):
    """Of a problem's text, to within the padding."""
    numbers = {}
    for letter, first, second in re.findall(r"([nchwoksg])(\d+)(?:x(\d+))?", text.split("_")[0]):
        numbers[letter] = (int(first), int(second or first))
    stride, kernel = numbers.get("s", (1, 1)), numbers["k"]
    positions = numbers["h"][0] * numbers["w"][0] / (stride[0] * stride[1])
    groups = numbers.get("g", (1, 1))[0]
    return 2 * numbers["n"][0] * positions * numbers["o"][0] * numbers["c"][0] / groups * kernel[0] * kernel[1]


def named_problems(talc):
    """{name: text} of the convolutions that `talc bench` knows by name."""
    return {problem["name"]: problem["problem"] for problem in run(talc, ["--list"]) if "problem" in problem}


def left_out(named, kind, name, words):
    """Whether an entry takes too long on a CPU."""
    if kind == "network":
        return words != ["--batch", "1"]
    return kind != "op" and flops(named.get(name, name)) > CPU_FLOPS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--list", default=pathlib.Path(__file__).with_name("yardstick.txt"), help="the shapes")
    parser.add_argument("--only", default="", help="entries that contain this text")
    parser.add_argument("-o", "--output", help="JSON of all times and algorithms")
    arguments = parser.parse_args()
    entries = [entry for entry in read_list(arguments.list) if arguments.only in " ".join([*entry[:2], *entry[2]])]
    old, new = (str(pathlib.Path(talc).resolve()) for talc in (arguments.old, arguments.new))
    if arguments.device == "cpu":
        named = named_problems(new)
        entries = [entry for entry in entries if not left_out(named, *entry)]
    found = compare(old, new, entries, arguments.device, arguments.rounds)

    again = {name for name, (before, after, *_) in found.items() if loses(before, after)}
    slow = [entry for entry in entries if any(name.startswith(f"{entry[0]} {' '.join([entry[1], *entry[2]])}")
                                              for name in again)]
    if slow:
        found.update(compare(old, new, slow, arguments.device, 2 * arguments.rounds - 1))

    losses = 0
    print(f"{'old us':>10} {'new us':>10}  ratio")
    for name, (before, after, by_old, by_new) in found.items():
        lost = loses(before, after)
        losses += lost
        by = by_new if by_old == by_new else f"{by_old} -> {by_new}"
        print(f"{before * 1e6:10.1f} {after * 1e6:10.1f} {after / before:6.3f}{' LOSS' if lost else ''}  {name}  {by}")
    for kind in ("strict", "tf32", "op", "network"):
        ratios = [after / before for name, (before, after, *_) in found.items() if name.startswith(kind + " ")]
        if ratios:
            print(f"{kind}: {len(ratios)} times, geometric mean of new over old "
                  f"{math.exp(statistics.fmean(map(math.log, ratios))):.3f}, "
                  f"least {min(ratios):.3f}, most {max(ratios):.3f}")
    print(f"{losses} losses")
    if arguments.output:
        with open(arguments.output, "w") as file:
            json.dump(found, file, indent=1)
    return losses > 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Prints the tables of docs/performance.md, measured now.

usage: bench_tables.py TALC [DEVICE]        TALC is the talc command; cuda unless a device is named
"""

import json
import subprocess
import sys

ROUNDS = "9"


def talc(command, *arguments):
    done = subprocess.run([command, *arguments, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def number(value, digits=3):
    return "" if value is None else f"{value:.{digits}g}" if value < 1000 else f"{value:.0f}"


def percent(value):
    return "" if value is None else f"{100 * value:.1f} %"


def milliseconds(seconds):
    return number(seconds * 1e3)


def print_convolutions(problems, what):
    print("| convolution | algorithm | ms | TFLOP/s | of the product | GB/s | of the copy | bare, ms | over it |")
    print("|-|-|-|-|-|-|-|-|-|")
    for problem in problems:
        peers = [c for c in problem["contenders"] if c["peer"] and c["timed"]]
        first = f"{problem['name']}: {what[problem['name']]}"
        for c in problem["contenders"]:
            if c["peer"] or not c["timed"]:
                continue
            seconds, bare = c["seconds_least"], peers[0]["seconds_least"] if peers else None
            print(f"| {first} | {c['name']} | {milliseconds(seconds)} | {number(c['gflops'] / 1e3)} | "
                  f"{percent(c['share_of_product'])} | {number(c['gigabytes_per_second'])} | {percent(c['share_of_copy'])} | "
                  f"{'' if bare is None else milliseconds(bare)} | {'' if bare is None else number(seconds / bare)} |")
            first = ""


def print_ops(ops, what):
    print("| op on 1 GiB | | ms | GB/s | of the copy |")
    print("|-|-|-|-|-|")
    for op in ops:
        print(f"| {op['name']} | {what[op['name']]} | {milliseconds(op['seconds_least'])} | "
              f"{number(op['gigabytes_per_second'])} | {percent(op['share_of_copy'])} |")


def print_calls(ops, what):
    print("| call | | microseconds |")
    print("|-|-|-|")
    for op in ops:
        if op["timed"]:
            print(f"| {op['name'].removeprefix('host_')} | {what[op['name']]} | {op['seconds_least'] * 1e6:.2f} |")


def main(command, device="cuda"):
    what = {row["name"]: row["what"] for row in talc(command, "bench", "--list")}
    convolutions = talc(command, "bench", "A", "B", "gpu", "--device", device, "--repeat", ROUNDS)
    ops = talc(command, "bench", "ops", "--device", device, "--repeat", ROUNDS)
    windows = talc(command, "bench", "windows", "--device", device, "--repeat", ROUNDS)
    calls = talc(command, "bench", "host", "--device", device, "--repeat", ROUNDS)
    for done in (convolutions, ops, windows):
        print(f"{done['description']}: a large product makes {number(done['product_flops_per_second'] / 1e12)} TFLOP/s, "
              f"a large copy moves {number(done['copy_bytes_per_second'] / 1e9, 4)} GB/s.\n")
        if done["problems"]:
            print_convolutions(done["problems"], what)
        else:
            print_ops(done["ops"], what)
        print()
    print_calls(calls["ops"], what)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__.strip())
    main(*sys.argv[1:])

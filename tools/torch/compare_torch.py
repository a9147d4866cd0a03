#!/usr/bin/env python3
"""Compares talc with PyTorch on random problems, element by element, against a bound that follows from the arithmetic.

Every algorithm of the device that does not refuse a problem runs on it; operands are contiguous, permuted or have gaps.
PyTorch says in float64 what each element must be and, from absolute values, how large the terms of its sum are. With
u = 2^-24 (f32) or 2^-53 (f64), K terms and S the sum of their sizes, an element may be off by

    conv2d, linear, matmul, sum   4 u sqrt(K + 4) S, at most (K + 2) u S
    mean, average pooling         the same and u |y| for the division
    batch_norm2d                  8 u S, S = |weight| (|x - mu| + mean |x|) / sigma + |bias| + |residual|; in f64, where the M values
                                  of a channel are added in the same type, 4 u sqrt(M + 4) S more
    group_norm                    the same with the M values of a group; also layer_norm and instance_norm2d
    softmax                       (4 + |x - max| + 2 sqrt(n)) u y
    log_softmax                   that much without the y, and u |y|
    max, argmax, max_pool2d       0, indices likewise
    gradients                     as sums, which they are (compare_torch_gradients.py)
    elementwise ops               8 u |y| + 4 u |x y'|, their gradients likewise (compare_torch_elementwise.py)
    the other ops                 compare_torch_more.py

and by 4 ulp more after an activation that rounds, times its slope where that is over 1. An algorithm that adds f32 data in f64 has its one rounding, u |y|, instead,
and these bounds with u = 2^-53. PyTorch's own float64 rounding is added where it has any (compare_torch_problems.py).
Rows "PyTorch" hold its own f32 results, and f64 ones of softmax, against the same bounds, to show what these are worth.

`compare_torch.py train` compares LeNet's training instead (compare_torch_train.py), `compare_torch.py networks` whole networks, forward and
gradients (compare_torch_networks.py), `compare_torch.py activations` has `talc check model` judge the layers of PyTorch's networks
(compare_torch_activations.py), and `compare_torch.py images` compares how images are read and resized (compare_torch_images.py).

Needs numpy and PyTorch 1.13 or later; the CPU build does. Exit code 1 when a share of a bound is over 1 or a shape
differs, 2 when nothing could be compared.
"""
import argparse
import pathlib
import sys
import warnings

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"compare_torch.py needs numpy and PyTorch: {missing}", file=sys.stderr)
    sys.exit(2)

import compare_torch_activations
import compare_torch_elementwise
import compare_torch_gradients
import compare_torch_more
import compare_torch_networks
import compare_torch_train
from compare_torch_problems import OPS, WEIGHTS, layout_of, shares
from talc_library import FORCED, Refused, Talc, known_results

for more in (compare_torch_elementwise, compare_torch_more):
    OPS.update(more.FORWARD)
    compare_torch_gradients.OPS.update(more.GRADIENTS)
GROUPS = {"forward": list(OPS), "gradients": list(compare_torch_gradients.OPS)}
OPS.update(compare_torch_gradients.OPS)
WEIGHTS.update(compare_torch_gradients.WEIGHTS)
LIBRARY = pathlib.Path(__file__).resolve().parents[2] / "build" / "libtalc.so"


class Tally:
    """What became of one op in one type by one algorithm."""

    def __init__(self):
        self.cases, self.failed, self.share, self.text = 0, 0, 0.0, ""

    def add(self, share, text):
        self.cases += 1
        self.failed += share > 1
        if share > self.share:
            self.share, self.text = share, text


class Tallies(dict):
    def __missing__(self, key):
        self[key] = Tally()
        return self[key]


# ---- One case ---------------------------------------------------------------------------------------------------

def judged(results, expected_values, dtype, wide):
    """The worst share of the bound, and a text on the element that has it."""
    worst = 0.0, ""
    for y, expected in zip(results, expected_values):
        if y.shape != expected.value.shape or (y.dtype.kind == "f") != (expected.value.dtype.kind == "f"):
            return np.inf, f"the result is {y.dtype} {y.shape}, expected is {expected.value.dtype} {expected.value.shape}"
        bound = expected.bound(dtype, wide)
        share = shares(y, expected, bound)
        if share.size and share.max() > worst[0]:
            at = np.unravel_index(share.argmax(), share.shape)
            worst = (float(share.max()), f"element [{','.join(map(str, at))}] is {float(y[at])!r}, expected "
                                         f"{float(expected.value[at])!r}, bound {float(bound[at]):.3g}")
    return worst


def bites(results, expected_values, dtype, wide, rng):
    """Whether a result with one element off by twice its bound, and one of another shape, would be rejected."""
    y, expected = results[0], expected_values[0]
    if y.size == 0:
        return True
    at = tuple(int(rng.integers(e)) for e in y.shape)
    bent = y.copy()
    if expected.value.dtype.kind != "f" or not np.isfinite(expected.value[at]):
        bent[at] = expected.value[at] + 1 if np.isfinite(expected.value[at]) else 0
    else:
        bent[at] = np.nextafter(y.dtype.type(expected.value[at] + 2 * expected.bound(dtype, wide)[at]), np.inf, dtype=y.dtype)
    return all(judged([wrong, *results[1:]], expected_values, dtype, wide)[0] > 1 for wrong in (bent, y[None]))


def run(talc, case, op, algorithm, layouts):
    """The results of one algorithm as arrays."""
    op = FORCED.get(op, op)
    if algorithm is not None:
        talc.algorithm_force(op.encode(), algorithm.encode())
    scope = talc.scope_enter()
    try:
        operands = [talc.place(operand, layout) for operand, layout in zip(case.operands, layouts)]
        return [talc.download(y) for y in case.call(talc, *operands)]
    finally:
        talc.scope_leave(scope)
        if algorithm is not None:
            talc.algorithm_force(op.encode(), None)


def run_case(talc, op, dtype, rng, tallies):
    """Runs every algorithm on one random problem. Yields a text for each that fails."""
    case = OPS[op](rng, dtype)
    layouts = [layout_of(rng, operand) if i < case.views else None for i, operand in enumerate(case.operands)]
    text = f"{op}:{case.text}" + "".join(f" operand {i} {'with gaps' if isinstance(layout, int) else 'permuted'}"
                                         for i, layout in enumerate(layouts) if layout is not None)
    expected_values, ran = case.expected_values(), False
    for algorithm, wide in talc.algorithms(op):
        try:
            results = run(talc, case, op, algorithm, layouts)
            share, line = judged(results, expected_values, dtype, wide)
            if share <= 1 and not bites(results, expected_values, dtype, wide, rng):
                share, line = np.inf, "a wrong result would have passed"
        except Refused:
            continue
        except RuntimeError as error:
            share, line = np.inf, str(error)
        ran = True
        tallies[op, dtype, algorithm or "copies"].add(share, text)
        if share > 1:
            yield f"{text} by {algorithm or 'copies'}: share {share:.3g}: {line}"
    if not ran:
        tallies[op, dtype, "none"].add(np.inf, text)
        yield f"{text}: every algorithm refuses"
    if expected_values[0].peer is not None:
        tallies[op, dtype, "PyTorch"].add(judged([expected.peer for expected in expected_values if expected.peer is not None],
                                                 [expected for expected in expected_values if expected.peer is not None], dtype, False)[0], text)


# ---- The command ------------------------------------------------------------------------------------------------

def report(tallies, ops):
    print(f"{'op':<32}{'type':<6}{'algorithm':<12}{'cases':>6}{'share':>9}  worst case")
    order = sorted(tallies.items(), key=lambda item: (ops.index(item[0][0]), item[0][1], item[0][2] == "PyTorch"))
    for (op, dtype, algorithm), t in order:
        share = f"{t.share:.3f}" if t.share < 1000 else f"{t.share:.2g}"
        print(f"{op:<32}{dtype:<6}{algorithm:<12}{t.cases:>6}{share:>9}  {t.text or 'every element exact'}")


def arguments():
    parser = argparse.ArgumentParser(description="Compares talc with PyTorch on random problems; compare_torch.py train, in training; compare_torch.py networks, in whole networks; compare_torch.py activations, their layers; compare_torch.py images, reading and resizing.")
    parser.add_argument("cases", type=int, nargs="?", default=2000, help="how many problems (2000)")
    parser.add_argument("--seed", type=int, default=0, help="of the problems and their data (0)")
    parser.add_argument("--ops", default="forward,gradients",
                        help="comma-separated, of " + ", ".join([*OPS, *GROUPS]))
    parser.add_argument("--case", type=int, help="only the problem of this number")
    parser.add_argument("--device", default="cpu", help="talc's (cpu); PyTorch computes on the CPU")
    parser.add_argument("--library", metavar="PATH", default=LIBRARY, help="libtalc.so (build/libtalc.so)")
    options = parser.parse_args()
    options.ops = list(dict.fromkeys(op for name in options.ops.split(",") for op in GROUPS.get(name, [name])))
    for op in options.ops:
        if op not in OPS:
            parser.error(f"there is no op '{op}'; there are {', '.join(OPS)}")
    if options.cases < 1 or options.seed < 0 or (options.case or 0) < 0:
        parser.error("the number of cases must be at least 1, seed and case at least 0")
    return options


def main():
    if sys.argv[1:2] == ["train"]:
        return compare_torch_train.main(sys.argv[2:], LIBRARY)
    if sys.argv[1:2] == ["images"]:
        import compare_torch_images  # it needs more than the others
        return compare_torch_images.main(sys.argv[2:], LIBRARY)
    if sys.argv[1:2] == ["networks"]:
        return compare_torch_networks.main(sys.argv[2:], LIBRARY)
    if sys.argv[1:2] == ["activations"]:
        return compare_torch_activations.main(sys.argv[2:], LIBRARY)
    options = arguments()
    try:
        talc = Talc(options.library, options.device)
        known_results(talc)
    except (OSError, AttributeError, RuntimeError, Refused) as error:
        print(f"compare_torch.py: {error}", file=sys.stderr)
        return 2
    torch.set_num_threads(1)  # the problems are small
    warnings.filterwarnings("ignore", "Using padding='same' with even kernel")
    warnings.filterwarnings("ignore", "var\\(\\): degrees of freedom")  # a correction may leave none
    print(f"talc on {options.device} and PyTorch {torch.__version__}, seed {options.seed}")

    schedule = [(op, dtype) for dtype in ("f32", "f64") for op in options.ops for _ in range(WEIGHTS.get(op, 1))]
    repeat = f"compare_torch.py --seed {options.seed} --ops {','.join(options.ops)} --case"
    tallies = Tallies()
    numbers = range(options.cases) if options.case is None else [options.case]
    for number in numbers:
        op, dtype = schedule[number % len(schedule)]
        for failure in run_case(talc, op, dtype, np.random.default_rng([options.seed, number]), tallies):
            print(f"FAILED {failure}\n    {repeat} {number}")
    report(tallies, options.ops)
    ours = [t for (_, _, algorithm), t in tallies.items() if algorithm != "PyTorch"]
    failed = sum(t.failed for t in ours)
    print(f"{len(numbers)} problem(s), {sum(t.cases for t in ours)} results compared, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

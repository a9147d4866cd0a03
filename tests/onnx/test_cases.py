#!/usr/bin/env python3
"""Runs the onnx package's own tests of operators (write_cases.py) by onnx_cases: each passes or is refused.

usage: test_cases.py ONNX_CASES [--reasons]      --reasons prints how many are refused for what

Skipped, with exit status 77, where Python has no onnx.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
PASSED_AT_LEAST = 600


def main():
    try:
        import write_cases
    except ImportError as error:
        print(f"skipped: {error}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        print(write_cases.write_all(pathlib.Path(folder)))
        cases = sorted(str(path) for path in pathlib.Path(folder).iterdir())
        run = subprocess.run([sys.argv[1], "cpu", *cases], stdout=subprocess.PIPE, text=True, check=False)
    lines = run.stdout.splitlines()
    count = collections.Counter(line.split()[0] for line in lines)
    print(dict(count))
    print("\n".join(line for line in lines if line.startswith("FAILED")))
    if "--reasons" in sys.argv:
        reasons = collections.Counter()
        for line in lines:
            if line.startswith("refused"):
                reasons[re.sub(r" '[^']*'|^refused \S+: (?:\S*model.onnx: )?|, .*", "", line)] += 1
        print("\n".join(f"{number} {reason}" for reason, number in reasons.most_common()))
    enough = count["passed"] >= PASSED_AT_LEAST and len(lines) == len(cases)
    return run.returncode if enough else 1


if __name__ == "__main__":
    sys.exit(main())

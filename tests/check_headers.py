#!/usr/bin/env python3
"""Checks the public interface: each public header compiles alone as C11 and C++17 with every compiler that is here, and
the shared library exports exactly the functions that they declare with TALC_API.

usage: check_headers.py ROOT LIBRARY HEADER... | check_headers.py --self-test
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
COMPILERS = [("gcc", "c", "c11"), ("clang", "c", "c11"), ("g++", "c++", "c++17"), ("clang++", "c++", "c++17")]

# What a sanitizer adds to every library.
FOREIGN = re.compile(r"^(_init|_fini|__bss_start|_edata|_end|__odr_asan.*|__asan.*|__start_.*|__stop_.*|__sanitizer.*|__gcov.*|mangle_path)$")


def compile_problems(root, headers):
    problems = []
    for compiler, language, standard in COMPILERS:
        if shutil.which(compiler) is None:
            continue
        for header in headers:
            # Twice, so that a missing guard shows; from another folder, so that includes must be relative.
            source = f'#include "{root / header}"\n#include "{root / header}"\nint unused_{abs(hash(header))};\n'
            run = subprocess.run([compiler, "-x", language, f"-std={standard}", *WARNINGS, "-"], input=source, text=True,
                                 capture_output=True, cwd="/", check=False)
            if run.returncode != 0:
                problems.append(f"{header} does not stand alone with {compiler} -std={standard}:\n{run.stderr.strip()}")
    return problems


# The macros for lists are C's compound literals, of which C++ knows none: it has its own.
CPP_PROGRAM = """
static const talc_dims constant = TALC_DIMS(2, 3);
talc_tensor *ones(talc_device *device, int rows) {
    talc_module *net = TALC_SEQUENTIAL(talc_nn_relu(), talc_nn_flatten());
    talc_tensor *x = talc_forward(net, talc_ones(device, TALC_F32, TALC_DIMS(rows, rows + 1L, 4)));
    talc_module_free(net);
    return talc_add(x, talc_full(device, TALC_F32, constant.rank == 2 ? constant : TALC_SCALAR, 1));
}
"""


def macro_problems(root):
    problems = []
    for compiler, language, standard in COMPILERS:
        if language != "c++" or shutil.which(compiler) is None:
            continue
        run = subprocess.run([compiler, "-x", language, f"-std={standard}", *WARNINGS, "-"], text=True, capture_output=True,
                             input=f'#include "{root / "talc.h"}"\n' + CPP_PROGRAM, cwd="/", check=False)
        if run.returncode != 0:
            problems.append(f"a program of the macros does not compile with {compiler} -std={standard}:\n{run.stderr.strip()}")
    return problems


def declared_names(text):
    """The functions and objects declared with TALC_API in a header."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", " ", text, flags=re.MULTILINE)
    names = set()
    for declaration in re.findall(r"\bTALC_API\b([^;{]*)", text):
        match = re.search(r"\b(\w+)\s*(?:\(|\[|$)", declaration.replace("\n", " ").strip())
        names.add(match.group(1) if match else declaration.strip())
    return names


def exported_names(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], text=True, capture_output=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines() if line.split()}
    return {name for name in names if not FOREIGN.match(name)}


def symbol_problems(declared, exported):
    problems = [f"{name} is exported without the talc_ prefix" for name in exported if not name.startswith("talc_")]
    problems += [f"{name} is exported, but no public header declares it" for name in exported - declared]
    problems += [f"{name} is declared with TALC_API, but not exported" for name in declared - exported]
    return sorted(problems)


def self_test():
    failures = []
    declared = declared_names("""
        #define TALC_API __attribute__((visibility("default")))
        // TALC_API int talc_commented(void);
        TALC_API int talc_a(int x);      TALC_API const char *talc_b(const struct talc_s *s,
                                                                     void (*f)(int));
        TALC_API talc_status talc_c(int a, const char *format, ...) TALC_PRINTF(2, 3);
        TALC_API extern const int talc_d[];
    """)
    if declared != {"talc_a", "talc_b", "talc_c", "talc_d"}:
        failures.append(f"declarations read as {declared}")
    if symbol_problems({"talc_a"}, {"talc_a"}) or len(symbol_problems({"talc_a"}, {"talc_b", "stray"})) != 4:
        failures.append("symbols are compared wrongly")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "good.h").write_text("#ifndef G\n#define G\n#include <stdint.h>\nextern int64_t g;\n#endif\n")
        (root / "needs.h").write_text("#ifndef N\n#define N\nextern int64_t n;\n#endif\n")
        (root / "unguarded.h").write_text("struct s { int i; };\n")
        (root / "cpp.h").write_text("#ifndef C\n#define C\nextern int class;\n#endif\n")
        broken = [problem.split()[0] for problem in compile_problems(root, ["good.h", "needs.h", "unguarded.h", "cpp.h"])]
        if "good.h" in broken or not {"needs.h", "unguarded.h", "cpp.h"} <= set(broken + ["cpp.h"] * (shutil.which("g++") is None)):
            failures.append(f"headers refused: {broken}")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems = self_test()
    elif len(sys.argv) > 3:
        root, library, headers = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:]
        declared = set().union(*(declared_names((root / header).read_text()) for header in headers))
        problems = compile_problems(root, headers) + macro_problems(root) + symbol_problems(declared, exported_names(library))
    else:
        sys.exit(__doc__)
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


main()

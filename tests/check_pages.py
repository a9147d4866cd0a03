#!/usr/bin/env python3
"""Fails where docs/convolution.md and docs/training.md say what programs and sources do not: output that they quote, names, files,
drawings; where a page of docs has a copy of a source that is another; and where a program in README.md or docs/training.md does not
compile, or one of docs/training.md does not print what stands behind it.

usage: check_pages.py ROOT BUILD COMPILER SANITIZERS | check_pages.py --self-test

An indented block whose first line is `$ command` has lines that the command prints, in their order; ... leaves some out.
Names of C in backticks are names in the sources. SANITIZERS is meson's b_sanitize.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

PAGE = "docs/convolution.md"
PROGRAMS = "docs/training.md"  # whose programs run; those of README.md compile only
CODE = (".c", ".h", ".cu", ".cuh")
FOLDERS = ("tensor", "ops", "backends", "nn", "check", "tools", "examples", "tests")


def blocks(text):
    """Commands, the lines quoted from each, and the number of the line of the command."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("    $ "):
            found.append((line[6:].strip(), [], number))
        elif line.startswith("    ") and found and found[-1][2] + len(found[-1][1]) + 1 == number:
            found[-1][1].append(line[4:].rstrip())
    return found


def missing(quoted, printed):
    """The first quoted line that is not printed after those before it, else None. Blanks between words do not count."""
    printed = [" ".join(line.split()) for line in printed]
    for line in quoted:
        words = " ".join(line.split())
        if words in ("...", ""):
            continue
        if words not in printed:
            return line
        printed = printed[printed.index(words) + 1:]
    return None


def output(command, root, build):
    words = command.split()
    words = [sys.executable if word == "python3" else str(build / word[6:]) if word.startswith("build/") else word
             for word in words]
    environment = dict(os.environ, TALC_THREADS="2", TALC_CPU="portable")  # on which workspaces depend
    result = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, timeout=60)
    return result.stdout.split("\n") if result.returncode == 0 else [f"exit code {result.returncode}"]


def unknown_names(text, root):
    """Files and names with an underscore, in backticks, that no source has."""
    sources = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in CODE]
    words = set()
    for path in sources:
        words.update(re.findall(r"\w+", path.read_text(errors="replace")))
    parts = [path.relative_to(root).parts for path in sources]
    files = {"/".join(part[k:]) for part in parts for k in range(len(part))}
    names = re.findall(r"`([\w/.]+)`", text)
    return [name for name in names
            if (name.endswith(CODE) and name not in files) or
            (re.fullmatch(r"\w*_\w*", name) and name != "like_this" and name not in words)]


def stale_drawings(root):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, root / "docs/convolution_drawings.py", folder], check=True)
        return [drawn.name for drawn in sorted(pathlib.Path(folder).iterdir())
                if not (root / "docs" / drawn.name).exists() or drawn.read_bytes() != (root / "docs" / drawn.name).read_bytes()]


def stale_copies(root):
    """Files in backticks of which a page of docs has a copy behind it, in ```c, that is another."""
    return [f"docs/{page.name}: not what {name} is"
            for page in sorted((root / "docs").glob("*.md"))
            for name, code in re.findall(r"`([\w/]+\.c)`[^`]*```c\n(.*?)```", page.read_text(), re.DOTALL)
            if (root / name).read_text() != code]


def programs(text):
    """Each block in ```c with a main, the lines of the indented block behind it, and the number of its first line."""
    found = []
    for match in re.finditer(r"```c\n(.*?)```\n(?:\n((?:    [^\n]*\n)+))?", text, re.DOTALL):
        if "int main(" in match.group(1):
            quoted = [line[4:] for line in (match.group(2) or "").split("\n")]
            found.append((match.group(1), quoted, text.count("\n", 0, match.start()) + 2))
    return found


def flags(build, sanitizers):
    """What a program needs that uses talc from the build's folder."""
    static = [] if (build / "libtalc.so").exists() else ["--static"]
    environment = dict(os.environ, PKG_CONFIG_PATH=f"{build}/meson-uninstalled")
    found = subprocess.run(["pkg-config", "--cflags", "--libs", *static, "talc"], env=environment, capture_output=True, text=True, check=True)
    sanitize = [] if sanitizers == "none" else [f"-fsanitize={sanitizers}"]
    return [f"-I{build}/include", f"-Wl,-rpath,{build}", *found.stdout.split(), *sanitize]


def wrong_programs(page, text, run, compiler, arguments):
    problems = []
    for code, quoted, number in programs(text):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.c").write_text(code)
            built = subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "a.c", "-o", "a", *arguments], cwd=folder,
                                   capture_output=True, text=True)
            if built.returncode != 0:
                problems.append(f"{page}:{number}: does not compile: {built.stderr}")
            elif run:
                done = subprocess.run(["./a"], cwd=folder, capture_output=True, text=True, timeout=300)
                line = missing(quoted, done.stdout.split("\n"))
                if done.returncode != 0 or line is not None:
                    problems.append(f"{page}:{number}: exit code {done.returncode}, does not print: {line}: {done.stdout}{done.stderr}")
    return problems


def check(root, build, compiler, sanitizers):
    text = (root / PAGE).read_text()
    problems = []
    for page in [PAGE, PROGRAMS]:
        problems += [f"{page}: `{name}` is not in the sources" for name in unknown_names((root / page).read_text(), root)]
    for page in ["README.md", PROGRAMS]:
        problems += wrong_programs(page, (root / page).read_text(), page == PROGRAMS, compiler, flags(build, sanitizers))
    problems += stale_copies(root)
    problems += [f"docs/{name}: not what convolution_drawings.py draws" for name in stale_drawings(root)]
    problems += [f"{PAGE}: ({name}) is not in docs" for name in re.findall(r"\]\((\w+\.svg)\)", text) if not (root / "docs" / name).exists()]
    printed = {}
    for command, quoted, number in blocks(text):
        if command not in printed:
            printed[command] = output(command, root, build)
        line = missing(quoted, printed[command])
        if line is not None:
            problems.append(f"{PAGE}:{number}: {command} does not print: {line}")
    return problems if printed else [f"{PAGE}: quotes nothing"]


def self_test():
    text = "text\n\n    $ a b\n      one 1\n    ...\n    three\n\n    $ c\n    four\n"
    failures = []
    if blocks(text) != [("a b", ["  one 1", "...", "three"], 3), ("c", ["four"], 8)]:
        failures.append(f"blocks: {blocks(text)}")
    printed = ["one   1", "two", "three"]
    for quoted, due in [(["one 1", "three"], None), (["..."], None), (["one 2"], "one 2"), (["three", "two"], "two"), (["two", "two"], "two")]:
        if missing(quoted, printed) != due:
            failures.append(f"{quoted}: {missing(quoted, printed)}")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "ops").mkdir()
        (root / "ops/a.c").write_text("int a_name;")
        unknown = unknown_names("`a_name` `a.c` `ops/a.c` `pool/a.c` `direct` `like_this` `no_name` `b.cu`", root)
        if unknown != ["pool/a.c", "no_name", "b.cu"]:
            failures.append(f"names: {unknown}")
        (root / "docs").mkdir()
        (root / "docs/a.md").write_text("This is `ops/a.c`:\n\n```c\nint a_name;```\n")
        (root / "docs/b.md").write_text("This is `ops/a.c`:\n\n```c\nint b_name;```\n")
        if stale_copies(root) != ["docs/b.md: not what ops/a.c is"]:
            failures.append(f"copies: {stale_copies(root)}")
    code = '#include <stdio.h>\nint main(void)\n{\n    puts("one");\n}\n'
    page = f"text\n\n```c\n{code}```\n\n    ONE\n\n```c\nint f(void);\n```\n"
    if programs(page) != [(code, ["ONE", ""], 4)]:
        failures.append(f"programs: {programs(page)}")
    for planted, due in [(page, 1), (page.replace("ONE", "one"), 0), (page.replace("ONE", "one").replace(";", ""), 1)]:
        wrong = wrong_programs("a.md", planted, True, "cc", [])
        if len(wrong) != due:
            failures.append(f"programs: {wrong}")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems = self_test()
    elif len(sys.argv) == 5:
        problems = check(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), *sys.argv[3:])
    else:
        sys.exit(__doc__)
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


main()

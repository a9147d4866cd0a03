#!/usr/bin/env python3
"""Fails where README.md and the pages of docs say what programs and sources do not: where a program does not compile, or does not
print what stands behind it; where a command does not print what is quoted of it; where docs/convolution.md and docs/training.md name
what the sources have not; where a page has a copy of a source, or a drawing, that is another.

usage: check_pages.py ROOT BUILD COMPILER SANITIZERS | check_pages.py --torch ROOT BUILD | check_pages.py --self-test

A block in ```c is a program; the lines of an indented block right behind it are what it prints. An indented block whose first line is
`$ command` has lines that the command prints, in their order, on stdout or, where it fails, on stderr. A line of ... leaves lines out,
... in a line leaves out what differs between machines. Commands and programs run in an empty folder, with a folder `photos` of
images by class, a folder `cells` of images with their masks, and the photograph `photo.jpg`, where they name them. What loads shared
objects is left out where talc is none. What compare_torch.py prints is held, but for its numbers, by --torch alone, which needs
PyTorch and torchvision.
Where the block behind a program begins with `$ ./NAME ARGUMENTS`, the program is called so, in a folder that those of the page share: a
later one reads what an earlier one wrote. docs/programs.md has programs of at most 80 lines.
Names of C in backticks are names in the sources. SANITIZERS is meson's b_sanitize.
"""

import base64
import importlib.util
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import zlib

PAGE = "docs/convolution.md"
PROGRAMS = "docs/programs.md"
NAMING = [PAGE, PROGRAMS, "docs/training.md"]  # whose names in backticks are those of the sources
LINES = 80  # of a program of PROGRAMS
MEASURED = "compare_torch.py"
SECONDS = 550
# A circle on a grey image of 56 x 44 pixels, a JPEG file.
PHOTO = (
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6"
    "T/wAALCAAsADgBAREA/8QAGAABAAMBAAAAAAAAAAAAAAAAAAQFBgL/xAApEAACAQMCBAUFAAAAAAAAAAABAgADBREhMQQSE9EVIlGB4RQjU3Gi/9oACAEB"
    "AAA/AKKIiIiIlnbbSeLpitVcpTJ0C7ntrLD6G08/T+1z5xy9U5z6YzK+5Wk8JTNak5emDqG3HfWVkRE0d6Y8NbFp0vKpIp7nRcfEzk0dlY8TbGp1fMoJp7"
    "nVcfMzkRE0lFqd3tvTdgKgADHcq3r79xIPgHEc+OrS5M765x+vmTqzU7RbemjA1CCFOxZvX27CZuIidI702DozKw2KnBkvxfjvz/wvaRHd6jF3ZmY7ljkz"
    "mIiIiIn/2Q==")
CODE = (".c", ".h", ".cu", ".cuh")
FOLDERS = ("tensor", "ops", "backends", "nn", "onnx", "check", "tools", "examples", "tests")


def blocks(text):
    """Commands, the lines quoted from each, and the number of the line of the command."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("    $ ") and not line.startswith("    $ ./"):  # those are of programs
            found.append((line[6:].strip(), [], number))
        elif line.startswith("    ") and found and found[-1][2] + len(found[-1][1]) + 1 == number:
            found[-1][1].append(line[4:].rstrip())
    return found


def words_of(line):
    return " ".join(line.split())


def missing(quoted, printed, numbers=True):
    """The first quoted line that is not printed after those before it, else None. Blanks between words do not count, nor numbers
    unless they are to."""
    def shown(line):
        return words_of(line if numbers else re.sub(r"\d[\w.+-]*", "0", line))
    printed = [shown(line) for line in printed]
    for line in quoted:
        words = shown(line)
        if words in ("...", ""):
            continue
        pattern = re.compile(".*".join(map(re.escape, words.split("..."))))
        found = next((i for i, other in enumerate(printed) if pattern.fullmatch(other)), None)
        if found is None:
            return line
        printed = printed[found + 1:]
    return None


def write_png(path, side, pixels):
    """A grey image of one byte a pixel."""
    rows = b"".join(b"\0" + bytes(pixels[i * side:(i + 1) * side]) for i in range(side))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_photos(folder):
    """photos/CLASS/*.png, 30 of each class: a noisy figure somewhere in the image."""
    draw, side = random.Random(1), 20
    figures = {"circle": lambda y, x: abs(y * y + x * x - 25) < 12, "cross": lambda y, x: abs(abs(y) - abs(x)) < 1 and abs(y) < 6,
               "stripes": lambda y, x: y % 3 == 0 and max(abs(y), abs(x)) < 6}
    for name, inside in figures.items():
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(30):
            top, left = draw.randint(7, 12), draw.randint(7, 12)
            pixels = [draw.randint(0, 60) + 180 * bool(inside(k // side - top, k % side - left)) for k in range(side * side)]
            write_png(folder / "photos" / name / f"{i:02}.png", side, pixels)


def make_cells(folder):
    """cells/images/*.png and cells/masks/*.png, 40 of each: three noisy discs somewhere in the image, and where they are."""
    draw, side = random.Random(1), 32
    for kind in "images", "masks":
        (folder / "cells" / kind).mkdir(parents=True)
    for i in range(40):
        discs = [(draw.randrange(side), draw.randrange(side), draw.randint(4, 7)) for _ in range(3)]
        inside = [any((k // side - y) ** 2 + (k % side - x) ** 2 <= r * r for y, x, r in discs) for k in range(side * side)]
        write_png(folder / "cells/images" / f"{i:03}.png", side, [draw.randint(0, 90) + 100 * marked for marked in inside])
        write_png(folder / "cells/masks" / f"{i:03}.png", side, [255 * marked for marked in inside])


def run(words, folder, about, **environment):
    """stdout, and where it failed stderr and the exit code, of a program that may want `photos`, `cells` and `photo.jpg`."""
    folder = pathlib.Path(folder)
    if "photos" in about and not (folder / "photos").exists():
        make_photos(folder)
    if "cells" in about and not (folder / "cells").exists():
        make_cells(folder)
    if "photo.jpg" in about:
        (folder / "photo.jpg").write_bytes(base64.b64decode(PHOTO))
    try:
        done = subprocess.run(words, cwd=folder, env=dict(os.environ, **environment), capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"\nnot done after {SECONDS} s"
    return done.stdout if done.returncode == 0 else f"{done.stdout}{done.stderr}\nexit code {done.returncode}"


def output(command, root, build):
    def word(text):
        if text == "python3":
            return sys.executable
        return str(build / text[6:]) if text.startswith("build/") else str(root / text) if text.endswith(".py") else text
    with tempfile.TemporaryDirectory() as folder:  # on the environment workspaces depend
        if MEASURED in command:
            return run([*map(word, command.split()), "--library", str(build / "libtalc.so")], folder, command).split("\n")
        return run([*map(word, command.split())], folder, command, TALC_THREADS="2", TALC_CPU="portable").split("\n")


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


def stale_drawings(root, build):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, root / "docs/convolution_drawings.py", build / "tools/talc", folder], check=True)
        return [drawn.name for drawn in sorted(pathlib.Path(folder).iterdir())
                if not (root / "docs" / drawn.name).exists() or drawn.read_bytes() != (root / "docs" / drawn.name).read_bytes()]


def stale_shown(root, build):
    """docs/convolution.html where it is not what the command writes that docs/convolution.md names for it."""
    command = re.search(r"`(talc show .* -o docs/convolution\.html)`", (root / PAGE).read_text())[1].split()
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder) / "page.html"
        subprocess.run([build / "tools/talc", *command[1:-1], written], check=True)
        return [] if written.read_bytes() == (root / command[-1]).read_bytes() else [f"{command[-1]}: not what `{' '.join(command)}` writes"]


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


def flags(build, sanitizers, package="talc"):
    """What a program needs that uses a library of the build's folder."""
    static = [] if (build / "libtalc.so").exists() else ["--static"]
    environment = dict(os.environ, PKG_CONFIG_PATH=f"{build}/meson-uninstalled")
    found = subprocess.run(["pkg-config", "--cflags", "--libs", *static, package], env=environment, capture_output=True, text=True, check=True)
    sanitize = [] if sanitizers == "none" else [f"-fsanitize={sanitizers}"]
    return [f"-I{build}/include", f"-Wl,-rpath,{build}", f"-Wl,-rpath,{build}/examples/networks", *found.stdout.split(), *sanitize]


def wrong_program(folder, code, quoted, compiler, arguments):
    """What is wrong with a program, which is compiled and called in the folder; None where it is right."""
    words = quoted[0][2:].split() if quoted[0].startswith("$ ./") else ["./a"]
    source = f"{words[0]}.c"
    pathlib.Path(folder, source).write_text(code)
    built = subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", source, "-o", words[0], *arguments], cwd=folder,
                           capture_output=True, text=True)
    if built.returncode != 0:
        return f"does not compile: {built.stderr}"
    if not "".join(quoted):
        return None
    printed = run(words, folder, code + " ".join(words))
    line = missing(quoted[1:] if words != ["./a"] else quoted, printed.split("\n"))
    wrong = line is not None or "\nexit code " in printed or "\nnot done after " in printed
    return f"does not print: {line}: {printed}" if wrong else None


def wrong_programs(page, text, compiler, arguments):
    """`arguments` gives a compiler what a program needs that includes networks.h, or does not."""
    problems = [f"{page}: {text.count('```c')} blocks in ```c, {len(programs(text))} programs"] * (text.count("```c\n") != len(programs(text)))
    with tempfile.TemporaryDirectory() as shared:
        for code, quoted, number in programs(text):
            if page == PROGRAMS and code.count("\n") > LINES:
                problems.append(f"{page}:{number}: {code.count(chr(10))} lines, at most {LINES} are wanted")
            with tempfile.TemporaryDirectory() as own:
                folder = shared if quoted[0].startswith("$ ./") else own
                wrong = wrong_program(folder, code, quoted, compiler, arguments("<talc/networks.h>" in code))
            if wrong is not None:
                problems.append(f"{page}:{number}: {wrong}")
    return problems


def wrong_output(page, text, root, build, printed, measured=False):
    """`printed` keeps what commands printed."""
    problems = []
    for command, quoted, number in blocks(text):
        if (MEASURED in command) != measured or (" --load " in command and not (build / "libtalc.so").exists()):
            continue
        if command not in printed:
            printed[command] = output(command, root, build)
        line = missing(quoted, printed[command], not measured)
        if line is not None:
            problems.append(f"{page}:{number}: {command} does not print: {line}\n" + "\n".join(printed[command]))
    return problems


def pages(root):
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        yield str(path.relative_to(root)), path.read_text()


def check_measured(root, build):
    printed = {}
    problems = [problem for page, text in pages(root) for problem in wrong_output(page, text, root, build, printed, True)]
    return problems if printed else ["the pages quote nothing"]


def stale_operators(root):
    """What docs/models.md does not say of the operators that onnx/ has, or says too much."""
    if not (root / "docs/models.md").exists():
        return []
    has = set()
    for source in (root / "onnx").glob("*.[ch]"):
        has |= set(re.findall(r'(?:^    \{ |\bX\()"(\w+)", \w', source.read_text(), re.MULTILINE))
    listed = re.search(r"^Run are (.*?)\.", (root / "docs/models.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    says = set(re.split(r",\s+|\s+and\s+", listed))
    return [f"docs/models.md: {name}: {'not listed' if name in has else 'no operator of onnx/'}" for name in sorted((has - {"SiLU"}) ^ says)]


def check(root, build, compiler, sanitizers):
    problems = []
    for page in NAMING:
        problems += [f"{page}: `{name}` is not in the sources" for name in unknown_names((root / page).read_text(), root)]
    printed, by_package = {}, [flags(build, sanitizers, package) for package in ("talc", "talc_networks")]
    for page, text in pages(root):
        problems += wrong_programs(page, text, compiler, by_package.__getitem__)
        problems += wrong_output(page, text, root, build, printed)
    problems += stale_copies(root)
    problems += stale_operators(root)
    problems += stale_shown(root, build)
    problems += [f"docs/{name}: not what convolution_drawings.py draws" for name in stale_drawings(root, build)]
    text = (root / PAGE).read_text()
    problems += [f"{PAGE}: ({name}) is not in docs" for name in re.findall(r"\]\((\w+\.svg)\)", text) if not (root / "docs" / name).exists()]
    return problems if printed else ["the pages quote nothing"]


def self_test():
    text = "text\n\n    $ a b\n      one 1\n    ...\n    three\n\n    $ c\n    four\n"
    failures = []
    if blocks(text) != [("a b", ["  one 1", "...", "three"], 3), ("c", ["four"], 8)]:
        failures.append(f"blocks: {blocks(text)}")
    printed = ["one   1", "two", "three"]
    for quoted, expected in [(["one 1", "three"], None), (["..."], None), (["one 2"], "one 2"), (["three", "two"], "two"), (["two", "two"], "two"),
                        (["o...1", "t..."], None), (["one ... 2"], "one ... 2"), (["on"], "on"), (["one.*"], "one.*")]:
        if missing(quoted, printed) != expected:
            failures.append(f"{quoted}: {missing(quoted, printed)}")
    if missing(["one 2.5e-07 s"], ["one 31 s"], False) is not None or missing(["one 2"], ["two 2"], False) != "one 2":
        failures.append("numbers")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.py")
        path.write_text("import os, sys\nprint(len(os.listdir()), *os.listdir())\nsys.exit(sys.argv[1:] == ['fail'])\n")
        for words, expected in [("", "0"), ("photos", "1 photos"), ("fail", "0\n\nexit code 1")]:
            said = output(f"python3 a.py {words}", pathlib.Path(folder), pathlib.Path(folder))
            if "\n".join(said).strip() != expected:
                failures.append(f"{words}: {said}")
        for text, expected in [("    $ python3 a.py\n    0\n", 0), ("    $ python3 a.py\n    1\n", 1), ("    $ python3 a.py fail\n    0\n    exit code 1\n", 0)]:
            if len(wrong_output("a.md", text, pathlib.Path(folder), pathlib.Path(folder), {})) != expected:
                failures.append(f"output: {text}")
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
    page = f"text\n\n```c\n{code}```\n\n    ONE\n\n"
    if len(wrong_programs("a.md", page.replace("ONE", "one") + "```c\nint f(void);\n```\n", "cc", lambda networks: [])) != 1:
        failures.append("a block that is no program")
    if programs(page) != [(code, ["ONE", ""], 4)]:
        failures.append(f"programs: {programs(page)}")
    for planted, expected in [(page, 1), (page.replace("ONE", "one"), 0), (page.replace("ONE", "one").replace(";", ""), 1)]:
        wrong = wrong_programs("a.md", planted, "cc", lambda networks: [])
        if len(wrong) != expected:
            failures.append(f"programs: {wrong}")
    writer = '#include <stdio.h>\nint main(int count, char **arguments)\n{\n    fclose(fopen(arguments[count - 1], "w"));\n    puts("one");\n}\n'
    reader = '#include <stdio.h>\nint main(void)\n{\n    return fopen("a.txt", "r") == NULL;\n}\n'
    page = f"```c\n{writer}```\n\n    $ ./write a.txt\n    one\n\n```c\n{reader}```\n\n    $ ./read\n"
    for planted, expected in [(page, 0), (page.replace("write a", "write b"), 1), (page.replace("    one", "    two"), 1),
                              (page.replace("$ ./read", "..."), 1)]:
        wrong = wrong_programs("a.md", planted, "cc", lambda networks: [])
        if len(wrong) != expected:
            failures.append(f"programs that are called: {wrong}")
    if blocks(page):
        failures.append(f"calls of programs: {blocks(page)}")
    if len(wrong_programs(PROGRAMS, page.replace("{\n", "{\n" + 80 * "\n", 1), "cc", lambda networks: [])) != 1:
        failures.append("a program of more than 80 lines")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems = self_test()
    elif len(sys.argv) == 4 and sys.argv[1] == "--torch":
        if importlib.util.find_spec("torch") is None:
            sys.exit(77)  # which meson calls skipped
        problems = check_measured(*(pathlib.Path(path).resolve() for path in sys.argv[2:]))
    elif len(sys.argv) == 5:
        problems = check(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), *sys.argv[3:])
    else:
        sys.exit(__doc__)
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


main()

#!/usr/bin/env python3
"""Fails on calls that the library never makes: it does not end the process, print on its own, or go around its allocator;
on lines that are too long to read; and on names for which the field has another word.

usage: check_words.py ROOT | check_words.py --self-test
"""

import fnmatch
import pathlib
import re
import sys
import tempfile

LIBRARY = ("tensor", "ops", "backends", "nn", "onnx", "check")
ALL = LIBRARY + ("tools", "examples", "tests", "docs", "talc.h", "networks.h", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")

# What is banned in the library's code, why, and the files that may.
BANNED = [
    (r"\b(abort|_?exit|_Exit|quick_exit|raise)\s*\(", "the library never ends the process", []),
    (r"\blongjmp\s*\(", "a failure comes back by returning; libjpeg's functions know no other way out", ["nn/data/jpeg.c"]),
    (r"\b(assert|static_assert\s*\(\s*0|__builtin_trap|__builtin_unreachable)\s*\(",
     "a mistake of the caller is an error, not an assertion", []),
    (r"\b(printf|puts|putchar|perror|vprintf)\s*\(|\bstdout\b", "the library prints only to a FILE it is given", []),
    (r"\bstderr\b", "only talc_warn's and TALC_VERBOSE's lines go there",
     ["tensor/environment.c", "tensor/error.c", "tensor/run.c", "ops/choice.c"]),
    (r"\b(malloc|calloc|realloc|aligned_alloc|posix_memalign|strdup|strndup|asprintf|getline|alloca)\s*\(",
     "allocations go through talc_memory_new and talc_block_new, so that tests can make them fail",
     ["tensor/memory.c", "tensor/cache.c", "tensor/pieces.c", "backends/*/device.c", "backends/*/memory.c"]),
    (r"\b(sprintf|vsprintf|strcpy|strcat|gets|strtok|atoi|atol|atof|rand|srand|setlocale|tmpnam)\s*\(",
     "there is a bounded or thread-safe function for it", []),
    (r"\b(getenv|setenv|putenv)\s*\(", "the environment is read once, in one place",
     ["tensor/environment.c", "nn/parallel/launcher.c"]),
]

# Parts of identifiers, joined by underscores, and what the field says. CONTRIBUTING.md has the list, meaning by meaning.
WORDS = {
    "due": "expected", "room": "capacity or tolerance", "rooms": "buffers", "posed": "problem", "judge": "verdict",
    "spoilt": "corrupted", "abreast": "concurrent", "hop": "stride", "patch": "halo tile", "patches": "halo tiles",
    "doubt": "recompute", "doubts": "recompute", "doubtful": "recompute",
}

# The longest line of code or comment, but for tables in which clang-format is off; and of a page, but for tables, programs and
# what a program prints.
CODE_COLUMNS, PAGE_COLUMNS = 100, 120

MARKERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def code_only(text):
    """The text with comments and literals blanked, line breaks kept."""
    return COMMENT_OR_TEXT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def long_lines(path, text):
    """The numbers of lines that are too long."""
    page, exempt, fenced = path.endswith(".md"), False, False
    for number, line in enumerate(text.split("\n"), 1):
        if page:
            fenced ^= line.lstrip().startswith("```")
            exempt = fenced or line.startswith(("|", "    ", "["))
        elif "clang-format o" in line:
            exempt = "clang-format off" in line
        if len(line) > (PAGE_COLUMNS if page else CODE_COLUMNS) and not exempt:
            yield number


def wrong_words(code):
    """The identifiers of the code that hold a word of WORDS."""
    for match in re.finditer(r"[A-Za-z_]\w*", code):
        for part in match.group().lower().split("_"):
            if part in WORDS:
                yield match, WORDS[part]


def check(root):
    problems = []
    for source in sorted(root.rglob("*")):
        path = source.relative_to(root).as_posix()
        top = path.split("/")[0]
        if source.suffix not in (".c", ".h", ".cu", ".cuh", ".py", ".sh", ".md") or top not in ALL:
            continue
        text = source.read_text()
        if path != "tests/check_words.py":
            problems += [f"{path}:{line_of(text, m.start())}: {m.group()}: an open end belongs in an issue"
                         for m in MARKERS.finditer(text)]
        if source.suffix in (".c", ".h", ".cu", ".cuh", ".md"):
            problems += [f"{path}:{number}: longer than {PAGE_COLUMNS if source.suffix == '.md' else CODE_COLUMNS} columns"
                         for number in long_lines(path, text)]
        if source.suffix not in (".c", ".h", ".cu", ".cuh"):
            continue
        code = code_only(text)
        problems += [f"{path}:{line_of(code, match.start())}: {match.group()}: the field says {word}"
                     for match, word in wrong_words(code)]
        if top not in LIBRARY:
            continue
        for pattern, why, allowed in BANNED:
            if not any(fnmatch.fnmatchcase(path, place) for place in allowed):
                problems += [f"{path}:{line_of(code, m.start())}: {m.group()}: {why}"
                             for m in re.finditer(pattern, code)]
    return problems


PLANTED = [
    ("tensor/a.c", "void f(void) { abort(); }"), ("ops/a.c", "void f(void) { exit(1); }"),
    ("backends/cpu/a.c", "void f(int x) { assert(x); }"), ("nn/a.c", 'void f(void) { printf("%d", 1); }'),
    ("nn/a.c", "void f(void) { fputs(text, stdout); }"), ("ops/a.c", "void f(void) { fputs(text, stderr); }"),
    ("nn/data/a.c", "void f(void) { longjmp(buffer, 1); }"),
    ("tensor/a.c", "void *f(void) { return malloc(1); }"), ("ops/a.h", "static void *f(void) { return calloc (1, 1); }"),
    ("tensor/a.c", 'char *f(void) { return getenv("A"); }'), ("tests/a.c", "/* TO" "DO later */"),
    ("tests/a.c", "/* " + 100 * "a" + " */"), ("docs/a.md", 121 * "a"), ("ops/a.c", "int due_of(int x);"), ("tests/a.h", "enum { MOST_DUE = 1 };"),
    ("ops/a.c", "int room;"), ("tests/a.c", "enum { LINE_ROOM = 1 };"), ("check/a.h", "int talc_check_judge(int x);"),
    ("backends/cpu/a.c", "void load_patch(void);"), ("backends/cuda/a.cu", "static bool is_doubtful(float sum);"),
    ("backends/cuda/conv2d/gather_gemm.cu", "int patch_doubts;"), ("backends/cuda/matmul/tensor_cores.cu", "// " + 100 * "a"),
]
INNOCENT = [
    ("tensor/a.c", '/* abort() is never called */ void f(void) { snprintf(b, 1, "exit(1)"); fprintf(file, "a"); }'),
    ("tensor/memory.c", "void *f(void) { return calloc(1, 1); }"), ("tools/a.c", 'void f(void) { printf("a"); exit(0); }'),
    ("nn/a.c", "void f(void) { my_exit(1); talc_memory_new(1); }"),
    ("tests/a.c", "// clang-format off\n{ " + 100 * "a" + " },\n// clang-format on\n"), ("docs/a.md", "| " + 121 * "a" + " |"),
    ("docs/a.md", "```\n" + 121 * "a" + "\n```\n"), ("ops/a.c", "/* what is due */ int residue(int x);"),
    ("ops/a.c", "int dispatch(void);"),
]


def self_test():
    failures = []
    for (path, text), expected in [(case, True) for case in PLANTED] + [(case, False) for case in INNOCENT]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / path).parent.mkdir(parents=True)
            (root / path).write_text(text)
            if bool(check(root)) != expected:
                failures.append(f"{path}: {text}: {'passes' if expected else check(root)}")
    return failures


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = self_test() if sys.argv[1] == "--self-test" else check(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


main()

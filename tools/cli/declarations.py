#!/usr/bin/env python3
"""Writes tools/cli/declarations.h's tables from the public headers, as the preprocessor leaves them.

usage: declarations.py OUTPUT.c ROOT COMPILER [ARGUMENT ...]

Sizes and offsets are left to the compiler, so that what `talc ops --json` says of a structure is what C has.
"""
import re
import subprocess
import sys

EXPORTED = "talc_exported"  # stands where TALC_API did


def declarations(root, compiler):
    """The text of talc.h without comments and attributes."""
    headers = "#include \"talc.h\"\n"
    text = subprocess.run([*compiler, "-E", "-P", "-I", root, "-x", "c", "-"], input=headers, check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    text = text.replace('__attribute__((visibility("default")))', EXPORTED)
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", text)
    return re.sub(r"\s+", " ", text).replace("_Bool", "bool")


def blocks(text, kind):
    """[(name, body)] of every `KIND talc_NAME { BODY }`; there is a typedef of each name."""
    for match in re.finditer(rf"\b{kind} (talc_\w+) \{{", text):
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield match[1], text[match.end():end - 1]


def split(text, separator):
    """Parts between separators that stand in no brackets."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(letter, 0)
        if letter == separator and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return [p for p in [*parts, part.strip()] if p]


def declared(text):
    """[(type, name)] of a declaration: `const void *x, *y[2]`. The type of what is no plain one is ""."""
    if "{" in text:
        return [("", name) for name in re.findall(r"(\w+)(?:\[[^]]*\])*$", text[text.rindex("}"):])]
    if "(*" in text:
        return [("", re.search(r"\(\*(?:const )?(\w+)\)", text)[1])]
    first, *rest = split(text, ",")
    match = re.fullmatch(r"(.*?[\w*])\s*(?<=[\s*])(\w+)((?:\s*\[[^]]*\])*)", first)
    base = match[1].rstrip("* ") if rest else match[1]
    found = [(match[1].strip() + match[3].replace(" ", ""), match[2])]
    for part in rest:
        more = re.fullmatch(r"(\**)\s*(\w+)((?:\s*\[[^]]*\])*)", part)
        found.append((f"{base} {more[1]}".strip() + more[3].replace(" ", ""), more[2]))
    return found


def enums(text):
    for name, body in blocks(text, "enum"):
        yield name, [part.split("=")[0].strip() for part in split(body, ",")]


def structs(text):
    for name, body in blocks(text, "struct"):
        yield name, [field for part in split(body, ";") for field in declared(part)]


def functions(text):
    for result, name, parameters in re.findall(EXPORTED + r" ((?:const )?\w+ \**)(talc_\w+)\(([^;{]*)\) ?;", text):
        found = [] if parameters.strip() == "void" else split(parameters, ",")
        yield name, result.strip(), [declared(p)[0] if p != "..." else ("...", "") for p in found]


def write(text, file):
    file.write('#include "tools/cli/declarations.h"\n\n#include <talc/talc.h>\n\n')
    names = {"enum": [], "struct": [], "function": []}
    for name, members in enums(text):
        names["enum"].append(f'{{ "{name}", sizeof({name}), enum_{name} }},')
        rows = "".join(f'    {{ .name = "{m}", .value = {m} }},\n' for m in members)
        file.write(f"static const declared enum_{name}[] = {{\n{rows}    {{ .name = NULL }},\n}};\n")
    for name, fields in structs(text):
        names["struct"].append(f'{{ "{name}", sizeof({name}), struct_{name} }},')
        rows = "".join(f'    {{ "{field}", "{kind}", offsetof({name}, {field}), sizeof((({name} *)NULL)->{field}), 0 }},\n'
                       for kind, field in fields)
        file.write(f"static const declared struct_{name}[] = {{\n{rows}    {{ .name = NULL }},\n}};\n")
    for name, result, parameters in functions(text):
        names["function"].append(f'{{ .name = "{name}", .members = function_{name} }},')
        rows = "".join(f'    {{ .name = "{n}", .type = "{k}" }},\n' for k, n in [(result, "result"), *parameters])
        file.write(f"static const declared function_{name}[] = {{\n{rows}    {{ .name = NULL }},\n}};\n")
    for kind, rows in names.items():
        file.write(f"const declaration declared_{kind}s[] = {{\n    " + "\n    ".join(rows) + "\n    { .name = NULL },\n};\n")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    with open(sys.argv[1], "w") as file:
        write(declarations(sys.argv[2], sys.argv[3:]), file)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Joins page.html, page.css and page.js and writes them as C: an array of the texts around @FIRST@ and @DATA@.

usage: embed.py OUTPUT.c
"""
import pathlib
import re
import sys


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(__file__).parent
    html, css, js = ((folder / name).read_text() for name in ("page.html", "page.css", "page.js"))
    # Arrays of numbers: C promises no string literals of more than 4,095 characters.
    parts = re.split("@FIRST@|@DATA@", html.replace("@CSS@\n", css).replace("@JS@\n", js))
    with open(sys.argv[1], "w") as file:
        file.write('#include "tools/show/show.h"\n\n')
        for i, part in enumerate(parts):
            numbers = "".join(f"{byte},{'' if (at + 1) % 24 else chr(10)}" for at, byte in enumerate(part.encode() + b"\0"))
            file.write(f"static const unsigned char part_{i}[] = {{\n{numbers}\n}};\n")
        file.write("const unsigned char *const show_page[] = { " + ", ".join(f"part_{i}" for i in range(len(parts))) + " };\n")


if __name__ == "__main__":
    main()

"""Writes tests/support/operand_calls.h's table: a call of every public function that makes a tensor of tensors.

usage: operand_calls.py OUTPUT.c ROOT COMPILER [ARGUMENT ...]
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[2]) / "tools" / "cli"))
import declarations

TENSORS = ("const talc_tensor *", "talc_tensor *")
VALUES = {"int": "1", "int64_t": "1", "double": "0.5", "bool": "false", "talc_dims": "TALC_DIMS(1)", "uint64_t": "1",
          "talc_tensor **": "&(talc_tensor *){ NULL }"}
NO_OPS = {"talc_retain", "talc_grad"}  # of which NULL asks nothing


def calls(text):
    """(name, operands, arguments) of each; options are left out, and what takes other pointers is no op."""
    enums = {name for name, _ in declarations.enums(text)}
    for name, result, parameters in declarations.functions(text):
        operands, arguments = [], []
        for kind, parameter in parameters:
            if kind in TENSORS:
                arguments.append(f"t[{len(operands)}]")
                operands.append(parameter)
            elif kind.endswith("_options *"):
                arguments.append("NULL")
            else:
                arguments.append("0" if kind in enums else VALUES.get(kind))
        if result == "talc_tensor *" and operands and None not in arguments and name not in NO_OPS:
            yield name, operands, arguments


def main():
    text = declarations.declarations(sys.argv[2], sys.argv[3:])
    functions, rows = "", ""
    for name, operands, arguments in calls(text):
        functions += f"static talc_tensor *call_{name}(talc_tensor *const t[])\n{{\n    return {name}({', '.join(arguments)});\n}}\n"
        names = ", ".join(f'"{operand}"' for operand in operands)
        rows += f'    {{ "{name.removeprefix("talc_")}", {{ {names} }}, {len(operands)}, call_{name} }},\n'
    with open(sys.argv[1], "w") as file:
        file.write(f'#include "tests/support/operand_calls.h"\n\n{functions}\nconst operand_call operand_calls[] = {{\n{rows}'
                   "    { .name = NULL },\n};\n")


main()

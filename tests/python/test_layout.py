"""The package's structs, constants and functions are those of the headers: sizes and offsets by the C compiler, names
and numbers of arguments by the text."""

import ctypes
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from wvgd import _layout

INCLUDE = Path(__file__).resolve().parents[2] / "include"
HEADERS = {"core": ["wvgd_model.h", "wvgd.h"], "tools": ["wvgd_tools.h"]}


def text_of(*headers):
    text = "\n".join((INCLUDE / header).read_text() for header in headers)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"^#.*$", "", text, flags=re.M))


def names_of_fields(body):
    for declaration in filter(str.strip, body.split(";")):
        pointer = re.search(r"\(\*(\w+)\)", declaration)
        if pointer:
            yield pointer.group(1)
        else:
            for part in declaration.split(","):
                yield re.search(r"(\w+)\s*(\[\w+\])?\s*$", part).group(1)


NUMBERS = {"size_t": ctypes.c_size_t, "uint64_t": ctypes.c_uint64, "bool": ctypes.c_bool, "double": ctypes.c_double, "void": None}


def kind_of_c(declaration):
    """The type of an argument or a result: a number, "pointer", or an enum, which is an int."""
    if "*" in declaration or "[" in declaration:
        return "pointer"
    return NUMBERS.get(re.sub(r"\bconst\b", "", declaration).split()[0], ctypes.c_int)


def kind_of(kind):
    """The same of a type of ctypes."""
    pointers = (ctypes.c_void_p, ctypes.c_char_p)
    callbacks = (_layout.LOG_DENSITY, _layout.PROGRESS, _layout.NOTE)
    return "pointer" if kind in (*pointers, *callbacks) or hasattr(kind, "contents") else kind


class Layout(unittest.TestCase):
    def test_structs_have_the_fields_of_the_headers(self):
        text = text_of("wvgd_model.h", "wvgd.h", "wvgd_tools.h")
        for struct in _layout.STRUCTS:
            name = struct.__name__
            body = re.search(r"typedef struct (?:\w+ )?\{([^{}]*)\} " + name + ";", text)
            self.assertIsNotNone(body, name)
            self.assertEqual(list(names_of_fields(body.group(1))), [field for field, _ in struct._fields_], name)

    def test_sizes_offsets_and_constants_are_those_of_the_compiler(self):
        expected, lines = [], []
        for struct in _layout.STRUCTS:
            name = struct.__name__
            expected.append((name, ctypes.sizeof(struct), 0))
            lines.append(f'printf("{name} %zu 0\\n", sizeof({name}));')
            for field, kind in struct._fields_:
                expected.append((f"{name}.{field}", ctypes.sizeof(kind), getattr(struct, field).offset))
                lines.append(
                    f'printf("{name}.{field} %zu %zu\\n", sizeof((({name} *)0)->{field}), offsetof({name}, {field}));'
                )
        for name, value in _layout.CONSTANTS.items():
            expected.append((name, value, 0))
            lines.append(f'printf("{name} %d 0\\n", (int){name});')
        program = "#include <stdio.h>\n#include <stddef.h>\n#include <wvgd_tools.h>\nint main(void)\n{\n"
        program += "\n".join(lines) + "\nreturn 0;\n}\n"
        with tempfile.TemporaryDirectory() as place:
            Path(place, "layout.c").write_text(program)
            compiler = os.environ.get("CC", "cc")
            subprocess.run([compiler, f"-I{INCLUDE}", "-o", f"{place}/layout", f"{place}/layout.c"], check=True)
            said = subprocess.run([f"{place}/layout"], check=True, capture_output=True, text=True).stdout
        found = [(name, int(size), int(offset)) for name, size, offset in map(str.split, said.splitlines())]
        self.assertEqual(found, expected)

    def test_functions_have_the_arguments_of_the_headers(self):
        for part, functions in (("core", _layout.CORE), ("tools", _layout.TOOLS)):
            text = re.sub(r"typedef [^;{]*\([^;]*;", "", text_of(*HEADERS[part]))
            for name, (wanted, arguments) in functions.items():
                declared = re.search(r"([^;{}]*?)\b" + name + r"\(([^()]*)\);", text)
                self.assertIsNotNone(declared, f"{name} is not in {HEADERS[part]}")
                result, inside = declared.group(1).strip(), declared.group(2).strip()
                kinds = [kind_of_c(argument) for argument in inside.split(",")] if inside != "void" else []
                self.assertEqual(kinds, [kind_of(argument) for argument in arguments], name)
                self.assertEqual(kind_of_c(result), kind_of(wanted), name)

    def test_version_is_that_of_the_header(self):
        version = re.search(r'#define WVGD_VERSION "([^"]+)"', (INCLUDE / "wvgd.h").read_text()).group(1)
        project = (INCLUDE.parent / "python" / "pyproject.toml").read_text()
        self.assertIn(f'\nversion = "{version}"\n', project)


if __name__ == "__main__":
    unittest.main()

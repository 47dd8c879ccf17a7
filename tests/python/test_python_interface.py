"""The Python package says what the headers of libpaceline say, and finds its library."""

import ctypes
import re
import subprocess

from binding import ROOT, python

from paceline import _interface, _library

HEADERS = "\n".join(re.sub(r"/\*.*?\*/", "", (ROOT / "include/paceline" / name).read_text(), flags=re.S) for name in ("error.h", "paceline.h", "alike.h", "communicator.h", "optimizer_state.h"))
SIMPLE = {"size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "uint8_t": ctypes.c_uint8, "int64_t": ctypes.c_int64, "double": ctypes.c_double, "float": ctypes.c_float}
OPAQUE = {"paceline_job", "paceline_node", "paceline_communicator", "paceline_request", "paceline_text", "void"}


def ctype(declared, stars):
    """What ctypes calls a type of the headers: `const char*` is a text, a pointer to an opaque struct a handle."""
    if stars == 0:
        return SIMPLE[declared]
    if declared == "char":
        text = ctypes.c_char_p
        return text if stars == 1 else ctypes.POINTER(text)
    if declared in OPAQUE:
        return ctypes.c_void_p if stars == 1 else ctypes.POINTER(ctypes.c_void_p)
    inner = _interface.STRUCTS.get(declared) or SIMPLE[declared]
    for _ in range(stars):
        inner = ctypes.POINTER(inner)
    return inner


def declaration(text):
    """(type, stars, names with array lengths) of `const int64_t* shape` or `double alpha, beta`."""
    words = re.sub(r"\b(const|struct)\b", " ", text)
    kind, rest = re.match(r"\s*(\w+)(.*)", words, flags=re.S).groups()
    stars = rest.count("*")
    return kind, stars, [name.strip() for name in rest.replace("*", " ").split(",")]


def test_every_struct_has_the_fields_of_the_header():
    structs = dict(re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", HEADERS, flags=re.S))
    assert set(structs) == set(_interface.STRUCTS)
    for name, body in structs.items():
        fields = []
        for line in filter(str.strip, body.split(";")):
            kind, stars, names = declaration(line)
            for field in names:
                length = re.fullmatch(r"(\w+)\[(\d+)\]", field)
                fields.append((length[1], ctypes.c_char * int(length[2])) if length else (field, ctype(kind, stars)))
        assert [(field[0], field[1]) for field in _interface.STRUCTS[name]._fields_] == fields, name
        assert _library.load().paceline_struct_size(name.encode()) == ctypes.sizeof(_interface.STRUCTS[name])


def test_every_function_has_the_arguments_of_the_header():
    found = dict(re.findall(r"int32_t (paceline_\w+)\(([^)]*)\);", HEADERS, flags=re.S))
    assert set(found) == set(_interface.CALLS)
    for name, text in found.items():
        arguments = []
        for argument in text.split(","):
            kind, stars, names = declaration(argument)
            assert len(names) == 1
            arguments.append(ctype(kind, stars))
        assert arguments[-1] == ctypes.POINTER(_interface.Error), name
        assert list(_interface.CALLS[name]) == arguments[:-1], name
    others = set(re.findall(r"\b(paceline_\w+)\(", HEADERS)) - set(found)
    assert others == {"paceline_version", "paceline_struct_size", "paceline_after_fork"}


def test_every_constant_is_that_of_the_header():
    constants = {name: int(value) for name, value in re.findall(r"\bPACELINE_(\w+) = (\d+)", HEADERS)}
    assert len(constants) > 35
    for name, value in constants.items():
        assert getattr(_interface, name) == value, name


def test_the_binding_is_of_the_library_s_release_and_knows_the_others(tmp_path):
    assert _library.version() == _interface.RELEASE == _library.load().paceline_version().decode()
    other = tmp_path / "other.c"
    other.write_text('const char* paceline_version(void) { return "0.0.9"; }\n')
    subprocess.run(["gcc", "-shared", "-fPIC", other, "-o", tmp_path / "other.so"], check=True)
    for path, words in ((tmp_path / "other.so", "is of release 0.0.9, this package of"), (tmp_path / "none.so", "set PACELINE_LIBRARY to its path, e.g. build/release/src/library/libpaceline.so.0")):
        done = python("from paceline import _library, PacelineError\ntry: _library.load()\nexcept PacelineError as error: print(error)", PACELINE_LIBRARY=str(path))
        assert words in done.stdout, done


def test_the_package_imports_no_framework_and_not_the_library():
    done = python("import sys, paceline; print([name for name in ('torch', 'numpy', 'ctypes', 'json', 'socket', 'asyncio') if name in sys.modules])")
    assert done.stdout == "[]\n", done
    done = python("import paceline; print(paceline.Communicator.__name__); paceline.Nobody")
    assert done.stdout == "Communicator\n" and "has no attribute 'Nobody'" in done.stderr

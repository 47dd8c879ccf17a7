#!/usr/bin/env python3
"""Writes the pages of docs/reference from what they describe: the programs' help and option table, the C headers, the Python package.

    scripts/make_reference.py            writes them; the programs are those of PACELINE, else of build/release
    scripts/make_reference.py --check    writes nothing; exit code 1, with the command that mends it, where a page is not what it would be
"""

import argparse
import ast
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))
MADE = "<!-- made by scripts/make_reference.py; change what it is made from -->\n\n"
SECTIONS = {
    "what": "What to train", "how": "How to synchronise", "files": "Files", "limits": "Limits", "processes": "Of processes and of programs",
}  # fmt: skip
NOTES = {"processes": "Programs give these, and processes tell each other. On the command line `--convolutions`, `--metrics`, `--pace` and `--trace` name files; the other three are not there."}
HEADERS = ("error.h", "paceline.h", "alike.h", "communicator.h", "optimizer_state.h")
MODULES = {f"paceline{name}": f"python/paceline/{file}.py" for name, file in (("", "__init__"), (".report", "report"), (".plan", "plan"), (".profile", "profile"), (".torch", "torch/__init__"))}


def output(*words):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}  # whose values would be defaults
    said = subprocess.run([PROGRAM, *words], check=True, capture_output=True, text=True, timeout=60, env=clean).stdout
    return re.sub(r"=/\S+?/(bench|\.venv)/", r"=\1/", said)  # a default in the tree, wherever that is


def plain(text):
    """Text for a cell or a paragraph, in which nothing is markup but `code`."""
    pieces = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(one.replace("|", "\\|") if i % 2 else re.sub(r"([|*_<>\[\]`])", r"\\\1", one) for i, one in enumerate(pieces))


def code(text):
    return f"`{' '.join(text.split())}`".replace("|", "\\|") if text else ""


def table(head, rows):
    lines = ["| " + " | ".join(line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def usual(row):
    """The default of an option's row as a person types it; "" where there is none, or where the meaning says it."""
    value, kind = row["default"], row["type"]
    return value or "" if value is None or isinstance(value, str) else ("off", "on")[value] if kind == "flag" else f"{value:g}{'s' if kind == 'time' else ''}"


def options_page():
    rows = json.loads(output("options", "--json"))
    page = f"""# Options of a job

{len(rows)} options make a job. They are the same on the command line, in a `--config` file, in `attach(settings=...)` and in
`paceline_job_set`. With `attach` the script's optimizer makes the steps, so its options (`learning-rate`, `momentum` …) are refused there.
What needs more than a row stands in [the command line](../cli.md#paceline-train). How a job is started, such as `--workers` and `--hosts`, stands with [the commands](commands.md#paceline-train).

Workers whose options differ are refused; the first difference is named. Where the last column says yes, the option must agree with a checkpoint that the job goes on from, too.
An option that would do nothing in a job, such as `momentum` with `sgd`, is refused unless its value is the default.
`paceline options --json` prints these tables, `--schema` a JSON schema for `--config` files.
"""
    for section, title in SECTIONS.items():
        chosen = [row for row in rows if row["section"] == section]
        cells = [
            [code(row["name"]), code(usual(row)), plain(row["legal"]) if row["type"] != "flag" else "", plain(row["help"]), "yes" if row["agree"] == "resume" else ""]
            for row in chosen
        ]
        page += f"\n## {title}\n\n" + (NOTES[section] + "\n\n" if section in NOTES else "")
        page += table(["option", "default", "legal", "meaning", "with a checkpoint"], cells)
    unknown = {row["section"] for row in rows} - set(SECTIONS)
    assert not unknown, f"sections that SECTIONS does not name: {unknown}"
    return page


def entries(text):
    """(spec, meaning) of each entry of an indented list of a program's help, whose meaning may stand in the next line."""
    found = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent <= 4:
            spec, _, meaning = line.strip().partition("  ")
            found.append([spec, meaning.strip()])
        elif line.strip() and found:
            found[-1][1] += " " + line.strip()
    return found


def parts(text):
    """Heading -> lines, of a program's help."""
    found, name = {"": ""}, ""
    for line in text.splitlines():
        heading = re.fullmatch(r"(\S.*):", line)
        if heading and ("Usage: " in found[""] or heading[1] == "Subcommands"):
            name = heading[1]
            found[name] = ""
        elif line.strip() != "Options:":
            found[name] += line + "\n"
    return found


def commands_below(*words):
    """(words, help's parts) of a command and of all below it."""
    found = parts(output(*words, "--help", "all"))
    return [(words, found), *(below for one, _ in entries(found.pop("Subcommands", "")) for below in commands_below(*words, one))]


def rows_of(words, text):
    """(option, meaning) of what a command's own help is read for: no --help, and of train nothing that options.md has."""
    elsewhere = {f"--{row['name']}" for row in json.loads(output("options", "--json")) if row["section"] != "processes"} if words == ("train",) else set()
    kept = [entry for entry in entries(text) if not entry[0].startswith(("-h,", "--config FILE"))]
    return [(code(spec), plain(meaning)) for spec, meaning in kept if spec.split()[0] not in elsewhere]


def command_page(words, found, shared):
    about = found.pop("").split("Usage: ")
    page = f"\n## `{' '.join(['paceline', *words])}`\n\n{plain(about[0])}\n"
    examples = found.pop("Examples", "")
    said = [shared[row] for text in found.values() for row in rows_of(words, text) if row in shared]
    for name, text in found.items():
        if own := [row for row in rows_of(words, text) if row not in shared]:
            head = {"Positionals": "argument", "Options": "option"}.get(name, plain(f"{name[0].lower()}{name[1:]}: option"))
            page += "\n" + table([head, "meaning"], own)
    job = "All [options of a job](options.md). " if words == ("train",) else ""
    page += f"\n{job}Of [several commands](#options-of-several-commands): {', '.join(said)}.\n" if said else ""
    if examples.strip():
        page += f"\n```text\n{inspect.cleandoc(examples)}\n```\n"
    return page


def commands_page():
    top = [spec for name, text in parts(output("--help")).items() if name not in ("", "Options", "Examples") for spec, _ in entries(text)]
    all_commands = [below for one in top for below in commands_below(one)]
    rows = [row for words, found in all_commands for name, text in found.items() if name not in ("", "Examples", "Positionals") and not name.startswith("One case") for row in rows_of(words, text)]
    shared = {row: f"`{row[0].strip('`').split()[0].partition('=')[0]}`" for row in rows if rows.count(row) > 1}
    return f"""# Commands

What each command takes, as its `--help all` says it. [The command line](../cli.md) says what it is for. Every command has `--help`, and
`--config FILE`: options from a TOML file, where the command line wins.

## Options of several commands

{table(["option", "meaning"], [list(row) for row in shared])}{"".join(command_page(words, found, shared) for words, found in all_commands)}"""


def c_comment(text):
    text = re.sub(r"^\s*/\*+\s?|\s*\*/\s*$", "", text.strip())
    return plain(re.sub(r"\n\s*\*?", "\n", text))


def c_page():
    page = f"""# The C interface

{len(HEADERS)} headers of C11, in [include/paceline](../../include/paceline); link `paceline::paceline`.
A program: [examples/linear_model](../../examples/linear_model).
For C++ the headers are the reference: [paceline/collectives.h](../../include/paceline/collectives.h) and, for modules of LibTorch,
[paceline/torch.h](../../trainer/include/paceline/torch.h).
"""
    comment, types = r"(?P<comment>/\*(?:(?!\*/).)*\*/[ \n]*)?", r"typedef struct \w+ \{.*?\} \w+;|enum \{.*?\};"
    entry = re.compile(rf"{comment}(?P<code>(?:{types}|[\w ]+[ *]+(?P<name>paceline_\w+)\([^;]*\);)[^\n]*)", re.DOTALL)
    for header in HEADERS:
        text = (ROOT / "include/paceline" / header).read_text()
        first = c_comment(re.match(r"/\*.*?\*/", text, re.DOTALL)[0]).split(". ")[0]
        page += f"\n## paceline/{header}\n\n{first.rstrip('.')}.\n"
        for found in entry.finditer(text, text.index('extern "C"')):
            said = c_comment(found["comment"] or "")
            if said.startswith("---- "):
                said = ""
            page += (f"\n### {found['name']}\n" if found["name"] else "") + (f"\n{said}\n" if said else "")
            page += f"\n```c\n{inspect.cleandoc(found['code'])}\n```\n"
    return page


def errors_page():
    text = (ROOT / "include/paceline/error.h").read_text()
    kinds = re.findall(r"PACELINE_(\w+) = \d+,?\s*/\* (.*?) \*/", text)[:8]
    exits = {"BAD_REQUEST": "2", "CANCELLED": "130", "AGAIN": "none"}
    rows = [[code(kind.lower().replace("_", "-")), exits.get(kind, "1"), plain(meaning)] for kind, meaning in kinds]
    return """# Exit codes and kinds of errors

| exit code of a program | says |
|---|---|
| 0 | done |
| 1 | it failed while running, or `doctor` did not reach a host |
| 2 | the request was wrong; nothing was begun |
| 130 | interrupted |

`paceline lab` ends with the code of the command that failed first. A program that fails prints one line on standard error.
It begins with `paceline: error:` and ends with where to read on: `[paceline help PL-PORT-IN-USE]`.
[Codes of errors](codes.md) are what has happened, with a page each.

In C, C++ and Python an error has a kind. It says what the caller can do.

""" + table(["kind", "as exit code", "do"], rows)


def codes_page():
    pages = json.loads(output("help", "codes", "--json"))
    assert len({page["shown"] for page in pages}) == len(pages)
    page = f"""# Codes of errors

A failure ends its line with the code of what has happened, `[paceline help PL-PORT-IN-USE]`, and that command prints its page, one of
these {len(pages)}. `paceline help codes` lists them. In Python it is `error.page`, and `error.help()` the text; in C the code of a `paceline_error` is the
same word in small letters, `port-in-use`. Where nothing narrower is known, the code is that of the error's [kind](errors.md).

"""
    page += table(["code", "what has happened"], [[f"[{one['shown']}](#{one['shown'].lower()})", plain(one["title"])] for one in pages])
    for one in pages:
        page += f"\n## {one['shown']}\n\n**{plain(one['title'])}.** {plain(one['means'])}\n\n"
        page += f"*How to check.* {plain(one['check'])}\n\n*What to do.* {plain(one['remedy'])}\n"
    return page


def environment_page():
    rows = [[code(name), plain(meaning)] for name, meaning in entries(output("help", "environment").split("\n\n", 1)[1])]
    return """# Environment variables

The programs read these; `paceline help environment` prints them. libpaceline reads `PACELINE_JOB_KEY_FILE` alone.
The Python package reads what launchers set, and `PACELINE_LIBRARY`, `PACELINE_STORE`, `PACELINE_INTERFACE`, `PACELINE_READY_FILE` and `PACELINE_CHECK` ([PyTorch](../torch.md)).

""" + table(["variable", "meaning"], rows)


def homes(file):
    """Public name -> file that defines it, of a module."""
    tree = ast.parse((ROOT / file).read_text())
    listed = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("paceline"):
            for name in node.names:
                for home in (f"{node.module}.{name.name}", node.module):
                    path = ROOT / "python" / (home.replace(".", "/") + ".py")
                    if path.exists():
                        found.setdefault(name.name, path)
    own = {node.name: ROOT / file for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names = listed[0] if listed else [name for name in own if not name.startswith("_")]
    return {name: found.get(name, ROOT / file) if name not in own else own[name] for name in names}


def documented(node, level, name):
    said = ast.get_docstring(node) or ""
    first, _, rest = said.partition("\n\n")
    inside = ""
    if isinstance(node, ast.ClassDef):
        begun = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
        signature = f"class {name}" + (f"({ast.unparse(begun[0].args).removeprefix('self').lstrip(', ')})" if begun else "")
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
        inside = "".join(documented(one, level + 1, f"{name}.{one.name}") for one in methods if ast.get_docstring(one))
    else:
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        signature = f"{name}({ast.unparse(node.args)}){returns}"
    rest = f"\n```text\n{rest}\n```\n" if rest else ""
    return f"\n{'#' * level} {name}\n\n```python\n{signature}\n```\n\n{plain(first)}\n{rest}{inside}"


def python_page():
    told = set()
    page = "# The Python interface\n\nWhat to do with it stands with [PyTorch](../torch.md) and [without](../python.md).\n"
    for module, file in MODULES.items():
        page += f"\n## {module}\n\n{plain(ast.get_docstring(ast.parse((ROOT / file).read_text())).partition(chr(10) * 2)[0])}\n"
        for name, home in homes(file).items():
            nodes = {node.name: node for node in ast.parse(home.read_text()).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
            elsewhere = module == "paceline" and str(home.relative_to(ROOT)) in MODULES.values()
            if name in nodes and not elsewhere and (home, name) not in told:
                page += documented(nodes[name], 3, name)
                told.add((home, name))
    return page


MAKERS = (options_page, commands_page, c_page, errors_page, codes_page, environment_page, python_page)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a page is not what it would be")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs/reference", help="where the pages are")
    arguments = parser.parse_args()
    wrong = []
    for make in MAKERS:
        file, text = arguments.folder / f"{make.__name__.removesuffix('_page')}.md", MADE + make()
        if not file.exists() or file.read_text() != text:
            wrong.append(file.name)
            if not arguments.check:
                arguments.folder.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
    if arguments.check and wrong:
        print(f"{', '.join(wrong)} of {arguments.folder} is not what it describes: run scripts/make_reference.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

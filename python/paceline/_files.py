"""JSON files that Paceline's commands wrote."""

from __future__ import annotations

import json
import os
import typing
from collections.abc import Iterable

from paceline._errors import PacelineError

Path = typing.Union[str, "os.PathLike[str]"]
Row = dict[str, object]


def _refused(path: Path, why: str, kind: str, code: str = "format") -> PacelineError:
    return PacelineError(f"{os.fspath(path)}: {why}", kind=kind, code=code, subject=os.fspath(path))


def _text(path: Path) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as problem:
        raise _refused(path, problem.strerror or str(problem), "io", "no-file" if isinstance(problem, FileNotFoundError) else "io") from None
    except UnicodeDecodeError:
        raise _refused(path, "this is no text", "corrupt") from None


def read(path: Path, what: str, keys: Iterable[str]) -> Row:
    """The JSON object in the file, which has all of `keys`. Raises PacelineError: kind "io" when the file cannot be read, "corrupt" when
    it is no JSON, "bad-request" when it is not `what`, "a report"."""
    try:
        value = json.loads(_text(path))
    except (ValueError, RecursionError) as problem:
        raise _refused(path, f"malformed JSON: {problem}", "corrupt") from None
    if not isinstance(value, dict):
        raise _refused(path, f"this is not {what}: it is no object", "bad-request")
    for key in keys:
        if key not in value:
            raise _refused(path, f"this is not {what}: it lacks '{key}'", "bad-request")
    return value


def read_lines(path: Path, what: str, keys: Iterable[str]) -> list[Row]:
    """The JSON object of each line, with one of `keys` each. A last line without its end, of a job that is running, is left out."""
    rows = []
    lines = _text(path).split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise _refused(path, f"line {number}: malformed JSON: {problem}", "corrupt") from None
        if not isinstance(row, dict) or not any(key in row for key in keys):
            raise _refused(path, f"line {number}: this is not {what}: it lacks '{next(iter(keys))}'", "bad-request")
        rows.append(row)
    return rows

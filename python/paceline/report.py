"""What a job told: its report, its metrics and its timeline, from the files that `paceline train` wrote (docs/reference/report.md says what each key
means). As dicts, or as pandas DataFrames."""

from __future__ import annotations

import typing

from paceline._files import Path, Row, read, read_lines

if typing.TYPE_CHECKING:
    import pandas


def read_report(path: Path) -> Row:
    """What `paceline train --json` printed."""
    return read(path, "a report", ("iterations", "phases", "per_worker"))


def read_metrics(path: Path) -> list[Row]:
    """What `--metrics` or `--pace` wrote: a dict for each line, in the order of the file, which may be that of a job that is running."""
    return read_lines(path, "a line of metrics", ("iteration", "superstep"))


def read_trace(path: Path) -> Row:
    """What `--trace` wrote: "traceEvents" and "otherData", in Chrome's trace format."""
    return read(path, "a trace", ("traceEvents",))


def metrics_frame(path: Path) -> pandas.DataFrame:
    """A row for each line of metrics."""
    from paceline._frames import frame

    return frame(read_metrics(path))


def trace_frame(path: Path) -> pandas.DataFrame:
    """A row for each event with a time: "ts" and "dur" in microseconds, as the format has it, "name" ("forward conv1"), "cat"
    ("forward"), "pid", "tid"; "process" and "thread" are their names."""
    from paceline._frames import frame

    events = typing.cast("list[Row]", read_trace(path)["traceEvents"])
    names: dict[object, object] = {}
    for event in events:
        if event.get("ph") == "M":
            whose = (event.get("name"), event.get("pid"), event.get("tid") if event.get("name") == "thread_name" else None)
            names[whose] = typing.cast(Row, event.get("args", {})).get("name")
    return frame(
        [
            {
                **event,
                "process": names.get(("process_name", event.get("pid"), None)),
                "thread": names.get(("thread_name", event.get("pid"), event.get("tid"))),
            }
            for event in events
            if event.get("ph") != "M"
        ]
    )

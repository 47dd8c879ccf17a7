"""What `paceline profile` measured, from a file with what it printed with --json or wrote with --record. As dicts, or as a pandas
DataFrame of layers."""

from __future__ import annotations

import typing

from paceline._errors import PacelineError
from paceline._files import Path, Row

if typing.TYPE_CHECKING:
    import pandas


def read(path: Path) -> Row:
    """Any of its documents: of layers (`paceline profile --json`, a table to replay), of --convolutions, --steps or --link. A document
    of --convolutions is what `paceline.plan.job` takes as `measurements`; one of layers has what `plan.batches` and `plan.iteration` take."""
    from paceline._files import read as read_object

    return read_object(path, "what 'paceline profile' measured", ())


def frame(path: Path) -> pandas.DataFrame:
    """A row for each layer, in forward order: "name", "parameters", "forward_s", "backward_s"."""
    from paceline._frames import frame as framed

    layers = read(path).get("layers")
    if not isinstance(layers, list):
        raise PacelineError(f"{path}: this is not a profile of layers: it lacks 'layers'", code="format", subject=str(path))
    return framed(typing.cast("list[Row]", layers))

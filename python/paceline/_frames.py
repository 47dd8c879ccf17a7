"""Rows as a DataFrame, where pandas is."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

from paceline._errors import PacelineError

if typing.TYPE_CHECKING:
    import pandas


def frame(rows: Sequence[Mapping[str, object]]) -> pandas.DataFrame:
    """Raises PacelineError where pandas is not."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise PacelineError("a frame needs pandas, which is not here: pip install pandas", kind="io", code="not-installed", subject="pandas") from None
    return pandas.DataFrame(list(rows))

"""Text and picture of the measures of a run: what its episodes achieved, and how they ended.

The measures are the means of `Env.measure` over the episodes that ended in an update; the run's log
contains them.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxenvs.core.files import replacing

from ..core.metrics import counted_by
from .curve import figure, step_axis

ACHIEVED, DIED = "achieved/", "died"  # first parts of names of measures
VITALS = ("food", "drink", "energy")  # causes of death that mean a value of 0
LATEST = 0.1  # fraction of the run over which the printed shares are means
BINS = 60  # number of columns of the picture


def means(records: Sequence[dict[str, Any]], names: Iterable[str]) -> dict[str, float]:
    """Return the mean of each measure over all episodes of the records and all seeds.

    A measure is left out if no record has it: records of earlier versions may lack it.
    """
    found = {}
    for name in names:
        # the mean of each seed, weighted by its number of episodes; it is None if this number is 0
        values = [
            (episodes, episodes * mean)
            for record in records
            if name in record
            for episodes, mean in zip(record[counted_by(name)], record[name], strict=False)
            if mean is not None
        ]
        count, total = np.sum(values, axis=0) if values else (0, 0.0)
        if count:
            found[name] = float(total / count)
    return found


def latest(records: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return the last tenth of a log."""
    return records[-max(1, round(LATEST * len(records))) :]


def deaths(records: Sequence[dict[str, Any]]) -> str:
    """Return a line about the causes of death in the last tenth of a run; "" if there are none."""
    last = latest(records)
    names = [name for name in last[-1] if name.split("/")[0] == DIED] if last else []
    found = means(last, names)
    died = found.pop(DIED, 0.0)
    if not died:
        return ""
    shares = sorted(((share / died, name) for name, share in found.items()), reverse=True)
    causes = (_cause(name, share) for share, name in shares if share >= 0.005)
    return f"Deaths in {died:.0%} of the latest training episodes: {', '.join(causes)}"


def _cause(name: str, share: float) -> str:
    words = name.removeprefix(f"{DIED}/").replace("_", " ").replace("/", " ")
    return f"{words} at 0 {share:.0%}" if words in VITALS else f"{words} {share:.0%}"


def draw(file: Path, records: list[dict[str, Any]], title: str) -> None:
    """Draw the rate of each achievement over environment steps into a PNG file, as a heat map.

    A row is an achievement, and a column is up to 1 / `BINS` of the run. Rates are means over the
    seeds. Do nothing if the records have no achievements.
    """
    names = [name for name in records[-1] if name.startswith(ACHIEVED)] if records else []
    if not names:
        return
    parts = np.array_split(np.arange(len(records)), min(BINS, len(records)))
    columns = [means([records[i] for i in part], names) for part in parts]
    rates = np.array([[column.get(name, np.nan) for column in columns] for name in names])
    order = np.argsort(-np.nan_to_num(rates[:, -1]), kind="stable")
    picture, (axes,) = figure((7.0, 1.2 + 0.17 * len(names)), 1, 1)
    end = records[-1]["steps"]
    shown = axes.imshow(
        rates[order], aspect="auto", vmin=0.0, vmax=1.0, cmap="viridis", interpolation="nearest",
        extent=(0, end, len(names) - 0.5, -0.5),
    )  # fmt: skip
    axes.grid(visible=False)
    labels = [names[i].removeprefix(ACHIEVED).replace("_", " ") for i in order]
    lasts = [f"{label}  {rates[i, -1]:.0%}" for label, i in zip(labels, order, strict=True)]
    axes.set_yticks(range(len(names)), lasts, fontsize=6.5)
    step_axis(axes)
    axes.set(title=title, xlabel="environment steps of a seed")
    picture.colorbar(shown, ax=axes, label="share of episodes; next to the names: at the end")
    with replacing(file) as temporary:
        picture.savefig(temporary, format="png")

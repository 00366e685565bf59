"""Tables of the runs of Craft that differ in setup, forced steps and discount."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .registry import RUNS, of_rows, table
from .text import Table, listed, of

FILE = f"{RUNS}/craft_setups.json"


def _forced(row: dict[str, Any]) -> str:
    """Say how a run counts forced steps; without a flag, its setup decides."""
    words = row["command"].split()
    is_default = row["setup"] == "eased" and "--no-skip-forced" not in words
    return "skipped" if is_default or "--skip-forced" in words else "decisions"


def _gamma(row: dict[str, Any]) -> str:
    """Return the discount as the command writes it."""
    words = row["command"].split()
    return words[words.index("--gamma") + 1]


def _in_masked(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each seed's evaluation in the setup `masked`."""
    return [seed["here"] for seed in row["evaluations"]["masked"]["seeds"]]


def _returns(row: dict[str, Any]) -> list[float]:
    return [each["mean_return"] for each in _in_masked(row)]


def _with_errors(row: dict[str, Any]) -> str:
    return ", ".join(f"{each['mean_return']:.2f} ± {each['error']:.2f}" for each in _in_masked(row))


of_rows(
    "runs-craft-setups",
    FILE,
    {
        "setup of the training": of("setup"),
        "forced steps": _forced,
        "gamma": _gamma,
        "return of each seed in `masked`": _with_errors,
        "mean": lambda row: f"{statistics.mean(_returns(row)):.2f}",
        "length": lambda row: listed((each["mean_length"] for each in _in_masked(row)), 0),
    },
)


class Factor(NamedTuple):
    """A property in which runs differ: the function that reads it, and its two values."""

    change: str  # the change from the first value to the second
    read: Callable[[dict[str, Any]], str]
    values: tuple[str, str]


FACTORS = (
    Factor("setup `eased` instead of `masked`", of("setup"), ("masked", "eased")),
    Factor("forced steps skipped", _forced, ("decisions", "skipped")),
    Factor("gamma 0.997 instead of 0.99", _gamma, ("0.99", "0.997")),
)


def student(freedom: int, share: float = 0.95) -> float:
    """Return x such that a variable with Student's t distribution is in (-x, x) with this share.

    The density is integrated by the midpoint rule. SciPy is not used, because the tables are also
    checked where nothing is installed.
    """
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    scale /= math.sqrt(freedom * math.pi)
    step, x, covered = 1e-4, 0.0, 0.0
    while covered < share:
        covered += 2 * step * scale * (1 + (x + step / 2) ** 2 / freedom) ** (-(freedom + 1) / 2)
        x += step
    return x


@table("effects-craft-setups", FILE)
def effects(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the mean effect of each factor on the return.

    An effect is the mean of the rows with the second value of the factor minus the mean of the rows
    with the first value. Each row counts once, whatever its number of seeds. The standard error of
    an effect assumes that the spread between seeds is equal in all rows. The interval is of
    Student's t. Both are empty if no row has several seeds.
    """
    returns = [_returns(row) for row in rows]
    means = [statistics.mean(each) for each in returns]
    squares = [(x - m) ** 2 for each, m in zip(returns, means, strict=True) for x in each]
    freedom = len(squares) - len(rows)  # degrees of freedom of the spread between seeds
    spread = math.sqrt(sum(squares) / freedom) if freedom else 0.0
    quantile = student(freedom) if freedom else 0.0

    def effect(factor: Factor) -> list[str]:
        """Return the factor's row of the table."""
        first, second = ([factor.read(row) == value for row in rows] for value in factor.values)
        weights = [b / sum(second) - a / sum(first) for a, b in zip(first, second, strict=True)]
        difference = sum(w * m for w, m in zip(weights, means, strict=True))
        if not freedom:
            return [factor.change, f"{difference:+.2f}", "", ""]
        inverse = sum(w**2 / len(each) for w, each in zip(weights, returns, strict=True))
        error = spread * math.sqrt(inverse)
        half = quantile * error
        interval = f"{difference - half:+.2f} to {difference + half:+.2f}"
        return [factor.change, f"{difference:+.2f}", f"{error:.2f}", interval]

    head = ["change", "effect on the return", "standard error", "95 % interval"]
    return Table(head, [effect(factor) for factor in FACTORS])

"""Tests of the table with the effects of setup, forced steps and discount in Craft."""

import itertools
from typing import Any

import pytest
from scipy import stats

from jaxenvs.benchmarks.tables.setups import effects, student


def row(setup: str, flag: str, gamma: str, returns: list[float]) -> dict[str, Any]:
    """Return a record of runs as in `craft_setups.json`, with the fields that the table reads."""
    seeds = [{"here": {"mean_return": value}} for value in returns]
    command = f"jaxenvs train Craft-Ids-v0 --gamma {gamma} {flag} --set setup={setup}"
    return {"setup": setup, "command": command, "evaluations": {"masked": {"seeds": seeds}}}


def rows(seeds: int = 2) -> list[dict[str, Any]]:
    """Return rows with known effects; the seeds of a row are 0.5 above and below its mean."""
    made = []
    flags = ("--no-skip-forced", "--skip-forced")
    for setup, flag, gamma in itertools.product(("masked", "eased"), flags, ("0.99", "0.997")):
        mean = 10.0 + (setup == "eased") - 2.0 * (flag == "--skip-forced") + 0.5 * (gamma > "0.99")
        made.append(row(setup, flag, gamma, [mean + 0.5 * (-1) ** i for i in range(seeds)]))
    return made


def test_effects_are_differences_between_means_of_rows():
    # The 97.5 % quantile of Student's t with 8 degrees of freedom is 2.306.
    assert [cells[1:] for cells in effects(rows()).rows] == [
        ["+1.00", "0.35", "+0.18 to +1.82"],
        ["-2.00", "0.35", "-2.82 to -1.18"],
        ["+0.50", "0.35", "-0.32 to +1.32"],
    ]


@pytest.mark.parametrize("freedom", [1, 2, 8, 32, 1000])
def test_the_quantile_of_students_t_equals_scipys(freedom):
    assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=1e-3)


def test_a_row_counts_once_whatever_its_number_of_seeds():
    some = [*rows()[:-1], *rows(seeds=4)[-1:]]
    found = effects(some).rows
    assert [effect for _, effect, *_ in found] == ["+1.00", "-2.00", "+0.50"]
    assert {error for _, _, error, _ in found} == {"0.32"}


def test_one_seed_per_row_gives_effects_without_errors_and_intervals():
    assert [cells[1:] for cells in effects(rows(seeds=1)).rows] == [
        ["+1.00", "", ""],
        ["-2.00", "", ""],
        ["+0.50", "", ""],
    ]


def test_runs_in_the_setup_eased_skip_forced_steps_by_default():
    some = rows()
    for each in some:
        if each["setup"] == "eased":
            each["command"] = each["command"].replace(" --skip-forced", "")
    assert effects(some) == effects(rows())

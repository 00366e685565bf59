"""Tests of docs/learners: the table has a row for each learner with a recorded run."""

import json
import re
from pathlib import Path

import pytest

from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.benchmarks.reference import learners
from jaxenvs.benchmarks.tables import registry, runs
from jaxenvs.benchmarks.tables.text import tabulated
from jaxenvs.commands.learned import BONUSES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "learners").glob("*.md"))
LEARNERS = "\n".join(page.read_text("utf-8") for page in PAGES)
TRAINING = (ROOT / "docs" / "tutorials" / "training.md").read_text("utf-8")
OPTIONS = [*ALGORITHMS, *(f"--novelty {name}" for name in BONUSES)]
RUN = {"id": "Grid-v0", "command": "c", "seeds": 1, "steps": 10, "versions": {"jaxenvs": "0"}}
RUN |= {"device": "here", "date": "today", "evaluation": None, "last_returns": [0.5]}


def block(name: str) -> str:
    """Return the text between the markers of a table."""
    return LEARNERS.partition(f"<!-- table: {name} -->\n")[2].partition("<!-- end -->")[0]


def cells(option: str) -> list[str]:
    """Return the cells of the table's row for `option`, without the first cell."""
    lines = [line for line in block("runs-learners").splitlines() if f"| `{option}` |" in line]
    assert len(lines) == 1, f"{option} has {len(lines)} rows in docs/learners"
    return [cell.strip() for cell in lines[0].split("|")][2:-1]


def test_each_row_shows_a_recorded_run():
    options = re.findall(r"^\| `(.*?)` \|", block("runs-learners"), re.MULTILINE)
    # The table's rows are in the order of `OPTIONS`.
    assert options == [option for option in OPTIONS if option in options]
    for option in options:
        _, count, id, observation, seeds, steps, mean, device = cells(option)
        assert id.strip("`").count("-") >= 1 and observation and steps and mean and device
        assert int(seeds) >= 1 and int(count) >= 1


def test_learners_from_a_replay_buffer_have_five_seeds():
    for option in ("c51", "qr-dqn", "iqn", "rainbow", "r2d2", "apex", "--novelty e3b"):
        assert int(cells(option)[4]) >= 5, option


@pytest.fixture
def no_ray(tmp_path):
    path = tmp_path / "ray.json"
    path.write_text('{"faults": []}', "utf-8")
    return path


def test_a_learner_without_a_run_has_no_row(no_ray):
    assert learners([], {}, no_ray) == []


def test_a_row_has_the_run_with_the_most_seeds(no_ray):
    one = {**RUN, "command": "c --seed 1 --set obs=full", "algorithm": "dqn"}
    two = {**one, "command": "c --seed 2 --set obs=full", "last_returns": [0.7]}
    other = {**one, "command": "c", "steps": 20}
    plans = {**RUN, "command": "d", "algorithm": "davi", "evaluation": {"boards": 8}}
    bonus = {**RUN, "command": "e"}
    peer = {**RUN, "algorithm": "pqn", "versions": {"jax": "0"}}
    trained = {"Grid-v0": [{"command": "e", "apart": ["E3B"]}]}
    rows = learners([RUN, one, two, other, plans, bonus, peer], trained, no_ray)
    table = tabulated(rows, runs.LEARNERS)
    known = {row[0]: row[2:-1] for row in table.rows}
    assert known == {
        "`ppo`": ["1", "`Grid-v0`", "`image`", "1", "10.0", "0.500"],
        "`dqn`": ["1", "`Grid-v0`", "`full`", "2", "10.0", "0.600"],
        "`davi`": ["1", "`Grid-v0`", "`image`", "1", "10.0", "[on its page](davi.md)"],
        "`--novelty e3b`": ["1", "`Grid-v0`", "`image`", "1", "10.0", "0.500"],
    }


def test_learners_that_are_not_one_program_are_excepted():
    (sentence,) = re.findall(r"Each but (.*?) is one compiled program", TRAINING)
    apart = {name for name, row in ALGORITHMS.items() if row.command}
    # The sentence does not name `ppo-ray`, because the page calls it "PPO with `--ray`".
    assert set(re.findall(r"`([\w-]+)`", sentence)) == apart - {"ppo-ray"}


def test_figures_of_second_tries_are_those_of_the_table():
    """docs/learners says once how many ids a second training run has learned.

    The number is below the table of these runs, and equals its number of rows.
    """
    tries = json.loads((ROOT / registry.RUNS / "retries.json").read_text("utf-8"))
    claims = re.findall(rf"(\d+) of {len(tries)} (?:ids|tries)", LEARNERS)
    table = block("runs-retries")
    assert len(claims) == 1 and f"{claims[0]} of {len(tries)} ids have learned" in table
    assert table.count("\n| `") == int(claims[0])


@pytest.mark.parametrize("claim", ["policies earn 12.50", "8.50 over", "4,096 others", "208,320"])
def test_figures_whose_raw_data_were_not_kept_are_gone(claim):
    assert claim not in " ".join(LEARNERS.split())


def test_figures_of_2048_are_means_of_recorded_runs():
    records = json.loads((ROOT / registry.RUNS / "muzero.json").read_text("utf-8"))
    tiles = [run for run in records if run["id"] == "Puzzle-2048-v0"]
    means = {f"{run['evaluation']['mean_return']:,.0f}" for run in tiles}
    said = LEARNERS.partition("On **2048** MuZero earns")[2].partition("\n\n")[0]
    random = json.loads((ROOT / registry.REFERENCE).read_text("utf-8"))["random"]
    by_chance = f"{random['Puzzle-2048-v0']['return']:,.0f}"
    ranges = {"4,800", "6,052"}  # returns of single seeds of MuZero, not means
    assert set(re.findall(r"\d,\d{3}", said)) - ranges <= means | {by_chance}
    assert {"--lines 32", "--lines 64"} <= {
        found[0] for run in tiles if (found := re.search(r"--lines \d+", run["command"]))
    }

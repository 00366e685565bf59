"""Each learner has a recorded run, or its row says that none exists; pages claim no more."""

import json
import re
from pathlib import Path

import pytest

from jaxenvs.baselines.algorithms import ALGORITHMS
from jaxenvs.benchmarks.tables import recorded, registry
from jaxenvs.commands.learned import BONUSES

ROOT = Path(__file__).resolve().parents[2]
LEARNERS = (ROOT / "baselines" / "README.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
OPTIONS = [*(f"`{name}`" for name in ALGORITHMS), *(f"`--novelty {name}`" for name in BONUSES)]
RAY = {"faults": [], "machine": {"cores": 2}, "recorded": "2026-11-21; two cores"}


def cells(option: str) -> list[str]:
    """The cells after the option in its row of the page."""
    lines = [line for line in LEARNERS.splitlines() if line.startswith(f"| {option} | ")]
    assert len(lines) == 1, f"{option} has {len(lines)} rows in baselines/README.md"
    return [cell.strip() for cell in lines[0].split("|")][2:-1]


@pytest.mark.parametrize("option", OPTIONS)
def test_each_learner_has_a_recorded_run_or_its_row_says_that_none_exists(option):
    _, count, id, observation, seeds, steps, mean, device = cells(option)
    if count == "0":
        assert (id, observation, steps, mean, device) == (recorded.NONE, "", "", "", "")
    else:
        assert id.strip("`").count("-") >= 1 and observation and steps and mean and device
        assert int(seeds) >= 1


def test_learners_from_a_replay_buffer_have_five_seeds():
    for option in ("`c51`", "`qr-dqn`", "`iqn`", "`rainbow`", "`r2d2`", "`--novelty e3b`"):
        assert int(cells(option)[4]) >= 5, option


def test_a_learner_without_a_run_says_so():
    reference = {"trained": {"Grid-v0": [{"command": "c", "apart": ["E3B"]}]}}
    table = recorded.recorded([[]], RAY, reference)
    assert [row[0] for row in table.rows] == OPTIONS
    assert {row[3] for row in table.rows} == {recorded.NONE}
    run = {"id": "Grid-v0", "command": "c", "seeds": 1, "steps": 10, "versions": {"jaxenvs": "0"}}
    run |= {"device": "here", "date": "today", "evaluation": None, "last_returns": [0.5]}
    other = {**run, "command": "c --seed 1 --set obs=full", "algorithm": "dqn"}
    more = {**other, "command": "c --seed 2 --set obs=full"}
    table = recorded.recorded([[run], [other, more]], RAY, reference)
    known = {row[0]: row[2:] for row in table.rows if row[3] != recorded.NONE}
    alone = ["1", "`Grid-v0`", "`image`", "1", "10", "0.500", "here, today"]
    assert known == {
        "`ppo`": alone,
        "`dqn`": ["1", "`Grid-v0`", "`full`", "2", "10", "0.500", "here, today"],
        "`--novelty e3b`": alone,
    }


def test_learners_that_are_not_one_program_are_excepted():
    (sentence,) = re.findall(r"Each but (.*?) is one compiled program", README)
    apart = {name for name, row in ALGORITHMS.items() if row.command != ".run.loop"}
    options = set(re.findall(r"^\| (.*?) \|", README.partition("| `--algo` |")[2], re.MULTILINE))
    listed = {name for names in options for name in re.findall(r"`([\w-]+)`", names)}
    assert set(re.findall(r"`([\w-]+)`", sentence)) == apart & listed
    assert ALGORITHMS.keys() - listed == {"ppo-ray"}  # `--ray`, below the table


def test_figures_of_second_tries_are_those_of_the_table():
    """The number of ids that have learned stands below the table, and nowhere else."""
    tries = json.loads((ROOT / registry.RUNS / "retries.json").read_text("utf-8"))
    claims = re.findall(rf"(\d+) of {len(tries)} (?:ids|tries)", LEARNERS)
    block = LEARNERS.partition("<!-- table: runs-retries -->")[2].partition("<!-- end -->")[0]
    assert len(claims) == 1 and f"{claims[0]} of {len(tries)} ids have learned" in block
    assert block.count("\n| `") == int(claims[0])

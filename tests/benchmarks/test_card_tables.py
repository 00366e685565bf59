"""Tests of the tables of results of `card`, a command that runs benchmarks on a GPU.

Each benchmark (job) has a table, and a table omits columns that the rows of results lack.
"""

import json
import re

import pytest

from jaxenvs.benchmarks.card import jobs
from jaxenvs.benchmarks.tables import card, readme, registry

CRAFT = {"id": "Craft-Classic-Ids-v0", "num_envs": 4096}
OURS = {"contestant": "jaxenvs", **CRAFT, "obs": "ids", "steps": 1_000_000}


def document(*rows: dict, **header: object) -> dict:
    """Return the contents of a job's result file with the given rows and header entries."""
    about = {"device": "NVIDIA H100", "driver": "580", "jax": "0.11", "commit": "abc"}
    return {**about, "job": "craft", "command": "card --only craft", **header, "rows": list(rows)}


def test_a_table_names_its_command_until_it_is_measured(tmp_path):
    text = registry.render("card", tmp_path)
    assert "benchmarks.card` makes the figures for `benchmarks/results/card/*.json`" in text


def test_files_of_all_devices_are_read(tmp_path):
    folder = tmp_path / registry.RESULTS / "card"
    folder.mkdir(parents=True)
    for device in ("H100", "H200"):
        row = {**OURS, "reset_source": "exact", "times_s": [0.5]}
        (folder / f"{device}-craft.json").write_text(json.dumps(document(row, device=device)))
    lines = registry.render("card", tmp_path).splitlines()
    assert lines[0] == "**Craft-Classic, steps per second by reset source**"
    assert lines[4:6] == [f"| {d} | {CRAFT['id']} | 4,096 | 2.00 M |" for d in ("H100", "H200")]
    assert lines[-1].startswith(
        "H100: driver 580, jax 0.11, commit abc, `card --only craft`. H200:"
    )


def test_notes_name_missing_packages_and_interruptions():
    note = card.notes([document(missing={"craftax": "not installed"}, state="cut")])
    assert note.endswith("`card --only craft`; without craftax; cut.")
    assert card.notes([document(missing={}, state="done")]).endswith("`card --only craft`.")


def test_a_factor_compares_turns_and_kernels_have_columns():
    exact = {**OURS, "reset_source": "exact", "times_s": [1.0, 2.0, 8.0]}
    exact |= {"kernels": 34, "kernels_per_trip": 26}
    other = {**OURS, "contestant": "craftax", "reset_source": "own", "times_s": [10.0, 10.0, 10.0]}
    made = card.beside([document(exact, other)])
    assert made.head[3:] == ["exact", "craftax", "exact / craftax", "kernels, exact"]
    assert made.rows[0][3:] == ["500 k", "100 k", "5.0", "34 + 26"]
    timed = [{**row, "compile_seconds": 15.26} for row in (exact, other)]
    assert card.beside([document(*timed)]).head[7:] == ["compile s, exact", "compile s, craftax"]
    assert card.beside([document(*timed)]).rows[0][7:] == ["15.3", "15.3"]
    # The table pairs the timings of rows that were measured in turns. `stated` has one timing and
    # `other` has several, so they cannot be paired, and the table shows the ratio of the speeds.
    stated = {**exact, "times_s": [1.0]}
    assert card.beside([document(stated, other)]).rows[0][5] == "10.0"


def test_kernels_and_resets_of_one_file_have_a_table_each():
    whole = {**CRAFT, "reset_source": "pool", "part": "kernels", "microseconds": 9.0, "busy": 8.0}
    each = [{**whole, "kernel": f"k{us}", "microseconds": us} for us in (1.0, 5.0, 2.0, 0.5, 0.1)]
    reset = {**OURS, "reset_source": "exact", "part": "resets", "limit": 0, "ended_per_step": 0.54}
    reset |= {"trips_per_step": 0.43, "microseconds": 59.88}
    documents = [document(reset, whole, *each)]
    assert card.resets(documents).rows[0][3:] == ["exact", "none", "0.5", "0.4", "59.9"]
    (line,) = card.kernels(documents).rows
    assert line[4:] == ["9.0", "8.0", "`k5.0` 5.0, `k2.0` 2.0, `k1.0` 1.0, `k0.5` 0.5"]


def test_empty_columns_of_training_and_search_are_left_out():
    trained = {**CRAFT, "algorithm": "ppo", "preset": "gpu", "steps": 4096, "times_s": [0.1, 0.2]}
    made = card.training([document({**trained, "steps_per_second": 26_000.0})])
    assert made.head[3:] == ["learner", "preset", "steps/s"] and made.rows[0][-1] == "26.0 k"
    searched = {"id": "Puzzle-Cube-2x2-v0", "algorithm": "astar", "batch_size": 10_000}
    searched |= {"solved": 4, "nodes_per_second": 2.5e6, "compile_seconds": 3.0}
    made = card.puzzles([document(searched)])
    assert made.rows[0][1:] == ["Puzzle-Cube-2x2-v0", "astar", "10,000", "2.50 M", "4", "3.0"]


def test_a_slice_of_the_long_run_ends_with_its_return():
    case = {**CRAFT, "from_steps": 0, "to_steps": 2_000_000, "part": "slice", "times_s": [30.0]}
    case["setup"] = "original"
    curve = [{**CRAFT, "part": "curve", "steps": s, "return": s / 1e6} for s in (1e6, 2e6, 3e6)]
    end = {**CRAFT, "part": "evaluation", "steps": 2_000_000, "mean_return": 9.0}
    made = card.billion([document({**case, "steps_per_second": 1e6}, *curve, end)])
    assert made.rows == [
        [
            "NVIDIA H100",
            CRAFT["id"],
            "4,096",
            "original",
            "2.00 M",
            "30 s",
            "1.00 M",
            "2.00",
            "9.00",
        ]
    ]
    del case["setup"]  # runs before setups existed had masks
    (old,) = card.billion([document({**case, "steps_per_second": 1e6}, *curve, end)]).rows
    assert old[3] == "masked"


def test_failed_tests_are_named():
    outcomes = ("passed", "failed", "passed")
    rows = [{"test": f"t{i}", "outcome": outcome} for i, outcome in enumerate(outcomes)]
    assert card.tests([document(*rows)]).rows == [["NVIDIA H100", "2", "0", "1", "`t1`"]]


def test_only_jobs_that_were_measured_are_shown():
    text = card.card([document(job="resets"), document(job="craft")])
    assert re.findall(r"^\*\*(\w+)", text, re.MULTILINE) == ["Craft", "Resets", "Kernels"]


def test_every_job_has_a_table():
    assert {job.name for job in jobs.JOBS} == {section.job for section in card.SECTIONS}


def test_lines_of_an_id_are_sorted_by_batch_and_ids_stay_in_order():
    rows = [
        {**OURS, "id": id, "num_envs": num_envs, "reset_source": "exact", "times_s": [1.0]}
        for id, num_envs in (("b", 4096), ("a", 65_536), ("b", 1024), ("a", 1024))
    ]
    found = [line[1:3] for line in card.beside([document(*rows)]).rows]
    assert found == [["b", "1,024"], ["b", "4,096"], ["a", "1,024"], ["a", "65,536"]]


def test_korfs_levels_and_recurrent_training_have_their_columns():
    row = {"id": "Puzzle-SlidingTile-4x4-v0", "batch_size": 100_000, "levels": 100, "passes": 2}
    row |= {"solved": 99, "as_known": 98, "nodes": 5e8, "expanded": 2.5e8, "times_s": [10.0]}
    assert card.korf([document(row)]).rows[0] == [
        *("NVIDIA H100", "100,000", "100", "99", "98", "2", "500 M", "250 M", "10.0", "50.0 M")
    ]
    trained = {**CRAFT, "algorithm": "ppo-rnn", "reset_source": "stock", "settings": "chunk 4"}
    made = card.training([document({**trained, "steps": 10, "times_s": [1.0]})])
    assert made.rows[0][3:] == ["ppo-rnn", "stock", "chunk 4", "10.0"]


# Tests of the short table in README.md.


def doorkey(source: str, seconds: float, **more: object) -> dict:
    row = {"contestant": "jaxenvs", "id": "Grid-DoorKey-8x8-v0", "num_envs": 65_536}
    row |= {"reset_source": source, "steps": 1_000_000}
    return {**row, "times_s": [seconds], "steps_per_second": 1e6 / seconds, **more}


def short(*documents: dict) -> tuple:
    made = readme.gpu([{"date": "2026-11-26", **each} for each in documents])
    return list(made.head), [list(row) for row in made.rows]


def test_the_short_table_shows_the_fastest_source_with_independent_episodes():
    rows = [doorkey("fresh", 2.0), doorkey("exact", 1.0), doorkey("pool", 0.1)]
    rows.append(doorkey("none", 0.1))
    rows.append(doorkey("own", 8.0, contestant="NAVIX"))
    head, lines = short(document(*rows, job="doorkey"))
    assert head[0] == "one NVIDIA H100"
    assert lines == [
        ["MiniGrid, DoorKey-8x8", "65,536", "exact", "1.00 M steps/s", "NAVIX 125 k (8.0 x)"]
    ]


def test_the_short_table_takes_the_newest_file_that_has_the_case():
    old = document(doorkey("fresh", 1.0), job="doorkey")
    new = document(doorkey("stock", 0.5), job="doorkey", date="2026-11-27", device="NVIDIA H200")
    other = document(doorkey("stock", 0.1, num_envs=8), job="doorkey", date="2026-11-28")
    assert short(old, new, other)[1][0][2:4] == ["stock", "2.00 M steps/s"]
    search = {"id": "Puzzle-SlidingTile-4x4-v0", "nodes": 10, "times_s": [1.0]}
    head, lines = short(new, document(search, job="puzzles"))
    assert head[0] == "GPU" and [line[0] for line in lines] == ["NVIDIA H200", "NVIDIA H100"]
    assert lines[1][4] == "10.0 nodes/s"


@pytest.mark.parametrize("section", card.SECTIONS, ids=lambda section: section.title)
def test_a_job_without_rows_has_a_table(section):
    assert str(section.build([document()])).startswith("| device |")

"""Tests of `record`, which lists finished runs in a JSON table, and of its learning curves."""

import dataclasses
import json
import os

import numpy as np
import pytest

from jaxenvs.baselines import presets
from jaxenvs.baselines.evaluation import curve, record
from jaxenvs.baselines.model_based import muzero
from jaxenvs.baselines.on_policy.ppo import Settings
from jaxenvs.baselines.puzzles import davi
from jaxenvs.baselines.storage.runs import Config, Run

TILES = "Puzzle-2048-v0"
# Fields of an environment that shows the agent the mission as well as the image. They are the
# default in tasks with missions, so `record.command` does not name them.
DICT = {"obs": "dict"}


def rows(seeds: int, updates: int) -> list[dict]:
    """Return a log: in each update, seed i has 100 episodes with mean return i / 100."""
    return [
        {
            "update": u + 1,
            "steps": 256 * (u + 1),
            "episodes": [100] * seeds,
            "return": [i / 100 for i in range(seeds)],
            "seconds": 1.5 * u,
            "steps_per_second": 512.0,
        }
        for u in range(updates)
    ]


def run_of(path, id: str, seeds: int = 2, fields=None, seed: int = 0, **settings) -> Run:
    """Return a run whose log is made by the function `rows`."""
    tuned = presets.preset(id)
    chosen = dataclasses.asdict(Settings(**(tuned.settings | settings)))
    run = Run.create(path, Config(id, fields=fields or {}, seed=seed, seeds=seeds, settings=chosen))
    run.log(rows(seeds, 90))
    return run


def test_every_setting_of_a_sweep_is_named(tmp_path):
    """The 24 agents of a sweep have 24 different names, and their curves can be drawn."""
    config = Config(
        "A-v0", {}, 3, 24, {}, sweep={"gamma": [0.9, 0.99], "clip": [0.1 * i for i in range(6)]}
    )
    assert len({*config.names}) == 24 and config.names[2] == "gamma=0.9 clip=0.1 seed 3"
    curve.draw(tmp_path / "curve.png", rows(24, 5), "Grid-v0", config.names)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


# Pytest turns warnings, such as matplotlib's, into errors.
@pytest.mark.parametrize("seeds", [1, curve.NAMED, 64])
def test_a_picture_of_any_number_of_seeds(tmp_path, seeds):
    curve.draw(
        tmp_path / "curve.png", rows(seeds, 5), "Grid-v0", [f"seed {i}" for i in range(seeds)]
    )
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("id", "more", "words"),
    [
        ("Grid-DoorKey-8x8-v0", {}, "Grid-DoorKey-8x8-v0 --seeds 2"),
        ("Grid-v0", {"learning_rate": 0.5}, "Grid-v0 --seeds 2 --learning-rate 0.5"),
        ("Grid-v0", {"anneal": False, "seed": 7}, "Grid-v0 --seeds 2 --seed 7 --no-anneal"),
        ("Grid-v0", {"hidden": (9, 8)}, "Grid-v0 --seeds 2 --hidden 9 8"),
        ("Grid-Fetch-5x5-N2-v0", {"fields": DICT}, "Grid-Fetch-5x5-N2-v0 --seeds 2"),
        ("Grid-Fetch-5x5-N2-v0", {}, "Grid-Fetch-5x5-N2-v0 --seeds 2 --set obs=image"),
        ("Grid-v0", {"fields": {"view_size": 5}}, "Grid-v0 --seeds 2 --set view_size=5"),
    ],
)
def test_the_command_names_what_differs_from_the_preset(tmp_path, id, more, words):
    assert record.command(run_of(tmp_path / "run", id, **more).config) == f"jaxenvs train {words}"


def test_the_command_names_the_algorithm(tmp_path):
    settings = dataclasses.asdict(davi.Settings(width=9))
    config = Config("Puzzle-Pyraminx-v0", {}, seed=0, seeds=2, settings=settings, algorithm="davi")
    words = "jaxenvs train Puzzle-Pyraminx-v0 --algo davi --seeds 2 --width 9"
    assert record.command(config) == words


def test_the_command_of_an_older_run_names_settings_that_it_did_not_know():
    """The command of an older run must contain `--lines 0`.

    The run is older than the setting `lines`, whose default is 0. The preset now sets it to 64.
    """
    settings = dataclasses.asdict(muzero.Settings(**presets.preset(TILES, None, "muzero").settings))
    assert settings.pop("lines") == 64
    config = Config(TILES, {}, 0, 5, settings, algorithm="muzero")
    assert record.command(config) == f"jaxenvs train {TILES} --algo muzero --seeds 5 --lines 0"


def test_the_command_names_the_preset_that_is_nearest(tmp_path):
    id = "Craft-Classic-Ids-v0"
    more = {**presets.preset(id, "gpu").settings, "entropy": 0.5}
    words = f"jaxenvs train {id} --preset gpu --seeds 2 --entropy 0.5"
    made = run_of(tmp_path / "run", id, fields={"setup": "original"}, **more)
    assert record.command(made.config) == words


def test_runs_are_kept_in_a_table_and_drawn(tmp_path, capsys):
    table, picture = tmp_path / "table.json", tmp_path / "all.png"
    run_of(tmp_path / "a", "Grid-v0")
    many = run_of(tmp_path / "b", "Grid-Fetch-5x5-N2-v0", seeds=20, fields=DICT)
    many.write_json("eval.json", {"mean_return": 0.25})
    runs = [str(tmp_path / name) for name in "ab"]
    assert record.main([str(table), *runs, "--device", "a desk"]) == 0
    again = record.main([str(table), runs[0], "--device", "a lap", "--picture", str(picture)])
    assert again == 0 and picture.read_bytes().startswith(b"\x89PNG")

    first, second = json.loads(table.read_text())
    assert (first["id"], first["device"], first["evaluation"]) == ("Grid-v0", "a lap", None)
    assert (first["steps"], first["steps_asked"], first["seconds"]) == (90 * 256, 300_000, 133.5)
    assert second["device"] == "a desk" and second["evaluation"] == {"mean_return": 0.25}
    assert second["last_returns"] == [round(i / 100, 3) for i in range(20)]
    drawn = record.curve(second)
    assert drawn.title == "Grid-Fetch-5x5-N2-v0"
    other = second | {"command": "jaxenvs train Grid-v0 --algo ppo-rnn --preset rnd --seeds 20"}
    assert record.curve(other).title == "Grid-v0 ppo-rnn rnd"
    assert record.curve(other | {"id": "Grid-v0", "run": "plain `x`"}).title == "Grid-v0 plain x"
    assert drawn.steps[0] == 256 and drawn.steps[-1] == 90 * 256 and len(drawn.steps) == 40
    assert np.isnan(drawn.returns[0]).all() and np.isfinite(drawn.returns[1:]).all()

    assert record.main([str(table), str(tmp_path / "nowhere")]) == 2
    assert "nowhere is not a run" in capsys.readouterr().err


def evaluated(folder, seed: int, episodes: int = 8, actions: str = "sampled"):
    """Write a finished run of one seed, with its results with and without a tree search."""
    policy = {"actions": actions, "search": True, "simulations": 8, "observation": "image"}
    known = {"mean_return": 1.0 + seed, "success_rate": None, "mean_length": 5.0}
    known |= {"achievements": {"eat_cow": 0.5 * seed, "wake_up": None}}
    alone = {"episodes": episodes, "per_seed": [{"seed": seed, "mean_return": 0.5 * seed}]}
    found = {"policy": policy, "episodes": episodes, **known}
    found["per_seed"] = [{"seed": seed, **known}]
    run = run_of(folder / f"{seed}", "Grid-v0", seeds=1, seed=seed)
    run.write_json("eval.json", {**found, "without_search": alone})


def test_seeds_evaluated_over_other_episodes_stay_apart(tmp_path):
    for seed, episodes in ((0, 8), (1, 4), (2, 8)):
        evaluated(tmp_path, seed, episodes)
    table = tmp_path / "table.json"
    assert record.main([str(table), *(str(tmp_path / f"{seed}") for seed in range(3))]) == 0
    found = [known["evaluation"] for known in json.loads(table.read_text())]
    assert [(x["episodes"], len(x["per_seed"])) for x in found] == [(8, 2), (4, 1)]


def test_seeds_evaluated_by_other_policies_stay_apart(tmp_path):
    for seed, actions in enumerate(("sampled", "greedy", "sampled")):
        evaluated(tmp_path, seed, actions=actions)
    table = tmp_path / "table.json"
    assert record.main([str(table), *(str(tmp_path / f"{seed}") for seed in range(3))]) == 0
    found = [known["evaluation"] for known in json.loads(table.read_text())]
    kinds = [(x["policy"]["actions"], len(x["per_seed"])) for x in found]
    assert kinds == [("sampled", 2), ("greedy", 1)]


def test_a_line_names_all_devices_of_its_runs_and_the_last_date(tmp_path):
    days = {0: 1, 1: 3, 2: 2}
    for seed, day in days.items():
        evaluated(tmp_path, seed)
        os.utime(tmp_path / f"{seed}" / "log.jsonl", (0, day * 86_400))
    table = tmp_path / "table.json"
    for seed, device in enumerate(("a lap; XLA_FLAGS=1", "a desk", "a lap; XLA_FLAGS=1")):
        assert record.main([str(table), str(tmp_path / f"{seed}"), "--device", device]) == 0
    (line,) = json.loads(table.read_text())
    assert line["device"] == "a lap; XLA_FLAGS=1 or a desk" and line["date"] == "1970-01-04"


def test_titles_of_curves_name_the_game(tmp_path):
    made = run_of(tmp_path / "one", "PuzzleScript-v0", fields={"game": "relay", "levels": "train"})
    assert record.curve(record.summary(made, "")).title == "PuzzleScript-v0 game=relay"
    fields = {"game": "shipped", "games": "crates,relay,vault"}
    several = run_of(tmp_path / "several", "PuzzleScript-v0", fields=fields)
    title = record.curve(record.summary(several, "")).title
    assert title == "PuzzleScript-v0 game=shipped, 3 games"


def test_other_evaluations_of_a_run_are_recorded(tmp_path, capsys):
    for seed in (0, 1):
        evaluated(tmp_path, seed)
        found = {"fields": {"levels": "test"}, "params": {}, "episodes": 8, "policy": {}}
        found |= {"seeds": [{"seed": seed, "here": {"mean_return": 0.5}}], "date": "today"}
        (tmp_path / f"{seed}" / "eval-levels.json").write_text(json.dumps(found))
    table = tmp_path / "table.json"
    assert record.main([str(table), str(tmp_path / "0")]) == 0
    (line,) = json.loads(table.read_text())
    assert line["evaluations"]["levels"]["fields"] == {"levels": "test"}
    assert record.main([str(table), str(tmp_path / "1")]) == 0
    (line,) = json.loads(table.read_text())
    assert [seed["seed"] for seed in line["evaluations"]["levels"]["seeds"]] == [0, 1]
    assert "params" not in line["evaluations"]["levels"]["seeds"][1]
    limited = {**found, "params": {"max_steps_in_episode": 9}, "steps": None}
    (tmp_path / "1" / "eval-levels.json").write_text(json.dumps(limited))
    table.unlink()
    assert record.main([str(table), str(tmp_path / "0"), str(tmp_path / "1")]) == 0
    (line,) = json.loads(table.read_text())
    assert [seed.get("params") for seed in line["evaluations"]["levels"]["seeds"]] == [
        None,
        {"max_steps_in_episode": 9},
    ]
    (tmp_path / "1" / "eval-levels.json").write_text(json.dumps({**found, "steps": 7}))
    assert record.main([str(table), str(tmp_path / "1")]) == 2
    assert "eval-levels.json evaluates weights after 7 steps, and" in capsys.readouterr().err
    (tmp_path / "1" / "eval-old.json").write_text(json.dumps({"params": {}, "seeds": []}))
    (tmp_path / "1" / "eval-levels.json").unlink()
    assert record.main([str(table), str(tmp_path / "1")]) == 2
    err = capsys.readouterr().err
    assert "eval-old.json has no fields, episodes, policy; remove it, or write it again" in err


def test_lengths_of_rollouts_tell_panels_with_the_same_title_apart():
    records = [
        {
            "command": f"jaxenvs train {id} --seeds 1{flag}",
            "curve": {"steps": [1], "returns": [[0]]},
        }
        for id, flag in (("Grid-v0", ""), ("Grid-v0", " --rollout-steps 200"), ("Craft-v0", ""))
    ]
    titles = [panel.title for panel in record.curves(records)]
    assert titles == ["Grid-v0", "Grid-v0 --rollout-steps 200", "Craft-v0"]
    seeds = [{**records[1], "command": f"{records[1]['command']} --seed {seed}"} for seed in (0, 1)]
    assert [panel.title for panel in record.curves(seeds)] == ["Grid-v0"]


def test_runs_without_an_evaluation_by_seed_share_a_panel():
    steps = {"steps": [1, 2]}
    records = [
        {"command": f"jaxenvs train Grid-v0 --seeds 1{seed}", "curve": {**steps, "returns": lines}}
        for seed, lines in (("", [[1], [2]]), (" --seed 1", [[3], [None]]))
    ]
    other = {"command": "jaxenvs train Grid-v0 --seeds 1 --gamma 0.9", "curve": records[0]["curve"]}
    both, alone = record.curves([*records, other, {"command": "python train.py", "curve": None}])
    np.testing.assert_array_equal(both.returns, [[1, 3], [2, np.nan]])
    assert both.returns.shape == (2, 2) and alone.returns.shape == (2, 1)


def test_runs_of_a_seed_each_are_one_line(tmp_path):
    for seed in (0, 1, 2):
        evaluated(tmp_path, seed)
    table = tmp_path / "table.json"
    assert record.main([str(table), str(tmp_path / "0"), str(tmp_path / "1")]) == 0
    (line,) = json.loads(table.read_text())
    assert line["command"] == "jaxenvs train Grid-v0 --seeds 1 --seed {0,1}" and line["seeds"] == 2
    found = line["evaluation"]
    assert (found["mean_return"], found["success_rate"], found["episodes"]) == (1.5, None, 8)
    assert found["achievements"] == {"eat_cow": 0.25, "wake_up": None}
    assert [seed["seed"] for seed in found["per_seed"]] == [0, 1] and "interval" in found
    alone = found["without_search"]
    assert alone["mean_return"] == 0.25 and [x["seed"] for x in alone["per_seed"]] == [0, 1]
    assert line["seconds"] == 2 * 133.5 and len(line["last_returns"]) == 2
    assert all(len(returns) == 2 for returns in line["curve"]["returns"])

    # Seed 2, recorded later, is merged into the existing line of the table.
    assert record.main([str(table), str(tmp_path / "2")]) == 0
    (line,) = json.loads(table.read_text())
    assert line["command"] == "jaxenvs train Grid-v0 --seeds 1 --seed {0,1,2}"
    assert (line["seeds"], line["seconds"]) == (3, 3 * 133.5)
    assert line["evaluation"]["mean_return"] == 2.0 and line["steps_per_second"] == 512.0
    assert all(len(returns) == 3 for returns in line["curve"]["returns"])

    # Recording seed 1 again adds a second line, because the first line already contains seed 1.
    assert record.main([str(table), str(tmp_path / "1")]) == 0
    assert [known["seeds"] for known in json.loads(table.read_text())] == [3, 1]
    kept = json.loads(table.read_text())[0] | {"versions": {"jax": "0.1"}}
    table.write_text(json.dumps([kept]))
    # The existing line now has another version of JAX, so this run gets a separate line.
    assert record.main([str(table), str(tmp_path / "2")]) == 0
    assert [known["seeds"] for known in json.loads(table.read_text())] == [3, 1]

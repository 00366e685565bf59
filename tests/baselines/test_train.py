"""Tests of the command `jaxenvs train`: files, resuming, Ctrl-C and error messages."""

import dataclasses
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import FLAGS, Clock

import jaxenvs
from jaxenvs import spaces
from jaxenvs.baselines import presets
from jaxenvs.baselines.on_policy.ppo import Settings
from jaxenvs.baselines.run import keeping, loop, options, progress
from jaxenvs.baselines.run.train import main
from jaxenvs.baselines.storage import checkpoints, runs
from jaxenvs.core import registry
from jaxenvs.core.extras import require
from jaxenvs.core.typed import installation
from jaxenvs.render import replay

GROUP = "tiny_runs"  # tests of this group share a worker, which compiles the runs' program once


def total(updates: int) -> list[str]:
    """Return the command-line flags that make a run of this many tiny updates."""
    return ["--total-steps", str(updates * 8 * 32)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of a run of four tiny updates, with checkpoints of updates 2 and 4."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    assert main(["Grid-Empty-Random-5x5-v0", *FLAGS, *total(4), "--out", str(out)]) == 0
    return out


def contents(run, update: str) -> dict[str, np.ndarray]:
    """Return all arrays of the newest checkpoint, which must belong to `update`."""
    newest = checkpoints.saved(run / "checkpoints")[-1]
    assert newest.name == update
    return checkpoints.contents(newest)


def test_files_of_a_run(finished, capsys):
    config = json.loads((finished / "config.json").read_text())
    assert (config["id"], config["seed"], config["seeds"]) == ("Grid-Empty-Random-5x5-v0", 3, 2)
    assert config["settings"]["num_envs"] == 8 and config["versions"]["jax"] == jax.__version__
    rows = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    assert [row["update"] for row in rows] == [1, 2, 3, 4]
    assert [row["steps"] for row in rows] == [256, 512, 768, 1024]
    assert all(len(row["return"]) == 2 and row["entropy"][0] > 0 for row in rows)
    result = json.loads((finished / "eval.json").read_text())
    assert result["episodes"] == 16 and [x["seed"] for x in result["per_seed"]] == [3, 4]
    assert (finished / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in sorted((finished / "checkpoints").iterdir())] == [
        "00000002",
        "00000004",
    ]


def test_the_policy_of_a_run(finished):
    policy = runs.load_policy(finished, seed=1)
    assert policy.env_id == "Grid-Empty-Random-5x5-v0"
    assert policy.env == jaxenvs.make(policy.env_id)
    logits, value = jax.jit(policy.apply)(policy.env.reset(jax.random.key(0)).obs)
    assert logits.shape == (7,) and value.shape == ()
    with pytest.raises(runs.RunError, match="has 2 seeds: give one of 0 to 1"):
        runs.load_policy(finished, seed=2)


def test_resuming_is_bit_equal(finished, tmp_path, capsys):
    again = tmp_path / "again"
    shutil.copytree(finished, again)
    shutil.rmtree(again / "checkpoints" / "00000004")
    (again / "eval.json").unlink()
    assert main(["--resume", str(again), "--eval-episodes", "16"]) == 0
    jax.tree.map(
        np.testing.assert_array_equal, contents(finished, "00000004"), contents(again, "00000004")
    )
    like = [
        {k: v for k, v in row.items() if k not in ("seconds", "steps_per_second")}
        for run in (finished, again)
        for row in runs.Run.open(run).records()
    ]
    assert like[:4] == like[4:]
    assert (again / "eval.json").read_text() == (finished / "eval.json").read_text()


@pytest.mark.full
def test_a_replay_is_written_where_asked_for(finished, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(replay, "of_policy", functools.partial(replay.of_policy, count=40))
    again = tmp_path / "again"
    shutil.copytree(finished, again)
    assert main(["--resume", str(again), "--html", "--eval-episodes", "16"]) == 0
    said = capsys.readouterr().out
    assert f"episodes: {again / 'replay.html'}" in said and "v0: evaluating ...\n" in said
    assert '"player":"policy, sampled"' in (again / "replay.html").read_text("utf-8")
    with pytest.raises(runs.RunError, match=r"davi in Puzzle-Cube-2x2-v0 learns none: omit --html"):
        options.parse(["Puzzle-Cube-2x2-v0", "--html"], "davi")


def test_a_damaged_newest_checkpoint_is_trained_again(finished, tmp_path, capsys):
    again = tmp_path / "again"
    shutil.copytree(finished, again)
    next((again / "checkpoints" / "00000004").rglob("_METADATA")).write_text("{")
    assert main(["--resume", str(again), "--eval-episodes", "16"]) == 0
    assert "00000004 is damaged" in capsys.readouterr().err
    jax.tree.map(
        np.testing.assert_array_equal, contents(finished, "00000004"), contents(again, "00000004")
    )


@pytest.mark.full
def test_the_total_may_be_raised(finished, tmp_path, capsys):
    longer = tmp_path / "longer"
    shutil.copytree(finished, longer)
    more = ["--resume", str(longer), *total(5), "--eval-episodes", "16"]
    assert main(more) == 2
    assert "has finished and its learning rate has fallen to 0" in capsys.readouterr().err
    assert main([*more, "--learning-rate", "1e-4"]) == 0
    assert [row["update"] for row in runs.Run.open(longer).records()] == [1, 2, 3, 4, 5]
    kept = runs.Run.open(longer).config.settings
    assert (kept["total_steps"], kept["plans"], kept["rate_since"]) == (5 * 256, ((4, 4),), 4)
    assert main(["--resume", str(longer), *total(3)]) == 2
    assert "has already made 1,280 steps; give more --total-steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ["Grid-DoorKey-5x5-v0"],
            "was trained with id Grid-Empty-Random-5x5-v0 and cannot continue",
        ),
        (
            ["--gamma", "0.5"],
            "was trained with --gamma 0.99 and cannot continue with 0.5; omit it",
        ),
        (["--seeds", "3"], "was trained with --seeds 2 and cannot continue with 3"),
        (
            ["--set", "view_size=5"],
            "was trained with --set {} and cannot continue with {'view_size': 5}",
        ),
        (["--out", "elsewhere"], "omit --out"),
        (["--overwrite"], "omit --overwrite"),
    ],
)
def test_a_run_does_not_go_on_as_another(finished, capsys, flags, words):
    before = (finished / "config.json").read_text()
    assert main(["--resume", str(finished), *flags]) == 2
    assert words in capsys.readouterr().err
    assert (finished / "config.json").read_text() == before


def test_a_checkpoint_of_another_run_is_refused(finished, tmp_path, capsys):
    mixed = tmp_path / "mixed"
    shutil.copytree(finished, mixed)
    config = json.loads((mixed / "config.json").read_text()) | {"id": "Grid-Empty-6x6-v0"}
    (mixed / "config.json").write_text(json.dumps(config))
    assert main(["--resume", str(mixed)]) == 2
    words = "a checkpoint of Grid-Empty-Random-5x5-v0, but this run is of Grid-Empty-6x6-v0; put it"
    assert words in capsys.readouterr().err
    with pytest.raises(runs.RunError, match="back into its own run"):
        runs.load_policy(mixed)
    config["id"] = "Grid-Emty-6x6-v0"
    (mixed / "config.json").write_text(json.dumps(config))
    with pytest.raises(runs.RunError, match="did you mean 'Grid-Empty-6x6-v0'"):
        runs.load_policy(mixed)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "which environment? Give an id"),
        (["Grid-DoorKey-5x5"], "use 'Grid-DoorKey-5x5-v0'"),
        (["Grid-v0", "--set", "view_sise=5"], "did you mean 'view_size'"),
        (["Grid-v0", "--set", "view_size=4"], "must be odd"),
        (["Grid-v0", "--set", "view_size"], "--set view_size: write NAME=VALUE"),
        (["Grid-v0", "--reset-source", "pol"], "did you mean 'pool'"),
        (["Grid-v0", "--minibatches", "7"], "choose a divisor"),
        (["Grid-v0", "--hidden", "8", "0"], "hidden=(8, 0) must each be at least 1; widths"),
        (["Grid-v0", "--seeds", "0"], "--seeds 0 must be at least 1"),
        (["Grid-v0", "--eval-every", "0"], "--eval-every 0 must be at least 1"),
        (["Grid-v0", "--video-every", "-2"], "--video-every -2 must be at least 1"),
        (["Grid-v0", "--log", "csv,tensorbord"], "did you mean 'tensorboard'?"),
        (["Grid-v0", "--log", "csv,wan"], "there is no 'wan'; give csv, tensorboard, wandb"),
        (["Grid-v0", "--seed", "-1"], "--seed -1 must be from 0 to 2147483647"),
        (["Grid-v0", "--seed", "2147483648"], "--seed 2147483648 must be from 0 to 2147483647"),
        (
            ["Grid-v0", "--seed", "2147483647", "--seeds", "2"],
            "--seed 2147483647 with --seeds 2 must be from 0 to 2147483646",
        ),
        (["Grid-v0", "--checkpoint-seconds", "-1"], "--checkpoint-seconds -1 must be at least 0"),
        (["--resume", "nowhere"], "nowhere is not a run"),
    ],
)
def test_bad_input_gets_a_sentence(tmp_path, monkeypatch, capsys, argv, words):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    captured = capsys.readouterr().err
    assert words in captured and len(captured.splitlines()) == 1
    assert not list(tmp_path.iterdir())  # no run has been started


def test_an_existing_run_is_not_replaced_by_accident(finished, capsys):
    assert main(["Grid-v0", "--out", str(finished)]) == 2
    assert "replace it with --overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(("argv", "code"), [(["--help"], 0), (["Grid-v0", "--no-such-flag"], 2)])
def test_help_and_unknown_flags_return(capsys, argv, code):
    assert main(argv) == code


def test_help_groups_settings_by_the_class_that_declares_them(capsys):
    assert main(["--algo", "dqn", "--help"]) == 0
    said = capsys.readouterr().out
    _, *groups = re.split(r"^\W*(\w+) options\W*$", said, flags=re.MULTILINE)
    shown = dict(zip(groups[::2], groups[1::2], strict=True))
    assert list(shown) == [
        "run",
        "common",
        "buffer",
        "exploration",
        "replay",
        "skipforced",
        "qlearning",
        "dqn",
        "saving",
        "machine",
    ]
    assert "--num-envs" in shown["common"] and "--epsilon-start" in shown["exploration"]
    assert "--capacity" in shown["buffer"]
    assert "None)" not in said


@pytest.mark.full
def test_ctrl_c_saves_and_says_how_to_go_on(finished, tmp_path):
    """Stop a run in a separate process with SIGINT: it must save, and say how to resume."""
    out = tmp_path / "stopped"
    flags = [*FLAGS, *total(100_000), "--no-anneal", "--checkpoint-every", "1000000"]
    flags += ["--log", "csv"]
    process = _start(["Grid-Empty-Random-5x5-v0", *flags, "--out", str(out)])
    _wait_for(out / "log.jsonl", process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Ctrl-C again stops at once" in errors
    found = re.search(
        r"Saved after update (\d+); continue with: jaxenvs train --resume (\S+)", errors
    )
    assert found and found[2] == str(out) and int(found[1]) >= 1
    assert len(runs.Run.open(out).records()) == int(found[1])
    assert len((out / "log.csv").read_text().splitlines()) == 1 + int(found[1])
    runs.load_policy(out)


def record_calls(monkeypatch, owner, name: str, events: list[str], word: str) -> None:
    """Replace the function `owner.name` by one that appends `word` to `events`, then calls it."""
    real = getattr(owner, name)

    def noted(*arguments):
        events.append(word)
        return real(*arguments)

    monkeypatch.setattr(owner, name, noted)


def test_the_next_chunk_is_dispatched_before_metrics_are_read(finished, tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(loop, "_trace", lambda *_: None)  # `_trace` would also call `run_chunk`
    record_calls(monkeypatch, loop, "run_chunk", events, "run")
    record_calls(monkeypatch, progress.ProgressLine, "update", events, "tell")
    record_calls(monkeypatch, keeping, "draw", events, "draw")
    record_calls(monkeypatch, runs.Run, "records", events, "read the log")
    flags = [*FLAGS, *total(4), "--checkpoint-every", "9", "--out", str(tmp_path / "run")]
    assert main(["Grid-Empty-Random-5x5-v0", *flags]) == 0
    chunks = ["run", *("run", "tell") * 3, "tell"]
    assert events == [*chunks, "read the log", "draw"]
    rows = [runs.Run.open(run).records() for run in (finished, tmp_path / "run")]
    assert [row["entropy"] for row in rows[0]] == [row["entropy"] for row in rows[1]]


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    """Updates continue while a thread writes a checkpoint.

    A checkpoint begins only after the previous one has been written.
    """
    dispatched, written = threading.Event(), []

    def run_chunk(*arguments):
        if written:  # training continues, although the checkpoint is not written yet
            dispatched.set()
        return real_chunk(*arguments)

    def write(path, *arguments):
        written.append(int(path.name.removeprefix(".saving-")))
        assert len(written) > 1 or dispatched.wait(60)
        return real_write(path, *arguments)

    real_chunk, real_write = loop.run_chunk, checkpoints.write
    monkeypatch.setattr(loop, "run_chunk", run_chunk)
    monkeypatch.setattr(checkpoints, "write", write)
    config = runs.Config("Grid-v0", {}, 0, 1, {})
    seconds = ["--checkpoint-seconds", "0", "--out", str(tmp_path / "run")]
    flags = FLAGS[: FLAGS.index("--checkpoint-every")] + FLAGS[FLAGS.index("--seeds") :]
    assert main(["Grid-Empty-Random-5x5-v0", *flags, *total(4), *seconds]) == 0
    assert written[0] == 1 and written[-1] == 4
    patient = keeping.Keeper(runs.Run(tmp_path, config), seconds=3600.0)
    assert not patient.is_due(0, 10**6)


def test_the_second_ctrl_c_stops_at_once():
    code = (
        "import time\n"
        "from jaxenvs.baselines.run.interrupt import Interrupt\n"
        "with Interrupt('stopping soon') as stop:\n"
        "    print('ready', flush=True)\n"
        "    while True:\n"
        "        time.sleep(0.01)\n"
    )
    process = _start_code(["-c", code])
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "\n" and process.stderr.readline() == "stopping soon\n"
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def _start(argv: list[str]) -> subprocess.Popen:
    return _start_code(["-m", "jaxenvs.baselines.run.train", *argv])


def _start_code(arguments: list[str]) -> subprocess.Popen:
    cache = jax.config.jax_compilation_cache_dir or ""
    env = os.environ | {"JAX_COMPILATION_CACHE_DIR": cache}
    command = [sys.executable, "-W", "error", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)


def _wait_for(file, process: subprocess.Popen, seconds: float = 240.0) -> None:
    limit = time.monotonic() + seconds
    while not file.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < limit, "no update was made in time"
        time.sleep(0.1)


@pytest.mark.full
def test_an_agent_learns_to_cross_a_room(tmp_path):
    out = tmp_path / "empty"
    flags = ["--total-steps", "49152", "--num-envs", "32", "--rollout-steps", "64"]
    flags += ["--minibatches", "4", "--learning-rate", "1e-3", "--hidden", "64", "--embed", "4"]
    assert main(["Grid-Empty-5x5-v0", *flags, "--out", str(out)]) == 0
    assert json.loads((out / "eval.json").read_text())["mean_return"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id", "least"),
    [
        ("Grid-DoorKey-5x5-v0", 0.93),
        ("Grid-LavaGapS5-v0", 0.93),
        ("Grid-Empty-8x8-v0", 0.93),
        ("Grid-MultiRoom-N2-S4-v0", 0.8),
        ("BabyAI-GoToRedBallGrey-v0", 0.87),
    ],
)
def test_presets_reach_what_the_tables_say(tmp_path, id, least):
    assert main([id, "--out", str(tmp_path / "run")]) == 0
    assert json.loads((tmp_path / "run" / "eval.json").read_text())["mean_return"] > least


def test_every_preset_is_of_some_id():
    ids = jaxenvs.registry.list()
    for row in presets.PRESETS:
        assert any(re.fullmatch(row.ids, id) for id in ids), row.ids


@pytest.mark.parametrize("family", jaxenvs.registry.families())
def test_presets_work(family):
    for id in jaxenvs.registry.list(family):
        _works(id)
        if "gpu" in presets.names(id):
            _works(id, "gpu")


def test_presets_of_craft_with_names_work():
    for id in jaxenvs.registry.list("Craft"):
        assert presets.names(id) == [None, "gpu"]
        _works(id, "gpu")


@pytest.mark.slow
def test_a_billion_steps_of_craft_are_ready_to_run(tmp_path):
    argv = ["Craft-Classic-Ids-v0", "--preset", "gpu", "--entropy", "0.02"]
    asked, _, learner = options.prepare([*argv, "--out", str(tmp_path / "run")])
    settings = learner.settings
    assert settings.total_steps == 10**9 and settings.num_envs >= 1024 and settings.entropy == 0.02
    assert options.config(asked).settings["chunk"] == 16
    keys = jax.random.split(jax.random.key(0), 1)
    runners = jax.eval_shape(functools.partial(loop.start, learner), keys)
    after, _ = jax.eval_shape(functools.partial(loop.run_chunk, learner), runners)
    assert jax.tree.map(_described, after) == jax.tree.map(_described, runners)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["Craft-Classic-Ids-v0", "--preset", "tpu"], "Craft-Classic-Ids-v0 has gpu"),
        (["Classic-CartPole-v0", "--preset", "gpu"], "Classic-CartPole-v0 has none"),
    ],
)
def test_a_preset_that_is_not_there_is_refused(tmp_path, capsys, argv, message):
    assert main([*argv, "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err


def _works(id: str, name: str | None = None) -> None:
    tuned = presets.preset(id, name)
    Settings(**tuned.settings).check()
    jaxenvs.make(id)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["Grid-DoorKey-5x5-v0"], {}),
        (["Grid-GoToDoor-5x5-v0"], {"obs": "dict"}),
        (["MiniGrid-LockedRoom-v0"], {"obs": "dict"}),
        # the observation stays `image`: with only one box in the room, the agent does not need the
        # mission
        (["Grid-UnlockPickup-v0"], {}),
        (["BabyAI-OpenDoor-v0"], {"obs": "dict"}),
        (["BabyAI-OpenDoor-v0", "--set", "view_size=5"], {"obs": "dict", "view_size": 5}),
        (["BabyAI-OpenDoor-v0", "--set", "obs=image"], {"obs": "image"}),
    ],
)
def test_missions_that_vary_are_read_unless_told_otherwise(argv, expected):
    asked = options.parse(argv)
    made = options.config(asked)
    assert made.fields == expected and made.env.obs == expected.get("obs", "image")
    # The default embedding is wider if the mission names an object.
    assert asked.settings.embed == (16 if expected else 8)


def test_every_learner_has_the_mission_by_default():
    asked = options.parse(["BabyAI-OpenDoor-v0"], "dqn")
    assert options.config(asked, "dqn").fields == {"obs": "dict"}


def test_fields_given_twice_and_apart_are_all_taken():
    argv = ["--set", "view_size=5", "Grid-v0", "--set", "obs=full", "see_through_walls=true"]
    asked = options.config(options.parse(argv))
    assert asked.fields == {"view_size": 5, "obs": "full", "see_through_walls": True}


def test_a_run_that_names_no_observation_goes_on_with_the_image(tmp_path):
    """If config.json has no `obs`, the run observes `image`, the default of older versions."""
    settings = dataclasses.asdict(Settings())
    config = runs.Config("Grid-GoToDoor-5x5-v0", fields={}, seed=0, seeds=1, settings=settings)
    run = runs.Run.create(tmp_path / "run", config)
    asked = options.parse(["--resume", str(run.path)])
    again = options.config(asked)
    assert again.fields == {} and again.env.obs == "image" and again.title == config.title


class Errand(Clock):
    """Environment with a mission in its only observation; it has no field `obs`."""

    @property
    def observation_space(self):
        """Return a Dict space of a word and the time."""
        return spaces.Dict(
            {"mission": spaces.Box(0, 3, (1,), np.uint8), "time": Clock().observation_space}
        )

    def observe(self, state, params=None):
        """Observe a constant word, and the time."""
        return {"mission": jnp.ones(1, jnp.uint8), "time": super().observe(state, params)}


def test_a_mission_without_a_choice_of_observations_is_trained_in(monkeypatch):
    monkeypatch.setattr(registry, "_specs", dict(registry._specs))
    registry.register("Errand-Shop-v0")(Errand)
    asked = options.parse(["Errand-Shop-v0"])
    config = options.config(asked)
    assert config.fields == config.env_fields == {} and config.env == Errand()


@pytest.mark.full
@pytest.mark.parametrize(
    "id",
    ["Grid-MultiRoom-N2-S4-v0", pytest.param("BabyAI-PickupLoc-v0", marks=pytest.mark.full)],
)
def test_levels_that_may_be_rejected_are_learned_in(tmp_path, id):
    asked = [id, *FLAGS, "--reset-source", "exact", "--out", str(tmp_path / "run")]
    _, run, learner = options.prepare(asked)
    keys = jax.random.split(jax.random.key(0), 2)
    runners = jax.eval_shape(functools.partial(loop.start, learner), keys)
    after, metrics = jax.eval_shape(functools.partial(loop.run_chunk, learner), runners)
    assert jax.tree.map(_described, after) == jax.tree.map(_described, runners)
    assert metrics["episodes"].shape == (2, 1) and "level_rejected" in _info(run.config.env)


def _described(leaf) -> tuple:
    return leaf.shape, leaf.dtype


def _info(env) -> dict:
    def step(key):
        return env.step(key, env.reset(key).state, 0)

    return jax.eval_shape(step, jax.random.key(0)).info


@pytest.mark.slow
def test_three_actions_and_a_mission(tmp_path, capsys):
    out = tmp_path / "run"
    asked = ["Grid-Dynamic-Obstacles-5x5-v0", "--set", "obs=dict", *FLAGS, *total(1)]
    assert main([*asked, "--out", str(out)]) == 0
    policy = runs.load_policy(out)
    logits, _ = jax.eval_shape(policy.apply, policy.env.observation_space.sample(jax.random.key(0)))
    assert logits.shape == (3,) and "mission" in policy.env.observation_space.spaces


def test_progress_shows_speed_return_and_time_left(capsys):
    config = runs.Config(id="Grid-v0", fields={}, seed=0, seeds=2, settings={})
    metrics = {
        "episodes": np.array([[2], [0]]),
        "return_sum": np.array([[1.0], [0.0]]),
        "length_sum": np.array([[30], [0]]),
        "entropy": np.array([[1.5], [1.25]]),
    }
    with progress.ProgressLine(config, 100, updates=3, done=0) as line:
        rows = [row for _ in range(3) for row in line.update(metrics)]
        line.show()
    text = capsys.readouterr().out
    assert re.search(r"600 of 600 steps   return 0.500   [\d,]+ steps/s   0:00 left", text)
    assert [row["steps"] for row in rows] == [100, 200, 300]
    assert rows[0]["return"] == [0.5, None] and rows[0]["length"] == [15.0, None]
    assert rows[0]["entropy"] == [1.5, 1.25] and rows[0]["steps_per_second"] is None
    json.dumps(rows)


def test_missing_packages_get_the_command_that_installs_them():
    with pytest.raises(ImportError, match="needs flaxx, .*" + re.escape(installation("train"))):
        require(["json", "flaxx"], "train")

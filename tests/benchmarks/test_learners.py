"""Tests of the benchmark that compares PPO learners with other libraries.

They test that the learners' processes train in turns, and the figures in the tables.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.benchmarks import learners
from jaxenvs.benchmarks.harness import instrument, trainings
from jaxenvs.benchmarks.peers import ppo as ppo_peers
from jaxenvs.benchmarks.peers.ppo import Setting
from jaxenvs.benchmarks.tables.training import compared, faster, scores, summed

SMALL = Setting("small", num_envs=2, rollout_steps=64, epochs=1, minibatches=2, steps=512)


def row(learner: str, seconds: list[float], steps: int = 1000) -> dict:
    setting = Setting("equal", 4, 128, 4, 4, steps=steps)
    scores = [90.0, 500.0, 310.0] if learner == "jaxenvs" else [None] * 3
    found = [{"last_return": last, "wall": 9.0} for last in (100.0, None, 300.0)]
    made = zip(found, scores, strict=True)
    trainings = [{**each, "evaluation": score} for each, score in made]
    trainings += trainings * len(seconds)
    times = [12.0, *seconds]
    figures = learners.row(
        learner,
        setting,
        [{**each, "seconds": s} for each, s in zip(trainings, times, strict=False)],
    )
    return figures | {"last_returns": [100.0, None, 300.0], "evaluations": scores}


class FakeLearner:
    """Stand-in for a learner's process, which records its calls."""

    trained: list[str]

    def __init__(self, label, command, asked):
        if label == "rejax":
            raise LookupError("No module named 'rejax'")
        self.label, self.trainings = label, []

    def train(self, seed):
        self.trained.append(self.label)
        seconds = 2.0 if self.label == "jaxenvs" else 4.0
        self.trainings.append(
            {"seconds": seconds, "wall": 9.0, "last_return": 20.0, "evaluation": 30.0}
        )

    def close(self):
        self.trained.append(f"{self.label} ends")


@pytest.fixture
def trained(monkeypatch):
    FakeLearner.trained = []
    monkeypatch.setattr(trainings, "Learner", FakeLearner)
    monkeypatch.setattr(instrument, "use_one_core", lambda: None)
    return FakeLearner.trained


def test_learners_train_in_turns_and_missing_ones_are_named(trained):
    missing = []
    group = dict.fromkeys(("jaxenvs", "purejaxrl", "rejax"), SMALL)
    rows = learners.measure(group, None, 2, missing)
    assert trained == ["jaxenvs", "purejaxrl"] * 3 + ["jaxenvs ends", "purejaxrl ends"]
    assert [row["seconds"] for row in rows] == [[2.0, 2.0], [4.0, 4.0]]
    assert rows[0]["walls"] == [9.0, 9.0]
    assert missing == [{"learner": "rejax", "reason": "No module named 'rejax'"}]


def test_processes_end_when_a_training_fails(trained, monkeypatch):
    monkeypatch.setattr(FakeLearner, "train", lambda self, seed: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learners.measure({"jaxenvs": SMALL}, None, 1, [])
    assert trained == ["jaxenvs ends"]


def test_the_command_writes_every_group(trained, tmp_path, capsys):
    file = tmp_path / "learners.json"
    assert learners.main(["--repeats", "2", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    rows = figures["rows"]
    assert len(rows) == 4 + 4 + 2
    assert {row["setting"]["name"] for row in rows} == {"4 x 128", "64 x 128", "own"}
    assert {row["setting"]["steps"] for row in rows if row["learner"] != learners.TORCH} == {
        500_000 // 512 * 512,
        500_000 // 8192 * 8192,
        500_000 // 1024 * 1024,
    }
    torch = [row["setting"]["steps"] for row in rows if row["learner"] == learners.TORCH]
    assert torch == [25_000 // 512 * 512, 25_000 // 8192 * 8192, 25_000 // 2048 * 2048]
    shown = capsys.readouterr()
    assert shown.out.count("  2.00  ") == 2 and "rejax: No module" in shown.err
    assert figures["versions"]["torch"] and figures["missing"]


def test_a_ratio_compares_neighbouring_turns():
    ours, theirs = row("jaxenvs", [1.0, 2.0, 10.0]), row("rejax", [2.0, 6.0, 40.0])
    assert faster(ours, theirs) == 3.0
    shorter = row("rejax", [2.0, 6.0, 40.0], steps=500)
    assert faster(ours, shorter) == 6.0
    assert ours["compile_seconds"] == 10.0
    assert (ours["steps_per_second"], ours["first_steps_per_second"]) == (500, 83)


def test_the_table_compares_within_a_group():
    rows = [row("jaxenvs", [1.0]), row("rejax", [2.0])]
    lines = str(compared(rows)).splitlines()
    assert lines[2] == "| equal | jaxenvs | 1,000 |  | 11.0 | 83 | 100, 300 |"
    assert lines[3] == "| equal | rejax | 500 | 2.00 | 10.0 | 83 | 100, 300 |"
    assert len({line.count("|") for line in lines}) == 1


def test_speed_and_evaluations_share_a_row():
    more = {"walls": [3.0, 1.0, 2.0], "evaluations": [90.0, 500.0, 310.0]}
    rows = [row("jaxenvs", [1.0]) | more, row("rejax", [2.0]) | more]
    lines = str(summed(rows)).splitlines()
    # Mean, margin, median, minimum. The margin is 1.96 * 205.2 (standard deviation) / sqrt(3).
    scores = "300.0 | 232.2 | 310.0 | 90.0 |"
    assert lines[2] == f"| equal | jaxenvs | 3 | 2.0 | 1.0 | 1,000 |  | 11.0 | {scores}"
    assert lines[3] == f"| equal | rejax | 3 | 2.0 | 2.0 | 500 | 2.00 | 10.0 | {scores}"


def test_scores_show_all_seeds_of_evaluated_learners():
    rows = [row("jaxenvs", [1.0]), row("rejax", [2.0])]
    lines = str(scores(rows)).splitlines()
    assert lines[2:] == ["| jaxenvs | equal | 3 | 300.0 | 232.2 | 310.0 | 90.0 | 90, 500, 310 |"]
    assert len({line.count("|") for line in lines}) == 1


def test_one_group_may_be_chosen(trained, tmp_path):
    file = tmp_path / "learners.json"
    words = ["--settings", "4 x 128", "--learners", "jaxenvs", "purejaxrl", "--repeats", "1"]
    assert learners.main([*words, "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert [(row["learner"], row["setting"]["name"]) for row in rows] == [
        ("jaxenvs", "4 x 128"),
        ("purejaxrl", "4 x 128"),
    ]


def test_a_training_is_timed():
    trainer = ppo_peers.Trainer(lambda seed: (100.0 + seed, None))
    made = [ppo_peers.train(trainer, seed) for seed in (3, 4)]
    assert all(each["seconds"] >= 0 and each["wall"] > 0 for each in made)
    assert [each["last_return"] for each in made] == [103, 104]
    # This learner returns no logits, so it is not evaluated.
    assert [each["evaluation"] for each in made] == [None, None]


@pytest.mark.slow
def test_ours_trains_in_a_separate_process():
    (row,) = learners.measure({"jaxenvs, shared": SMALL}, None, 1, [])
    # Only the first training run includes compilation.
    assert 0 < row["seconds"][0] < min(row["walls"][0] * 1.1, row["first_seconds"])
    assert 5 < row["last_returns"][1] < 100 and 5 < row["evaluations"][1] < 100
    assert len(row["evaluations"]) == 2


def test_a_learner_that_is_missing_or_dies_at_the_start_is_named(monkeypatch):
    missing = []
    assert learners.measure({"purejaxrl": SMALL}, None, 1, missing) == []
    monkeypatch.setattr(learners, "COMMAND", (sys.executable, "-c", "import sys; sys.exit(3)"))
    assert learners.measure({"jaxenvs": SMALL}, None, 1, missing) == []
    assert "a clone of" in missing[0]["reason"] and "process ended" in missing[1]["reason"]


def test_settings_have_the_names_of_each_library():
    found = [ppo_peers.renamed(SMALL, library) for library in range(3)]
    assert found[0]["CLIP_EPS"] == found[1]["clip_eps"] == found[2]["clip_range"] == SMALL.clip
    assert [len(names) for names in found] == [12, 12, 8]


def test_a_clone_is_required_and_checked(tmp_path):
    with pytest.raises(LookupError, match="give --purejaxrl PATH"):
        ppo_peers.trainer("purejaxrl", SMALL, None)
    with pytest.raises(LookupError, match=r"has no purejaxrl/ppo\.py; clone"):
        ppo_peers.trainer("purejaxrl", SMALL, tmp_path)


def test_an_evaluation_plays_our_cart_pole():
    """Evaluate a policy that pushes the cart towards the side to which the pole falls.

    The policy's only weight multiplies the logits. With weight 0, both actions are equally likely.
    """

    def logits(weights, obs):
        lean = weights * (obs[:, 2] + 0.5 * obs[:, 3])
        return jnp.stack([-lean, lean], axis=1)

    evaluate = ppo_peers.evaluated(logits)
    assert evaluate(jnp.float32(50.0), 0) > 150 > 30 > evaluate(jnp.float32(0.0), 0) > 15
    assert evaluate(jnp.float32(0.0), 0) != evaluate(jnp.float32(0.0), 1)


def test_missing_packages_that_are_not_needed_can_be_imported():
    ppo_peers.stand_in("no_such_package", "no_such_package.part")
    scope = {}
    try:
        exec("from no_such_package import part", scope)
        exec("from no_such_package.part import Anything as thing", scope)
    finally:
        del sys.modules["no_such_package"], sys.modules["no_such_package.part"]
    assert scope["thing"] is None
    ppo_peers.stand_in("json")
    assert sys.modules["json"] is json


def test_chunks_divide_the_updates():
    assert ppo_peers.chunk_of(SMALL) == 4
    assert ppo_peers.chunk_of(Setting("", 64, 128, 4, 8, steps=60 * 8192)) == 4
    assert ppo_peers.chunk_of(Setting("", 4, 128, 4, 4, steps=976 * 512)) == 61


def test_the_last_return_is_the_mean_of_the_last_episodes():
    counts = np.array([50, 0, 15, 10])
    returns = np.array([50.0, 0.0, 150.0, 300.0])
    assert ppo_peers.last_mean(returns, counts) == 450 / 25
    assert ppo_peers.last_mean(np.array([6.0]), np.array([2])) == 3
    assert ppo_peers.last_mean(np.zeros(3), np.zeros(3, int)) is None


def test_separate_networks_share_no_weights():
    env = jaxenvs.make(ppo_peers.ID)
    network = ppo_peers.two_networks(env)
    one = jnp.ones(4, jnp.float32)
    shapes = jax.eval_shape(network.init, jax.random.key(0), one)
    weights = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.1, leaf.dtype), shapes)
    logits = network.apply(weights, one)[0]
    assert logits.shape == (2,)
    gradient = jax.grad(lambda weights: network.apply(weights, one)[1])(weights)
    used = [bool(jnp.any(leaf != 0)) for leaf in jax.tree.leaves(gradient)]
    # Half of the weight arrays belong to the critic. Only these have a nonzero gradient of the
    # value.
    assert sum(used) == len(used) / 2 == 6


@pytest.mark.parametrize("flag", ["--steps", "--torch-steps", "--repeats"])
def test_numbers_below_one_are_rejected(flag, capsys):
    with pytest.raises(SystemExit):
        learners.main([flag, "0"])
    assert f"argument {flag}: '0' must be a whole number" in capsys.readouterr().err

"""Tests of `jaxenvs compare`: statistics as in rliable, input, output and errors."""

import importlib
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from jaxenvs import cli
from jaxenvs.baselines.core import statistics
from jaxenvs.baselines.evaluation import compare

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(1.0, 1.0, (7, 3)).round(1)  # scores (runs, tasks), some of which are equal
Y = RANDOM.normal(1.3, 1.0, (5, 3)).round(1)
STATISTICS = {
    "aggregate_iqm": statistics.interquartile_mean,
    "aggregate_mean": statistics.mean,
    "aggregate_median": statistics.median,
}


@pytest.fixture(scope="module")
def rliable():
    """Return the package rliable, imported with a stand-in for its dependency `arch`.

    Only rliable's bootstrap, which these tests do not use, needs `arch`.
    """
    metrics = pytest.importorskip("rliable.metrics")
    bootstrap = types.ModuleType("arch.bootstrap")
    bootstrap.__getattr__ = lambda name: object  # type: ignore[attr-defined]  # base classes
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "arch", types.ModuleType("arch"))
        patch.setitem(sys.modules, "arch.bootstrap", bootstrap)
        library = importlib.import_module("rliable.library")
    return metrics, library


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("runs", range(1, 8))
def test_aggregates_are_rliable_s(rliable, name, runs):
    expected = getattr(rliable[0], name)(X[:runs])
    np.testing.assert_allclose(STATISTICS[name](list(X[:runs].T)), expected, rtol=1e-12)


def test_improvement_and_profiles_are_rliable_s(rliable):
    metrics, library = rliable
    for one, other in ((X, Y), (Y, X), (X, X)):
        expected = metrics.probability_of_improvement(one, other)
        np.testing.assert_allclose(statistics.improvement(list(one.T), list(other.T)), expected)
    thresholds = np.array([-1.0, 0.5, X[0, 0], 3.0])
    shares = library.score_distributions(X, thresholds)
    np.testing.assert_allclose(statistics.profile(list(X.T), thresholds), shares)


def test_intervals_contain_the_truth_as_often_as_they_say():
    # In each trial, the scores of 40 runs are drawn from a normal distribution with mean 0. The
    # percentile interval for 95 % is a little too narrow for 40 runs: in theory, it contains the
    # true mean 0 in about 94 % of the trials.
    random = np.random.default_rng(0)
    hits = 0
    for trial in range(300):
        scores = [random.normal(0, 1, 20), random.normal(0, 1, 20)]
        low, high = statistics.interval(
            statistics.interquartile_mean, scores, resamples=300, seed=trial
        )
        hits += low <= 0 <= high
    assert 0.88 < hits / 300 < 0.985


def test_a_resample_keeps_the_runs_of_each_task():
    # All runs of a task have equal scores, and the bootstrap resamples the runs of each task
    # separately. The mean over tasks is therefore 0.5 in every resample.
    scores = [np.zeros(4), np.ones(4)]
    assert statistics.interval(statistics.mean, scores).tolist() == [0.5, 0.5]
    low, high = statistics.interval(statistics.improvement, scores, [np.ones(3), np.zeros(2)])
    assert (low, high) == (0.5, 0.5)


FACTS = {"actions": "sampled", "search": False, "simulations": 0, "observation": "image"}


def run(
    folder,
    scores,
    algorithm="ppo",
    id="Grid-Empty-5x5-v0",
    first=0,
    fields=None,
    facts=FACTS,
    **settings,
):
    """Write the files of a run that `compare` reads; return the path of the run's folder.

    `facts` describe the evaluated policy; for runs of older versions they are None.
    """
    folder.mkdir(parents=True)
    config = {"id": id, "seed": first, "seeds": len(scores), "settings": settings}
    config["fields"] = fields or {}
    versions = {"jaxenvs": "0"}
    (folder / "config.json").write_text(
        json.dumps({**config, "algorithm": algorithm, "format": 1, "versions": versions})
    )
    seeds = [
        {"seed": first + i, "mean_return": score, "success_rate": None, "mean_length": 9.0}
        for i, score in enumerate(scores)
    ]
    stated = {} if facts is None else {"policy": facts}
    (folder / "eval.json").write_text(json.dumps({**stated, "per_seed": seeds}))
    return str(folder)


def test_runs_of_a_method_are_pooled_and_compared(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # the table's cells would wrap in a narrower terminal
    low = run(tmp_path / "low", [0.1, 0.2, 0.3])
    more = run(tmp_path / "more", [0.4, 0.2], first=3)
    high = run(tmp_path / "high", [0.5, 0.6, 0.7, 0.8], "pqn")
    drawn, written = tmp_path / "a.png", tmp_path / "a.json"
    argv = ["compare", low, more, f"best={high}", "--plot", str(drawn), "--json", str(written)]
    assert cli.main(argv) == 0
    out = capsys.readouterr().out
    first, second = out.splitlines()[1:3]
    assert first.split()[1:4] == ["ppo", "5", "0.233"] and second.split()[1:4] == [
        "best",
        "4",
        "0.650",
    ]
    assert "P(ppo > best) = 0.00 (95 %: 0.00 to 0.00)" in out
    assert "With 4 of at least 5 runs an interval means little." in out
    assert drawn.read_bytes().startswith(b"\x89PNG")
    known = json.loads(written.read_text())
    assert known["methods"]["ppo"]["scores"] == [[0.1, 0.2, 0.3, 0.4, 0.2]]
    assert [pair["probability"] for pair in known["improvement"]] == [0.0, 1.0]


def logged(path, **measures):
    """Write a log of 20 updates; a measure is 0 in all of them but the last two. Return `path`."""
    seeds = len(next(iter(measures.values())))
    with (Path(path) / "log.jsonl").open("w") as file:
        for update in range(1, 21):
            means = {name: x if update > 18 else [0.0] * len(x) for name, x in measures.items()}
            # the first seed ends three times as many episodes as the second
            record = {"update": update, "steps": 100 * update, "episodes": [6, 2, 0][:seeds]}
            file.write(json.dumps({**record, **means}) + "\n")
    return path


ROCKY = {"achieved/find_rock": [0.5, 0.1, None], "died/drink": [0.0, 0.0, None]}


def test_measures_of_runs_are_compared(tmp_path, capsys, monkeypatch):
    """Means are over the episodes of the last tenth; rows that are 0 everywhere are counted."""
    monkeypatch.setenv("COLUMNS", "200")
    one = logged(run(tmp_path / "one", [0.1, 0.2, 0.3]), **ROCKY, explained_variance=[0.5, 0.7, 0])
    two = logged(run(tmp_path / "two", [0.2], "pqn"), **{"achieved/find_sea": [1.0]})
    older = run(tmp_path / "older", [0.2], "dqn")
    drawn, written = tmp_path / "a.png", tmp_path / "a.json"
    argv = ["compare", one, two, older, "--achievements", str(drawn), "--json", str(written)]
    assert cli.main(argv) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.partition("last tenth")[2].splitlines()[1:5]]
    assert rows == [
        ["measure", "ppo", "pqn", "dqn"],
        ["achieved/find_sea", "-", "100.0%", "-"],
        ["achieved/find_rock", "40.0%", "-", "-"],
        ["explained_variance", "0.400", "-", "-"],
    ]
    assert "1 more measure is 0 for all methods." in out
    known = json.loads(written.read_text())["methods"]
    assert known["dqn"]["measures"] == [{}] and known["pqn"]["measures"][0] == {
        "achieved/find_sea": 1.0
    }
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_achievements_that_cannot_be_drawn_are_refused(tmp_path, capsys):
    one = logged(run(tmp_path / "one", [0.1, 0.2]), **{"achieved/find_sea": [0.0, 0.0]})
    other = run(tmp_path / "other", [0.1], id="Grid-Empty-8x8-v0")
    for runs, file, says in (
        ([one], "a.txt", "must end in .png, .svg or .pdf"),
        ([one], "a.png", "have no achievement"),
        ([one, other], "a.png", "draws one environment, and the runs have 2"),
    ):
        assert cli.main(["compare", *runs, "--achievements", str(tmp_path / file)]) == 2
        assert says in capsys.readouterr().err


def test_nothing_is_written_before_a_picture_is_refused(tmp_path, capsys):
    one, file = logged(run(tmp_path / "one", [0.1]), **{"achieved/x": [1.0]}), tmp_path / "a.json"
    argv = ["compare", one, "--json", str(file), "--achievements", str(tmp_path / "a.txt")]
    assert cli.main(argv) == 2 and not file.exists()
    assert "--achievements" in capsys.readouterr().err


def test_runs_without_measures_of_episodes_have_no_table(tmp_path, capsys):
    assert (
        cli.main(["compare", logged(run(tmp_path / "one", [0.1]), explained_variance=[0.5])]) == 0
    )
    assert "last tenth" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"episodes": None}, "record 20 of the log has episodes=None; a list of numbers"),
        ({"achieved/x": 0.5}, "record 20 of the log has achieved/x=0.5; a list of numbers"),
        ({"achieved/x": ["0.5"]}, "record 20 of the log has achieved/x=['0.5']; a list of numbers"),
        ({"steps": None}, "record 20 of the log has steps=None; an integer is needed"),
    ],
)
def test_a_log_of_another_form_is_named(tmp_path, capsys, changed, says):
    one = logged(run(tmp_path / "one", [0.1]), **{"achieved/x": [1.0]})
    log = Path(one) / "log.jsonl"
    *lines, last = log.read_text().splitlines()
    log.write_text("\n".join([*lines, json.dumps({**json.loads(last), **changed})]) + "\n")
    assert cli.main(["compare", one]) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_policies_are_stated_and_of_one_kind_in_a_method(tmp_path, capsys):
    sampled = run(tmp_path / "sampled", [0.1, 0.2])
    greedy = run(tmp_path / "greedy", [0.3], first=2, facts={**FACTS, "actions": "greedy"})
    older = run(tmp_path / "older", [0.4], "pqn", facts=None)
    assert cli.main(["compare", sampled, greedy]) == 2
    said = capsys.readouterr().err
    assert "were evaluated by different policies (actions sampled, no search, " in said
    file = tmp_path / "all.json"
    assert cli.main(["compare", sampled, f"best={greedy}", older, "--json", str(file)]) == 0
    said, known = capsys.readouterr().out, json.loads(file.read_text())["methods"]
    stated = "actions greedy, no search, observation image"
    assert f"best: {stated}" in said and known["best"]["policies"] == [stated]
    assert "pqn: not stated (by an older version)" in said


def test_normalised_scores_are_random_play_at_0_and_the_best_method_at_1(tmp_path):
    random = compare.reference()["random"]
    paths = []
    for id, best in (("Grid-Empty-5x5-v0", 0.9), ("Puzzle-2048-v0", 5000.0)):
        half = (best + random[id]["return"]) / 2
        paths += [
            run(tmp_path / id / "a", [best], "ppo", id),
            run(tmp_path / id / "b", [half], "pqn", id),
        ]
    found = compare.comparison(paths, normalize=True)
    assert [float(task[0]) for task in found.methods["ppo"]] == pytest.approx([1, 1])
    assert [float(task[0]) for task in found.methods["pqn"]] == pytest.approx([0.5, 0.5])
    assert "all tasks" in compare.summary(found)


def test_random_play_is_the_same_whatever_is_shown(tmp_path, capsys):
    id = "BabyAI-GoToRedBallGrey-v0"
    words = run(tmp_path / "words", [0.9], id=id, fields={"obs": "dict"})
    assert compare.comparison([words], normalize=True).methods["ppo"][0].tolist() == [1.0]
    near = run(tmp_path / "near", [0.9], id=id, fields={"see_through_walls": True})
    assert "no random play" in refused([near, "--normalize"], capsys)


def refused(argv, capsys) -> str:
    """Return the message with which a comparison is refused."""
    assert cli.main(["compare", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


def test_what_cannot_be_compared_is_said_in_a_sentence(tmp_path, capsys):
    one, two = run(tmp_path / "one", [0.1]), run(tmp_path / "two", [0.2], first=1, clip=0.1)
    again = run(tmp_path / "again", [0.2])
    other = run(tmp_path / "other", [0.2], "pqn", "Grid-Empty-8x8-v0")
    assert f"name their methods: NAME={one} OTHER={two}" in refused([one, two], capsys)
    assert "have the same seed 0 of one method and task" in refused([one, again], capsys)
    assert "ppo has no run in Grid-Empty-8x8-v0" in refused([one, other], capsys)
    assert "use --score return" in refused([one, "--score", "success"], capsys)
    assert "leave it out with --score length" in refused(
        [one, "--score", "length", "--normalize"], capsys
    )
    assert "must be RUN or NAME=RUN" in refused([f"={one}"], capsys)
    assert "is not a run" in refused([str(tmp_path / "none")], capsys)
    assert "no method beats random play" in refused(
        [run(tmp_path / "bad", [-9.0]), "--normalize"], capsys
    )
    assert "is not a run" in refused(["x" * 5000], capsys)
    for score, seed in (
        ("[1, 2]", "0"),
        (f"1{'0' * 400}", "0"),
        ("NaN", "0"),
        ('null}, {"mean_return": 1', "0"),
        ("[" * 10000 + "]" * 10000, "0"),
        ("1", "Infinity"),
    ):
        damaged = f'{{"per_seed": [{{"mean_return": {score}, "seed": {seed}}}]}}'
        (tmp_path / "one" / "eval.json").write_text(damaged)
        assert "is no evaluation of a policy" in refused([one], capsys)
    (tmp_path / "one" / "eval.json").unlink()
    assert f"finish it with jaxenvs train --resume {one}" in refused([one], capsys)


def test_a_plot_that_cannot_be_drawn_is_refused(tmp_path, capsys):
    one = run(tmp_path / "one", [0.1, 0.2])
    (tmp_path / "one.png").mkdir()
    for file, says in (
        ("a.txt", "must end in .png, .svg or .pdf"),
        ("no/a.png", "no folder "),
        ("one.png", "one.png' is a folder; name a file"),
    ):
        assert cli.main(["compare", one, "--plot", str(tmp_path / file)]) == 2
        assert says in capsys.readouterr().err


def test_two_options_cannot_name_one_file(tmp_path, capsys):
    one, file = run(tmp_path / "one", [0.1, 0.2]), str(tmp_path / "a.svg")
    assert cli.main(["compare", one, "--plot", file, "--json", file]) == 2
    assert f"--json and --plot both name {file}; give two files" in capsys.readouterr().err
    assert not (tmp_path / "a.svg").exists()


def test_a_name_that_looks_like_a_formula_is_drawn_as_it_is(tmp_path):
    one, file = run(tmp_path / "one", [0.1, 0.2]), tmp_path / "a.svg"
    assert cli.main(["compare", rf"$\frac$={one}", "--plot", str(file)]) == 0
    assert r"$\frac$" in file.read_text()

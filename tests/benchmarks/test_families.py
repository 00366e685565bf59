"""Tests of the benchmark that counts the GPU kernels of a step, for each environment class.

They test its table, the cost of a new level, and the limits on kernels and bytes of state.

Tests that compile for a GPU need the CUDA compiler (see test_gpu_work).
"""

import json

import jax
import pytest

import jaxenvs
from jaxenvs.benchmarks import families, gpu_work, resets
from jaxenvs.benchmarks.harness import contestants
from jaxenvs.benchmarks.tables.families import counted
from jaxenvs.core import spaces

needs_compiler = pytest.mark.skipif(
    not gpu_work.has_compiler(), reason='needs pip install "jax[cuda13]" (no GPU)'
)


def row(env_id: str, kernels: int, state: float) -> dict:
    work = dict.fromkeys(families.KEPT, 0.0) | {"kernels": kernels, "state": state}
    world = {"step_ns": 1.0, "candidate_ns": 3.0, "candidates": 2.0, "world_steps": 6.0}
    sources = {"pool": work, "exact": work | {"kernels": 99, "kernels_per_trip": 7}}
    return {"id": env_id, "default": "exact", "work": sources, "world": world}


def test_all_and_families_expand_to_ids():
    assert contestants.chosen(["families"]) == jaxenvs.registry.representatives()
    assert contestants.chosen(["all"]) == jaxenvs.registry.list()
    assert contestants.chosen(["Grid-v0", "all"]) == ["Grid-v0", "all"]


def test_fresh_is_counted_only_where_levels_are_cheap():
    assert families.sources("Grid-DoorKey-8x8-v0") == ("fresh", "pool", "exact")
    assert families.sources("BabyAI-GoTo-v0") == ("pool", "exact")


def test_excess_names_what_is_above_the_limits():
    rows = [row("A-v0", 24, 900), row("B-v0", 25, 900), row("C-v0", 24, 901)]
    assert families.excess(rows) == ["B-v0, pool: 25 kernels", "C-v0: 901 bytes of state"]


def test_a_table_has_a_line_for_each_row():
    lines = str(counted([row("A-v0", 24, 900)])).splitlines()
    assert lines[2] == "| A-v0 | exact |  | 24 | 99 + 7 | 0 + 0 | 900 | 2.00 | 6.0 |"
    assert len({line.count("|") for line in lines}) == 1


def test_the_cost_of_a_world_includes_rejected_candidates(monkeypatch):
    env_id = "Grid-Empty-Random-5x5-v0"
    first_row = lambda env, level: level.pose[0] == 1  # noqa: E731 - 3 of the 8 free cells
    monkeypatch.setattr(jaxenvs.spec(env_id).env_class, "accepts", first_row)
    cost = families.level_cost(env_id, 16)
    assert 8 / 3 * 0.7 < cost["candidates"] < 8 / 3 * 1.4
    expected = cost["candidate_ns"] * cost["candidates"] / cost["step_ns"]
    assert cost["world_steps"] == pytest.approx(expected, rel=0.05)


def test_figures_in_the_file_are_kept_and_the_rest_is_measured(tmp_path, monkeypatch, capsys):
    whole = row("BabyAI-GoTo-v0", 30, 72)
    part = {**whole, "work": {"exact": whole["work"]["exact"]}}
    counted = []

    def count(env_id, wanted, batch, here):
        counted.extend(wanted)
        return {source: whole["work"][source] for source in wanted}

    monkeypatch.setattr(gpu_work, "choose_target", lambda here: None)
    monkeypatch.setattr(families, "count", count)
    file = tmp_path / "families.json"
    file.write_text(json.dumps({"rows": [part]}))
    for lacking in (["pool"], []):
        counted.clear()
        assert families.main(["--ids", "BabyAI-GoTo-v0", "--json", str(file)]) == 0
        assert counted == lacking
        assert json.loads(file.read_text())["rows"] == [whole]
    assert "above the limits: BabyAI-GoTo-v0, pool: 30 kernels" in capsys.readouterr().out


def test_an_unknown_id_is_rejected(monkeypatch, capsys):
    monkeypatch.setattr(gpu_work, "choose_target", lambda here: None)
    assert families.main(["--ids", "Grid-DorKey-8x8-v0"]) == 2
    assert "did you mean" in capsys.readouterr().err


@needs_compiler
@pytest.mark.parametrize(
    ("env_id", "source"),
    [
        ("Grid-KeyCorridorS6R3-v0", "fresh"),
        ("BabyAI-GoTo-v0", "pool"),
        ("BabyAI-BossLevel-v0", "pool"),
    ],
)
def test_a_step_is_few_kernels(monkeypatch, env_id, source):
    monkeypatch.setenv("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    work = families.count(env_id, [source], 4096, here=False)[source]
    assert work["kernels"] <= families.KERNELS
    assert work["kernels_per_trip"] == 0


def test_grids_are_measured_with_the_image_whatever_their_default():
    id, key = "Grid-Fetch-5x5-N2-v0", jax.eval_shape(jax.random.key, 0)
    assert isinstance(jaxenvs.make(id).observation_space, spaces.Dict)
    measured = contestants.ours(id, 4), resets.staggered(id, 4, "fresh", 10, 2)
    for contestant in (*measured, contestants.ours(id, 4, obs="dict")):
        state = jax.eval_shape(contestant.reset, key)
        _, (obs, _) = jax.eval_shape(contestant.rollout(3), key, state)
        shapes = {leaf.shape for leaf in jax.tree.leaves(obs)}
        assert (3, 4, 7, 7, 3) in shapes and ((3, 4, 16) in shapes) == (contestant not in measured)

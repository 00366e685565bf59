"""Tests of `gpu_work`, which counts kernels and bytes of a step in programs compiled for a GPU.

Most of them need the CUDA compiler, but no GPU:

JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 JAX_PLATFORMS=cpu pytest tests/benchmarks/test_gpu_work.py
"""

import json
import os
import re

import jax
import pytest

import jaxenvs
from jaxenvs.benchmarks import gpu_work, rule_worlds, update_work
from jaxenvs.benchmarks.gpu_model import hlo
from jaxenvs.benchmarks.harness import contestants

DOORKEY = "Grid-DoorKey-8x8-v0"
CRAFT = "Craft-Classic-Symbolic-v0"
needs_compiler = pytest.mark.skipif(
    not gpu_work.has_compiler(), reason='needs pip install "jax[cuda13]" (no GPU)'
)
needs_gpu = pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs a GPU")


def kernel(opcode: str, *op_names: str) -> hlo.Kernel:
    return hlo.Kernel("name", opcode, "u8[1]", 1, 1, frozenset(op_names))


def test_origin_of_a_kernel():
    inside = f"jit(run)/while/body/{contestants.STEP_SCOPE}/add"
    outside = "jit(run)/while/body/jit(_randint)/add"
    assert gpu_work.origin(kernel("fusion", inside, outside)) == "step"
    assert gpu_work.origin(kernel("fusion", outside)) == "loop"
    assert gpu_work.origin(kernel("copy", inside)) == "copy"


def test_state_of_doorkey_is_small():
    state, pool = gpu_work.state_bytes(contestants.ours(DOORKEY, 64, "exact"))
    assert state <= 90 * 64
    assert pool == 0


def test_a_pool_is_counted_separately():
    contestant = contestants.ours(DOORKEY, 64, "pool", pool_size=32)
    state, pool = gpu_work.state_bytes(contestant)
    assert state == gpu_work.state_bytes(contestants.ours(DOORKEY, 64, "exact"))[0]
    assert pool == 32 * (64 + 3)


def test_a_stock_is_counted_separately():
    state, stock = gpu_work.state_bytes(contestants.ours(DOORKEY, 64, "stock"))
    assert state == gpu_work.state_bytes(contestants.ours(DOORKEY, 64, "exact"))[0]
    assert stock > state // 64


def test_without_the_compiler_the_error_names_the_fix(monkeypatch, capsys):
    monkeypatch.setattr(gpu_work, "PLUGINS", ("no_such_plugin",))
    assert gpu_work.main([]) == 2
    assert 'pip install "jax[cuda13]"' in capsys.readouterr().err


@needs_compiler
@pytest.mark.parametrize("source", ["fresh", "auto", "pool"])
def test_doorkey_step_is_few_kernels(monkeypatch, source):
    monkeypatch.setitem(os.environ, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    work, text = gpu_work.measure(contestants.ours(DOORKEY, 4096, source))
    assert work["kernels"] <= 12
    assert work["kernels_per_trip"] == 0
    assert work["state"] <= 90
    assert 0 < work["model_us"] <= 25 and work["model_us_per_trip"] == 0
    assert len(gpu_work.kernel_list(gpu_work.step_kernels(text), 4096).splitlines()) <= 12


@pytest.mark.parametrize("obs", ["symbolic", "ids"])
def test_state_of_craft_is_little_more_than_its_map(obs):
    contestant = contestants.ours(CRAFT, 8, "exact", obs=obs)
    assert 4096 * 8 <= gpu_work.state_bytes(contestant)[0] <= 4400 * 8


@needs_compiler
@pytest.mark.parametrize(
    ("id", "kernels", "moved", "microseconds"),
    [
        # A step had fewer kernels in earlier versions, but took longer, because each kernel did
        # more work per element.
        ("Craft-Classic-Ids-v0", 26, 3100, 60),
        ("Craft-Classic-Symbolic-v0", 26, 8900, 66),
        ("Craft-Ids-v0", 35, 7200, 98),
        ("Craft-Symbolic-v0", 36, 43_000, 165),
    ],
)
def test_a_step_of_craft_is_few_kernels_and_leaves_the_map_where_it_is(
    monkeypatch, id, kernels, moved, microseconds
):
    monkeypatch.setitem(os.environ, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    work, _ = gpu_work.measure(contestants.ours(id, 4096, contestants.NO_RESET))
    assert work["kernels"] <= kernels
    assert work["written"] + work["read"] <= moved
    assert work["model_us"] <= microseconds


PARTS = 4  # largest number of operands that a GPU concatenates without branches


def branching(text: str) -> list[str]:
    """Return the HLO of each concatenation of more than `PARTS` operands along the last axis."""
    found = re.finditer(r"= \w+\[([\d,]+)\]\S* concatenate\(([^)]*)\), dimensions=\{(\d+)\}", text)
    return [
        match.group()
        for match in found
        if match.group(2).count(",") >= PARTS
        and int(match.group(3)) == match.group(1).count(",") > 0
    ]


def test_a_concatenation_of_many_columns_branches():
    columns = "%c = s32[64,5]{1,0} concatenate(%a, %b, %c, %d, %e), dimensions={1}, metadata={}"
    few = "%c = s32[64,4]{1,0} concatenate(%a, %b, %c, %d), dimensions={1}"
    rows = "%c = s32[5,64]{1,0} concatenate(%a, %b, %c, %d, %e), dimensions={0}"
    assert len(branching("\n".join([columns, few, rows]))) == 1


@needs_compiler
@pytest.mark.parametrize(
    ("id", "kernels"),
    [
        ("Craft-Classic-Ids-v0", 5),
        ("Craft-Classic-Symbolic-v0", 5),
        ("Craft-Ids-v0", 6),
        ("Craft-Symbolic-v0", 7),
    ],
)
def test_an_observation_of_craft_is_few_kernels_without_branches(monkeypatch, id, kernels):
    monkeypatch.setitem(os.environ, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    env = jaxenvs.make(id)
    reset = jax.vmap(lambda key: env.reset(key).state)
    state = jax.eval_shape(lambda key: reset(jax.random.split(key, 4096)), jax.random.key(0))
    text = gpu_work.compile_ahead(jax.vmap(env.observe), (state,)).as_text() or ""
    module = hlo.parse(text)
    assert sum(kernel.count for kernel in hlo.kernels(module, module.entry)) <= kernels
    assert not branching(text)


@needs_compiler
@pytest.mark.parametrize(
    ("id", "fresh", "pool"),
    [("SlidingTile-4x4", 7, 6), ("Cube-3x3", 5, 4), ("2048", 10, 9)],
)
def test_a_step_of_a_puzzle_is_few_kernels(monkeypatch, id, fresh, pool):
    """The limits leave out kernels of the scan around the step (counter, keys, actions, stores)."""
    monkeypatch.setitem(os.environ, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    for source, most in (("fresh", fresh), ("pool", pool)):
        work, _ = gpu_work.measure(contestants.ours(f"Puzzle-{id}-v0", 4096, source))
        assert work["kernels"] - work["loop_kernels"] <= most
        assert work["kernels_per_trip"] == 0


def test_state_of_a_rule_world_is_its_grid_and_two_words():
    assert rule_worlds.state_bytes(rule_worlds.ours("high-1m", 8)) == 13 * 13 + 2 * 4


@needs_compiler
@pytest.mark.parametrize("tasks", ["trivial-21k", "medium-1m", "high-1m"])
def test_a_step_of_a_rule_world_is_as_few_kernels_for_18_rules_as_for_one(monkeypatch, tasks):
    monkeypatch.setitem(os.environ, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    work, _ = gpu_work.measure(rule_worlds.ours(tasks, 4096, contestants.NO_RESET))
    assert work["kernels"] <= 10
    assert work["written"] + work["read"] <= 400
    work, _ = gpu_work.measure(rule_worlds.ours(tasks, 4096, "fresh"))
    assert work["kernels"] <= 16 and work["kernels_per_trip"] == 0
    # Of these bytes, 338 are moved to select between two grids.
    assert work["written"] + work["read"] <= 1100
    work, _ = gpu_work.measure(rule_worlds.ours(tasks, 4096, "exact"))
    assert work["kernels"] <= 21 and work["model_us"] <= 33
    assert work["written"] + work["read"] <= 450


@needs_compiler
@pytest.mark.slow  # it compiles for five minutes
def test_a_whole_update_is_few_kernels_and_bytes(monkeypatch):
    """A PPO update with 8,192 environments x 16 steps and 2 epochs of 4 minibatches is small."""
    monkeypatch.setitem(os.environ, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    work = update_work.measure(DOORKEY)
    assert work["kernels"] <= 600
    assert work["bytes"] <= 2.3e9


@needs_compiler
def test_command_line_writes_the_figures(tmp_path, capsys):
    out = tmp_path / "work.json"
    options = ["--batch", "64", "--reset-source", "exact", "--json", str(out)]
    assert gpu_work.main([*options, "--dump-hlo", str(tmp_path)]) == 0
    (row,) = json.loads(out.read_text())["rows"]
    assert row["env_id"] == DOORKEY
    assert row["kernels_per_trip"] > 0
    assert row["model_us"] > row["model_us_per_trip"] > 0
    assert "per trip" in capsys.readouterr().out
    assert (tmp_path / f"jaxenvs-{DOORKEY}-exact-image.hlo").exists()


def test_an_unknown_id_is_rejected(monkeypatch, capsys):
    monkeypatch.setattr(gpu_work, "has_compiler", lambda: True)
    assert gpu_work.main(["--ids", "Grid-DorKey-8x8-v0"]) == 2
    assert "did you mean" in capsys.readouterr().err


@pytest.mark.skipif(jax.default_backend() == "gpu", reason="there is a GPU")
def test_here_without_a_gpu_is_rejected(monkeypatch, capsys):
    monkeypatch.setattr(gpu_work, "has_compiler", lambda: True)
    assert gpu_work.main(["--here"]) == 2
    assert "leave --here out" in capsys.readouterr().err


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("source", ["fresh", "exact", "pool"])
def test_the_described_gpu_agrees_with_the_real_one(source):
    """A program compiled for a description of a GPU is like one compiled for the real GPU.

    Both have nearly the same numbers of kernels and of bytes.
    """
    contestant = contestants.ours(DOORKEY, 4096, source)
    here, _ = gpu_work.measure(contestant, here=True)
    described, _ = gpu_work.measure(contestant)
    assert abs(here["kernels"] - described["kernels"]) <= 2
    assert here["written"] == pytest.approx(described["written"], rel=0.1)

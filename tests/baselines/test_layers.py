"""Tests of the learners' packages: they import in one direction; old module names still work."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import jaxenvs.baselines
from jaxenvs.baselines import old_names
from jaxenvs.baselines.registry import ALGORITHMS

ROOT = Path(jaxenvs.baselines.__file__).parent
# The rows are layers: a package may import packages of earlier rows and of the same row.
LAYERS = (
    ("core",),
    ("networks",),
    ("exploration",),
    ("on_policy", "off_policy", "model_based", "puzzles"),
    ("presets", "registry"),
    ("storage",),
    ("evaluation",),
    ("run",),
    ("ray",),
)
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
# rich is not in this list, because flax itself loads it
HEAVY = ("tyro", "orbax", "matplotlib", "ray")
PPO = "jaxenvs.baselines.on_policy.ppo"
LEARNERS = ", ".join(
    f"jaxenvs.baselines{row.module}" for row in ALGORITHMS.values() if not row.outside
)


def imported(file: Path) -> set[str]:
    """Return the packages of `jaxenvs.baselines` that a module imports, also inside functions."""
    found, folder = set(), file.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = [*folder[: len(folder) - node.level + 1]]
        path = base + (node.module or "").split(".") if node.module else base
        found |= {path[0]} if path else {alias.name for alias in node.names}
    return found & RANK.keys()


def test_packages_import_in_one_direction():
    wrong = []
    for file in ROOT.rglob("*.py"):
        package = file.relative_to(ROOT).parts[0].removesuffix(".py")
        if package in RANK:
            later = {name for name in imported(file) if RANK[name] > RANK[package]}
            wrong += [f"{file.relative_to(ROOT)} imports {name}" for name in sorted(later)]
    assert not wrong


def test_every_package_has_a_rank():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders <= RANK.keys()


@pytest.mark.parametrize(
    "names", [pytest.param(PPO, marks=pytest.mark.full), LEARNERS], ids=["one", "all"]
)
def test_learners_load_no_command_line(names):
    """Importing a learner as a library loads no parsers, plots or checkpoints."""
    code = f"import sys, {names}\nprint([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("old", "attribute", "today"),
    [
        ("ppo", "update", "on_policy.ppo"),
        ("runs", "load_policy", "storage.runs"),
        ("algorithms", "Learner", "core.learner"),
        ("algorithms", "ALGORITHMS", "registry"),
        ("davi", "load_q", "storage.heuristics"),
        ("run.checkpoints", "RunError", "storage.checkpoints"),
        ("ray.gym_worlds", "look", "ray.gym_envs"),
    ],
)
def test_old_names_work_and_warn(old, attribute, today, monkeypatch):
    monkeypatch.delitem(
        sys.modules, f"jaxenvs.baselines.{old}", raising=old != "networks" and False
    )
    new = importlib.import_module(f"jaxenvs.baselines.{today}")
    if old == "networks":  # this name now belongs to a package, which still has the attribute
        module = importlib.import_module("jaxenvs.baselines.networks")
    else:
        with pytest.warns(DeprecationWarning, match=today):
            module = importlib.import_module(f"jaxenvs.baselines.{old}")
    assert getattr(module, attribute) is getattr(new, attribute)


def test_old_names_lead_to_modules_that_exist():
    names = [
        f"{folder}{module}"
        for folder, packages in old_names.MOVED.items()
        for modules in packages.values()
        for module in modules.split()
    ]
    for name in (*names, *old_names.RENAMED):
        for today in old_names.modules_of(name):
            assert importlib.util.find_spec(f"jaxenvs.baselines.{today}"), name
    assert not old_names.modules_of("nothing")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("jaxenvs.baselines.nothing")

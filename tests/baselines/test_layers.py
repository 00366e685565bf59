"""Tests of the learners' packages: later layers import earlier ones; old module names work."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from imports import imports_of, named_in, sources

import jaxenvs.baselines
from jaxenvs.baselines import old_names
from jaxenvs.baselines.core.rollouts import Runner
from jaxenvs.baselines.registry import ALGORITHMS

ROOT = Path(jaxenvs.baselines.__file__).parent
# Each row is a layer: a package may import packages of earlier rows and of the same row.
LAYERS = (
    ("core",),
    ("networks",),
    ("exploration",),
    ("on_policy", "off_policy", "model_based", "offline", "puzzles"),
    ("presets", "registry"),
    ("storage",),
    ("evaluation",),
    ("run",),
    ("ray",),
    ("speedrun",),
)
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
# rich is not in this list, because flax itself loads it
HEAVY = ("tyro", "orbax", "matplotlib", "ray")
PPO = "jaxenvs.baselines.on_policy.ppo"
LEARNERS = ", ".join(
    f"jaxenvs.baselines{row.module}" for row in ALGORITHMS.values() if not row.outside
)


# Exception to LAYERS: `registry` may name modules of the later package `ray`. It names the modules
# of all learners, and imports a module only when its learner is chosen.
TABLE = ("registry", "ray")


def packages_of(module: str, code: str) -> set[str]:
    """Return the packages of `jaxenvs.baselines` that a module imports or names in a string."""
    tree = ast.parse(code)
    found = {one.target for read in (imports_of, named_in) for one in read(module, tree)}
    return {name.split(".")[2] for name in found if name.startswith("jaxenvs.baselines.")}


def wrong_packages(module: str, code: str) -> list[str]:
    """Return the packages that a module imports although they are in a later row of `LAYERS`."""
    package = module.split(".")[2]
    named = packages_of(module, code) & RANK.keys() if package in RANK else set()
    return sorted(name for name in named if RANK[name] > RANK[package] and (package, name) != TABLE)


def test_packages_import_in_one_direction():
    wrong = [
        f"{module} imports {name}"
        for module, path in sources()
        if module.startswith("jaxenvs.baselines.")
        for name in wrong_packages(module, path.read_text())
    ]
    assert not wrong


@pytest.mark.parametrize(
    "code",
    [
        "from ..run import loop",
        "from ..run.loop import command",
        "from .. import run",
        "from jaxenvs.baselines.run import loop",
        "from jaxenvs.baselines import run",
        "import jaxenvs.baselines.run.loop",
        "def late():\n    import jaxenvs.baselines.run.loop",
        "import importlib\nimportlib.import_module('..run.loop', __package__)",
        "import importlib\nimportlib.import_module('.run', 'jaxenvs.baselines')",
        "import importlib\nimportlib.import_module('jaxenvs.baselines.run.loop')",
        "HOMES = {'usual': '.run.loop'}",
    ],
)
def test_the_layers_test_sees_a_forbidden_import(code: str):
    assert wrong_packages("jaxenvs.baselines.core.learner", code) == ["run"]


def test_every_package_has_a_rank():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders <= RANK.keys()


@pytest.mark.parametrize(
    "names", [pytest.param(PPO, marks=pytest.mark.full), LEARNERS], ids=["one", "all"]
)
def test_learners_load_no_command_line(names):
    """Importing a learner as a library loads none of the packages in `HEAVY`.

    Only commands need these packages: for arguments, checkpoints, plots and clusters.
    """
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
        ("evaluate", "Episodes", "core.playing"),
    ],
)
def test_old_names_work_and_warn(old, attribute, today, monkeypatch):
    monkeypatch.delitem(sys.modules, f"jaxenvs.baselines.{old}", raising=False)
    new = importlib.import_module(f"jaxenvs.baselines.{today}")
    with pytest.warns(DeprecationWarning, match=today):
        module = importlib.import_module(f"jaxenvs.baselines.{old}")
    assert getattr(module, attribute) is getattr(new, attribute)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("networks.ActorCritic", "networks.policies.ActorCritic"),
        ("networks.Recurrent", "networks.policies.Recurrent"),
        ("networks.Separate", "networks.policies.Separate"),
        ("networks.named", "networks.policies.load_network"),
        ("exploration.Visits", "core.bonuses.Visits"),
        ("exploration.asked", "core.bonuses.of_settings"),
        ("settings.Replayed", "core.settings.Replay"),
        ("replay_buffer.Lots", "core.replay_buffer.SlotDraws"),
        ("run.loop.layout", "run.loop.partition"),
    ],
)
def test_old_members_work_and_warn(old: str, new: str, monkeypatch):
    """Import members by their old names: each import works and warns.

    Some old module names are now names of packages, and some members have been renamed.
    """
    (module, member), (home, today) = old.rsplit(".", 1), new.rsplit(".", 1)
    if module not in RANK and module != "run.loop":
        monkeypatch.delitem(sys.modules, f"jaxenvs.baselines.{module}", raising=False)
    with pytest.warns(DeprecationWarning, match=home):
        found = getattr(importlib.import_module(f"jaxenvs.baselines.{module}"), member)
    assert found is getattr(importlib.import_module(f"jaxenvs.baselines.{home}"), today)


def test_the_old_name_of_a_field_works_and_warns():
    with pytest.warns(DeprecationWarning, match="replay_buffer"):
        assert Runner((), replay_buffer=()).replay == ()


def test_new_names_of_members_exist():
    for old, members in old_names.MEMBERS.items():
        (home,) = old_names.modules_of(old)
        module = importlib.import_module(f"jaxenvs.baselines.{home}")
        assert not [name for name in members.values() if not hasattr(module, name)]


@pytest.mark.parametrize("package", ["networks", "exploration"])
def test_packages_with_old_names_lack_other_members(package: str):
    with pytest.raises(AttributeError, match="nothing"):
        importlib.import_module(f"jaxenvs.baselines.{package}").nothing  # noqa: B018


@pytest.mark.filterwarnings("ignore:jaxenvs.baselines.ppo is now:DeprecationWarning")
def test_an_old_module_gives_all_its_names():
    names = {}
    exec("from jaxenvs.baselines.ppo import *", names)
    new = importlib.import_module(PPO)
    assert names["Settings"] is new.Settings and names["update"] is new.update


def test_an_old_command_runs_and_warns():
    command = [sys.executable, "-m", "jaxenvs.baselines.train", "--algo", "nothing"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 2 and "--algo nothing: choose one of ppo" in ran.stderr
    assert "DeprecationWarning: jaxenvs.baselines.train is now" in ran.stderr


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

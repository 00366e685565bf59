"""Tests of the registry of environment ids: registration, errors and their messages."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import jax
import minigrid  # noqa: F401 - registers its ids
import pytest

import jaxenvs
from jaxenvs import registry
from jaxenvs.core.vector import RESET_SOURCES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def scratch(monkeypatch):
    """Let a test change the registry, and restore it after the test."""
    registry.list()
    for name in ("_specs", "_aliases"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))


def message(error, call, *args, **kwargs):
    """Return the text of the error that the call raises."""
    with pytest.raises(error) as raised:
        call(*args, **kwargs)
    return str(raised.value)


NEAR = [
    ("Grid-DorKey-8x8-v0", "Grid-DoorKey-8x8-v0"),
    ("grid-empty-8x8-v0", "Grid-Empty-8x8-v0"),
    ("Grid-FourRoom-v0", "Grid-FourRooms-v0"),
    ("MiniGrid-LavaGapS5-v1", "MiniGrid-LavaGapS5-v0"),
    ("Grid-Empty-8x8", "Grid-Empty-8x8-v0"),
]


@pytest.mark.parametrize(("given", "near"), NEAR)
def test_an_unknown_id_names_the_nearest(given, near):
    text = message(registry.UnknownIdError, jaxenvs.make, given)
    assert repr(given) in text and repr(near) in text
    assert message(registry.UnknownIdError, jaxenvs.spec, given) == text


def test_an_id_without_its_version_names_it():
    assert "ends in its version; use 'Grid-v0'" in message(LookupError, jaxenvs.make, "Grid")


def test_an_id_without_similar_ids_points_to_the_list():
    text = message(LookupError, jaxenvs.make, "0000")
    assert "registry.list()" in text and "did you mean" not in text


def test_an_id_must_be_a_string(as_a_user):
    assert "'Grid-v0'" in message(TypeError, jaxenvs.make, 3)
    assert "'Grid-v0'" in message(TypeError, jaxenvs.spec, None)


def test_a_wrong_keyword_names_the_fields():
    text = message(TypeError, jaxenvs.make, "Grid-DoorKey-5x5-v0", viewsize=5)
    assert "'viewsize'" in text and "did you mean 'view_size'" in text
    for field in ("size", "obs", "see_through_walls"):
        assert field in text
    text = message(TypeError, jaxenvs.make, "Grid-v0", max_steps=5)
    assert "its params are max_steps_in_episode; did you mean 'max_steps_in_episode'" in text


def test_a_bad_value_names_the_good_ones():
    text = message(ValueError, jaxenvs.make, "Grid-v0", obs="onehott")
    assert "did you mean 'onehot'" in text and "'image'" in text


def test_keywords_override_what_the_id_sets():
    assert jaxenvs.make("Grid-Empty-5x5-v0", size=6) == jaxenvs.make("Grid-Empty-6x6-v0")
    assert jaxenvs.make("Grid-v0") == jaxenvs.make("Grid-Empty-8x8-v0")


def test_every_level_of_the_package_has_its_id_and_alias():
    upstream = {id for id in gymnasium.registry if id.startswith("MiniGrid-")}
    ours = {alias for id in registry.list("Grid") for alias in jaxenvs.spec(id).aliases}
    assert ours == upstream
    for alias in ours:
        assert jaxenvs.spec(alias).id == alias.replace("MiniGrid", "Grid")
    upstream = {id for id in gymnasium.registry if id.startswith("BabyAI-")}
    assert set(registry.list("BabyAI")) == upstream


def test_craft_is_known_by_the_names_of_its_package():
    for game, name in itertools.product(("", "Classic-"), ("Symbolic", "Pixels")):
        alias = f"Craftax-{game}{name}-v1"
        assert jaxenvs.spec(alias).id == f"Craft-{game}{name}-v0"
        assert jaxenvs.make(alias).obs == name.lower()


def test_puzzles_are_known_by_their_sizes():
    for size in range(3, 8):
        assert jaxenvs.make(f"Puzzle-SlidingTile-{size}x{size}-v0").size == size
    assert jaxenvs.make("Puzzle-Cube-3x3-Half-v0").turns == "half"


def test_the_list_is_by_family():
    assert registry.list("Grid") == [id for id in registry.list() if id.startswith("Grid-")]
    assert [id for name in registry.families() for id in registry.list(name)] == registry.list()
    assert "did you mean 'Grid'" in message(ValueError, registry.list, "grid")


def test_a_row_of_the_registry_says_what_it_is():
    row = jaxenvs.spec("MiniGrid-DoorKey-8x8-v0")
    assert (row.id, row.family, row.fields) == ("Grid-DoorKey-8x8-v0", "Grid", {"size": 8})
    assert row.reset_source in RESET_SOURCES
    assert row.summary.endswith(".") and row.make() == jaxenvs.make(row.id)


def test_every_class_has_its_ids_and_one_that_stands_for_it():
    by_class = registry.classes()
    assert sorted(id for ids in by_class.values() for id in ids) == sorted(registry.list())
    kinds = ("Symbolic", "Pixels", "Ids")
    for game, name in (
        (jaxenvs.craft.CraftClassic, "Craft-Classic"),
        (jaxenvs.craft.CraftFull, "Craft"),
    ):
        assert set(registry.classes("Craft")[game]) == {f"{name}-{kind}-v0" for kind in kinds}
    found = registry.representatives()
    assert len(found) == len(by_class)
    assert {jaxenvs.spec(id).env_class for id in found} == {*by_class}
    assert [id for name in registry.families() for id in registry.representatives(name)] == found


def test_the_id_of_a_class_is_the_marked_one_or_the_plain_one_or_the_last(scratch):
    grids = registry.representatives("Grid")
    assert "Grid-DoorKey-8x8-v0" in grids and "Grid-LavaGapS7-v0" in grids
    assert "BabyAI-GoTo-v0" in registry.representatives("BabyAI")
    kind = type("Walk", (type(jaxenvs.make("Grid-v0")),), {})
    for size, chosen in ((5, 5), (16, 16), (8, 16)):
        jaxenvs.register(f"Mine-Walk-{size}-v0", size=size)(kind)
        assert registry.representatives("Mine") == [f"Mine-Walk-{chosen}-v0"]
    jaxenvs.register("Mine-Walk-9-v0", size=9, representative=True)(kind)
    assert registry.representatives("Mine") == ["Mine-Walk-9-v0"]
    assert jaxenvs.make("Mine-Walk-9-v0").size == 9


def test_upstream_ids_are_those_of_the_same_environment():
    assert jaxenvs.spec("Grid-v0").upstream == "MiniGrid-Empty-8x8-v0"
    assert jaxenvs.spec("BabyAI-GoTo-v0").upstream == "BabyAI-GoTo-v0"
    assert jaxenvs.spec("CartPole-v1").upstream == "CartPole-v1"


def test_every_summary_is_one_whole_sentence():
    for id in registry.list():
        text = jaxenvs.spec(id).summary
        assert text.endswith(".") and "\n" not in text and len(text) <= 120, id


SUMMARIES = [
    ("Walk to the\n    end.\n\n    Do not run.", "Walk to the end."),
    ("Walk to `x`. Then stop.\n    Actions: none.", "Walk to `x`."),
    ("Count 1, 2, ... Or walk, e.g. Down (or up).", "Count 1, 2, ... Or walk, e.g. Down (or up)."),
    ("Version 3.2 walks", "Version 3.2 walks"),
]


@pytest.mark.parametrize(("docstring", "summary"), SUMMARIES)
def test_a_summary_is_the_first_sentence_of_the_docstring(docstring, summary, scratch):
    kind = type("Walk", (type(jaxenvs.make("Grid-v0")),), {"__doc__": docstring})
    jaxenvs.register("Mine-Walk-v0")(kind)
    assert jaxenvs.spec("Mine-Walk-v0").summary == summary


BAD_IDS = [
    "",
    "grid-v0",
    "Grid",
    "Grid-v",
    "Grid-0",
    "Grid v0",
    "Grid--v0",
    "Grid-v0 ",
    "Grid-v0\n",
]


# Malformed as ids, because they lack a version, but valid as aliases.
UNVERSIONED = ("Grid-v", "Grid-0")


@pytest.mark.parametrize("id", BAD_IDS)
def test_malformed_ids_are_refused(id):
    assert "Family-Name" in message(ValueError, jaxenvs.register, id)
    if id not in UNVERSIONED:
        assert "Family-Name" in message(ValueError, jaxenvs.register, "Good-v0", aliases=[id])


def test_an_alias_needs_no_version(scratch):
    kind = type(jaxenvs.make("Grid-v0"))
    jaxenvs.register("Mine-Room-v0", aliases=["Yours-Room"])(kind)
    assert jaxenvs.spec("Yours-Room").id == "Mine-Room-v0"


@pytest.mark.parametrize("id", ["Grid-v0", "MiniGrid-DoorKey-8x8-v0"])
def test_taken_ids_are_refused(id):
    assert "taken" in message(ValueError, jaxenvs.register, id)
    assert "taken" in message(ValueError, jaxenvs.register, "Good-v0", aliases=[id])


def test_a_third_party_environment_is_registered(scratch):
    kind = type(jaxenvs.make("Grid-v0"))
    jaxenvs.register("Mine-Room-v0", aliases=["Yours-Room-v3"], size=5)(kind)
    assert "Mine-Room-v0" in registry.list() and registry.list("Mine") == ["Mine-Room-v0"]
    assert jaxenvs.make("Yours-Room-v3") == jaxenvs.make("Grid-Empty-5x5-v0")
    assert "taken" in message(ValueError, jaxenvs.register, "Mine-Room-v0")


def test_a_class_that_is_refused_leaves_nothing_behind(scratch):
    before = registry.list()
    message(ValueError, jaxenvs.register, "New-v0", aliases=["Grid-v0"])
    assert registry.list() == before


PLUGIN = '''
import jaxenvs

@jaxenvs.register("Plugin-Room-v0", size=6)
class Room(type(jaxenvs.make("Grid-v0"))):
    """A room from elsewhere."""
'''
USE_PLUGIN = """
import sys, jaxenvs
assert "plugin_of_a_test" not in sys.modules, "plugins are not imported with jaxenvs"
assert jaxenvs.make("Grid-v0") and "plugin_of_a_test" not in sys.modules
env = jaxenvs.make("Plugin-Room-v0")
assert env.size == 6 and jaxenvs.registry.list("Plugin") == ["Plugin-Room-v0"]
print(jaxenvs.spec("Plugin-Room-v0").summary)
"""


def test_installed_packages_bring_environments_by_entry_point(tmp_path):
    """`make` and `list` find an environment that the entry point of another package registers.

    The test writes this package into a folder on the path of a separate process.
    """
    (tmp_path / "plugin_of_a_test.py").write_text(PLUGIN)
    metadata = tmp_path / "plugin_of_a_test-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: plugin-of-a-test\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text("[jaxenvs.envs]\nrooms = plugin_of_a_test\n")
    library = os.path.dirname(os.path.dirname(jaxenvs.__file__))
    path = os.pathsep.join([str(tmp_path), library])
    done = subprocess.run(
        [sys.executable, "-c", USE_PLUGIN],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "A room from elsewhere.\n"


@pytest.mark.parametrize("module", ["not_there_at_all", "leaves_a_test"])
def test_a_package_that_does_not_import_is_named_and_harms_no_other(
    module, scratch, monkeypatch, tmp_path
):
    (tmp_path / "leaves_a_test.py").write_text("raise SystemExit(3)")
    metadata = tmp_path / "broken_of_a_test-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: broken-of-a-test\nVersion: 1\n"
    )
    (metadata / "entry_points.txt").write_text(f"[jaxenvs.envs]\nrooms = {module}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_plugins_loaded", False)
    with pytest.warns(UserWarning, match=f"broken-of-a-test .*rooms = {module}.* missing"):
        ids = registry.list()
    assert "Grid-v0" in ids


LATE = """
import sys, jaxenvs
from jax._src import xla_bridge

def families():
    here = jaxenvs.registry.homes() & set(sys.modules)
    return {home.removeprefix("jaxenvs.") for home in here}

assert families() == set()
jaxenvs.make("Craft-Classic-Ids-v0")
assert families() == {"craft"}, families()
jaxenvs.make("MiniGrid-Empty-5x5-v0")
assert families() == {"craft", "grid"}, families()
try:
    jaxenvs.register("CartPole-v1")
except ValueError as error:
    assert "this id is taken" in str(error)
else:
    raise SystemExit("an id of a family that was not imported yet was given away")
assert jaxenvs.puzzles.Cube and "grid" in dir(jaxenvs)
assert not xla_bridge._backends, "make started a backend"
heavy = {"flax", "optax", "pygame", "matplotlib", "minigrid", "PIL", "tyro"} & set(sys.modules)
assert not heavy, heavy
"""


def test_an_id_imports_its_family_alone():
    """`make` imports only the modules of the id's family, and starts no JAX backend.

    The test runs in a separate process, in which nothing is imported yet.
    """
    library = os.path.dirname(os.path.dirname(jaxenvs.__file__))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LATE],
        env={**os.environ, "PYTHONPATH": library},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert jax.default_backend() == "cpu"


def test_the_error_for_a_missing_upstream_id_gives_the_reason(scratch):
    for game in ("Craftax", "Craftax-Classic"):
        id = f"{game}-Symbolic-AutoReset"
        text = message(jaxenvs.UnknownIdError, jaxenvs.make, f"{id}-v1")
        assert f"jaxenvs.make_vec('{game}-Symbolic-v1', num_envs)" in text
        without = message(jaxenvs.UnknownIdError, jaxenvs.make, id)
        assert without == text.replace(f"{id}-v1", id)
    id = "Craftax-Pixels-AutoReset-v1"
    jaxenvs.register(id)(jaxenvs.grid.doorkey.DoorKey)  # another package registers this id later
    assert jaxenvs.make(id) and id not in registry.absences()


def test_every_id_of_minigrid_is_here():
    upstream = {id for id in gymnasium.registry if id.startswith(("MiniGrid-", "BabyAI-"))}
    here = {name for id in registry.list() for name in (id, *jaxenvs.spec(id).aliases)}
    assert upstream <= here


def test_every_first_word_names_the_module_that_registers_its_ids():
    words = {}
    for id in registry.list():
        spec = jaxenvs.spec(id)
        for name in (id, *spec.aliases):
            package = ".".join(spec.env_class.__module__.split(".")[:2])
            words.setdefault(name.partition("-")[0], set()).add(package)
    assert {word: {module} for word, module in registry._modules.items()} == words


NAMED = rf"(?<![\w./-])(?:{'|'.join(registry._modules)})(?:-[A-Za-z0-9]+)*-v[0-9]+(?![\w-])"


def test_ids_that_the_code_names_are_registered():
    """Ids that occur in the code of benchmarks, pictures, help and messages must be registered."""
    known = {name for id in registry.list() for name in (id, *jaxenvs.spec(id).aliases)}
    folders = ("jaxenvs", "render", "baselines", "benchmarks", "docs")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    named = {(name, file.name) for file in files for name in re.findall(NAMED, file.read_text())}
    assert len(named) > 100
    assert not {row for row in named if row[0] not in known | set(registry.absences())}


def test_the_package_has_its_parts_and_nothing_else():
    assert {"adapters", "grid", "make", "search"} < {*dir(jaxenvs)}
    with pytest.raises(AttributeError, match="module 'jaxenvs' has no attribute 'gird'"):
        _ = jaxenvs.gird


def test_a_spec_names_the_achievements():
    spec = jaxenvs.spec("Craft-Classic-Ids-v0")
    assert len(spec.achievements) == 22 and spec.achievements[19] == "collect_diamond"
    assert jaxenvs.spec("Grid-v0").achievements == ()

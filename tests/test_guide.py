"""Tests of the guide "Write your own environment": its package and commands work as written.

The guide's family of environments is in a separate package. Like the families of this library, the
family must appear in listings, shell completion, benchmarks and the documentation.
"""

import io
import re
import runpy
import sys
import tomllib
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxenvs
import jaxenvs.testing
from jaxenvs import cli, registry
from jaxenvs.benchmarks.harness import contestants, timing
from jaxenvs.commands import completion
from jaxenvs.render import panel, screen
from jaxenvs.render.controls import Controller
from jaxenvs.render.session import Session

DOCS = Path(__file__).resolve().parents[1] / "docs"
SMALL, LARGE = "Mine-Berries-5x5-v0", "Mine-Berries-8x8-v0"
# Options that the test adds to the guide's commands, to shorten them or to press keys that a user
# would press in a window.
SHORTER = {
    "check": "--steps 2000",
    "train": "--total-steps 2048 --num-envs 8 --hidden 8 --eval-episodes 8",
    "play": "--keys right,down,left,up --gif play.gif --screenshot window.png",
    "bench": "--quick --seconds 0.01 --batches 8",
}
# Number of frames of each animation that the guide's commands make.
MADE = {"random.gif": 50, "berries.gif": 100, "play.gif": 5}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Put the guide's module and its entry points on the path, as if it were installed."""
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((DOCS / "own" / "pyproject.toml").read_text())
    name, version = project["project"]["name"], project["project"]["version"]
    groups = project["project"]["entry-points"]
    for module in project["tool"]["setuptools"]["py-modules"]:
        (site / f"{module}.py").write_text((DOCS / "own" / f"{module}.py").read_text())
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = [f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in p.items()) for g, p in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(points))
    # Load all other ids before the patch below copies the registry's tables.
    registry.list()
    with pytest.MonkeyPatch.context() as patch:
        for table in ("_specs", "_aliases"):
            patch.setattr(registry, table, dict(getattr(registry, table)))
        patch.setattr(registry, "_plugins_loaded", False)
        patch.syspath_prepend(site)
        yield
    sys.modules.pop("berries", None)


def commands() -> list[list[str]]:
    """Return the guide's commands in order, without the word `jaxenvs`."""
    lines = re.findall(r"^jaxenvs (.*)$", (DOCS / "own.md").read_text(), re.MULTILINE)
    return [line.split() for line in lines]


def test_it_is_one_short_file():
    text = (DOCS / "own" / "berries.py").read_text()
    assert len(text.splitlines()) < 100
    assert '--8<-- "docs/own/berries.py"' in (DOCS / "own.md").read_text()


def test_the_entry_point_registers_the_ids(installed):
    assert "berries" not in sys.modules
    assert registry.list("Mine") == [SMALL, LARGE]
    assert jaxenvs.make(LARGE).size == 8 and jaxenvs.spec(SMALL).family == "Mine"


def test_the_rewards_of_all_berries_add_up_to_one(installed):
    env = jaxenvs.make(SMALL)
    params = env.default_params.replace(slip=0.0)
    level = jnp.array([1, 2, 7, 5, 6], jnp.int32)
    state = env.reset_to(jax.random.key(0), level, params).state
    rewards, ends = [], []
    for action in (0, 1, 1, 2, 3, 3):  # the first move runs into the edge
        step = jax.jit(env.step)(jax.random.key(0), state, action, params)
        state = step.state
        rewards.append(round(float(step.reward), 3))
        ends.append(bool(step.terminated))
    assert rewards == [0, 0.2, 0.2, 0.2, 0.2, 0.2] and ends == [False] * 5 + [True]


def test_the_site_has_its_family_its_pages_and_their_pictures(
    installed, tmp_path, capsys, monkeypatch
):
    # mkdocs adds the folder of a hook to the path in the same way
    monkeypatch.syspath_prepend(DOCS)
    site = runpy.run_path(str(DOCS / "pages.py"))
    site["main"](str(tmp_path), jaxenvs.spec(SMALL).env_class.__module__)
    assert capsys.readouterr().out.split() == [SMALL, LARGE]
    for id in (SMALL, LARGE):
        text = (tmp_path / f"{id}.md").read_text()
        assert "the grass is slippery" in text
        assert f"jaxenvs train {id} --algo alphazero\n" in text
        assert (tmp_path / f"{id}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{id}.gif").is_file()
        assert f"[{id}](../{id}.md)" in site["id_pages"].listing("Mine")
    assert "| [Mine](Mine/index.md) | 2 |" in site["id_pages"].overview()
    config = types.SimpleNamespace(nav=[{"Environments": "envs/"}])
    site["on_config"](config)
    members = [{id: f"envs/{id}.md"} for id in (SMALL, LARGE)]
    assert {"Mine": ["envs/Mine/index.md", *members]} in config.nav[0]["Environments"]


def test_completion_and_benchmarks_have_its_family(installed):
    words = completion._kinds()
    assert "Mine" in words["families"] and {SMALL, LARGE} < {*words["ids"]}
    assert LARGE in contestants.chosen(["families"]) and SMALL in contestants.chosen(["all"])


@pytest.mark.full
def test_every_command_of_the_guide_runs(installed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(timing, "AGE_SECONDS", 0.01)
    monkeypatch.setattr("sys.stdin", io.StringIO("right\nq\n"))
    seen = set()
    for argv in commands():
        more = "" if "--text" in argv else SHORTER.get(argv[0], "")
        assert cli.main([*argv, *more.split()]) == 0, argv
        seen.add(argv[0])
    out = capsys.readouterr().out
    assert seen >= {"list", "check", "info", "play", "watch", "train", "bench"}
    assert f"{SMALL}: keeps the contract" in out
    assert (
        "Pick all the berries of a meadow" in out
        and "probability of moving in a random direction" in out
    )
    assert "keys of jaxenvs play" in out and "Right, L" in out
    assert "The meadow; @ is you, * a berry:" in out and "There is no action 'q'" in out
    for name, pictures in MADE.items():
        with Image.open(name) as image:
            assert image.n_frames == pictures
    assert (tmp_path / "window.png").is_file()
    assert (tmp_path / "runs" / "berries" / "eval.json").is_file()


def test_it_has_keys_and_a_panel_like_any_other(installed):
    env = jaxenvs.make(SMALL)
    playing = Controller(Session(env), SMALL)
    assert playing.press("l") and playing.press("down") and playing.session.cursor == 2
    (fact,) = env.facts(playing.session.state())
    assert (fact.kind, fact.icon) == ("count", "berry")
    picture = screen.pixels(screen.draw(playing, screen.natural_size(playing)))
    colour = np.array([196, 40, 72])  # colour of berries, on the board and in the icon
    beside = (picture[:, -panel.WIDTH :] == colour).all(axis=-1).sum()
    assert beside == 24 * 24


def test_the_python_call_of_the_guide_equals_its_command(monkeypatch):
    given = []
    monkeypatch.setattr(jaxenvs.testing, "check_env", lambda env, **rest: given.append((env, rest)))
    (block,) = re.findall(r"```python\n(import.*?)```", (DOCS / "own.md").read_text(), re.DOTALL)
    exec(compile(block, "own.md", "exec"), {})
    assert given == [(SMALL, {"steps": 20_000})]

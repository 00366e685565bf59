"""Tests of the documentation: pages as Markdown, links, pictures, and code that runs."""

import importlib.util
import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from PIL import Image

import jaxenvs
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.commands.page import Page, Section, page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TUTORIALS = [*sorted((DOCS / "tutorials").glob("*.md")), DOCS / "families.md"]
# Tutorials whose code runs by default; `make test-all` runs the others, which compile more.
BY_DEFAULT = ("first-steps", "training")


@pytest.fixture(scope="module")
def pages():
    """Import `docs/pages.py`, which mkdocs runs as a hook; the import does not need mkdocs."""
    sys.path.insert(0, str(DOCS))  # mkdocs adds the folder of a hook to the path in the same way
    try:
        spec = importlib.util.spec_from_file_location("pages_of_the_site", DOCS / "pages.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


@pytest.fixture(scope="module")
def id_pages(pages):
    """Return the module that writes a page of documentation for each environment id."""
    return pages.id_pages


LINKS = [
    ("README.md", "index.md", "![a](docs/grid.png)", "![a](grid.png)"),
    ("README.md", "index.md", "[c](docs/scaling.md#mesh)", "[c](scaling.md#mesh)"),
    ("README.md", "index.md", "[`env.py`](jaxenvs/core/env.py), x", "`env.py`, x"),
    ("README.md", "index.md", "[l](baselines/README.md#p)", "[l](baselines.md#p)"),
    ("README.md", "index.md", "`[x](y.py)` [w](https://w.org)", "`[x](y.py)` [w](https://w.org)"),
    ("README.md", "index.md", "```\n[x](y.py)\n```\n[x](y.py)", "```\n[x](y.py)\n```\nx"),
    ("baselines/README.md", "baselines.md", "![c](../docs/c.png) [r](r.json)", "![c](c.png) r"),
    ("baselines/README.md", "baselines.md", "[up](#craft)", "[up](#craft)"),
    ("docs/tutorials/a.md", "tutorials/a.md", "[b](batches.md)", "[b](batches.md)"),
    ("docs/tutorials/a.md", "tutorials/a.md", "[e](../envs/index.md)", "[e](../envs/index.md)"),
    ("docs/envs/A.md", "envs/A.md", "[![a](a.png){ .x }](A.md)", "[![a](a.png){ .x }](A.md)"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "uri", "given", "wanted"), LINKS)
def test_links_of_the_repository_become_links_of_the_site(source, uri, given, wanted, pages):
    assert pages.relinked(given, source, uri) == wanted


@pytest.mark.parametrize("version", [None, "0.2.0"])
def test_a_build_of_one_version_of_several_has_a_menu(version, pages, monkeypatch):
    if version:
        monkeypatch.setenv("MIKE_DOCS_VERSION", version)
    config = pages.on_config(SimpleNamespace(nav=[], extra={}))
    assert config.extra == ({"version": {"provider": "mike"}} if version else {})


def test_a_page_as_markdown(id_pages):
    content = Page(
        id="Grid-v0",
        family="Grid",
        summary="",
        sections=(
            Section("Rules", ("Go to `size**2` or *2* <b>.", "Again_and_again.")),
            Section("State", (), ("field", "what"), (("`a|b`", "x | y"), ("c", ""))),
        ),
    )
    text = id_pages.rendered(content)
    assert text.startswith("# Grid-v0\n\n[All](index.md) · [Grid](Grid/index.md)")
    assert "\nGo to `size**2` or \\*2\\* &lt;b\\>.\n\nAgain\\_and\\_again.\n" in text
    assert "| field | what |\n| --- | --- |\n| `a|b` | x \\| y |\n| c |  |\n" in text
    assert "jaxenvs play Grid-v0\n" in text


def test_a_family_shows_the_return_of_ppo_preferably_without_additions(id_pages):
    run = {"algorithm": "ppo", "learned": True}
    alone = {**run, "apart": [], "steps": 100_000, "returns": [0.1], "learned": False}
    more = {**run, "apart": ["NovelD"], "steps": 2_000_000, "returns": [0.9]}
    other = {**run, "apart": ["size=5"], "steps": 3_000_000, "returns": [1.0]}
    of = lambda *runs: id_pages._by_ppo(list(runs))  # noqa: E731
    assert of() == of(other) == "not recorded"
    assert of(alone, other) == "not learned (0.1 M)"
    assert of(alone, more) == "0.9 with NovelD (2 M)"
    assert of(alone, {**more, "learned": False}) == "not learned with NovelD (2 M)"
    assert of({**alone, "returns": [0.8], "learned": True}, more) == "0.8 (0.1 M)"


def test_a_page_links_its_neighbours_compares_sizes_and_shows_code(id_pages):
    id = "Grid-DoorKey-8x8-v0"
    text = id_pages.rendered(page(id))
    assert "before: [Grid-DoorKey-6x6-v0]" in text and "next: [Grid-DoorKey-16x16-v0]" in text
    assert f"| `{id}` (here) | `size=8` | 8 x 8 | 640 |" in text
    assert "| `Grid-DoorKey-5x5-v0` | `size=5` |" in text
    assert "(https://github.com/Farama-Foundation/Minigrid)" in text
    (code,) = re.findall(
        r"```python\n(.*?)```", id_pages.rendered(page("Grid-Empty-5x5-v0")), re.DOTALL
    )
    names = {}
    exec(compile(code, "page", "exec"), names)
    assert names["picture"].ndim == 3


def test_every_package_that_is_reproduced_has_its_link(id_pages):
    packages = {jaxenvs.spec(id).env_class.package for id in jaxenvs.registry.list()} - {""}
    assert packages == {*id_pages.ORIGINALS}


def test_each_id_is_made_once_and_its_page_has_an_animation(id_pages):
    groups = id_pages.modules()
    assert sorted(id for ids in groups.values() for id in ids) == sorted(jaxenvs.registry.list())
    content = id_pages.animation("Grid-Empty-5x5-v0")
    assert len(content) < id_pages.ANIMATION_BYTES
    with Image.open(io.BytesIO(content)) as image:
        assert image.n_frames == id_pages.STEPS and max(image.size) <= id_pages.ANIMATION_SIDE


@pytest.mark.parametrize("id", ["Grid-DoorKey-5x5-v0", "Grid-DoorKey-8x8-v0"])
def test_a_page_has_one_picture_the_animation_of_its_id(id, id_pages):
    assert re.findall(r"!\[[^]]*\]\(([^)]*)\)", id_pages.rendered(page(id))) == [f"{id}.gif"]


def test_the_pages_of_a_family_are_in_its_part_of_the_navigation(pages):
    environments = {"Environments": "envs/"}
    pages.on_config(SimpleNamespace(nav=[{"Home": "index.md"}, environments]))
    overview, *families = environments["Environments"]
    assert overview == "envs/index.md"
    found = {name: entries for part in families for name, entries in part.items()}
    assert [*found] == jaxenvs.registry.families()
    for family, (index, *members) in found.items():
        assert index == f"envs/{family}/index.md"
        ids = jaxenvs.registry.list(family)
        assert members == [{id: f"envs/{id}.md"} for id in ids]


def test_the_docstring_of_a_learner_is_its_page_if_it_has_no_file(pages, tmp_path, monkeypatch):
    module = pages.learners("off_policy")["qr-dqn"]
    text = pages.docstring_page("qr-dqn", module)
    assert text.startswith("# qr-dqn\n\nQR-DQN") and "`jaxenvs train ID --algo qr-dqn`" in text
    (tmp_path / "docs" / "learners").mkdir(parents=True)
    for name in ("index", "c51"):
        (tmp_path / "docs" / "learners" / f"{name}.md").touch()
    (tmp_path / "baselines").symlink_to(ROOT / "baselines")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    first, *groups = pages.learner_pages()
    listed = {page for group in groups for names in group.values() for page in names}
    assert first == "learners/index.md" and {"learners/c51.md", "learners/qr-dqn.md"} <= listed


# Pattern that the Markdown of a learner's page must match; further sections may follow it.
FORM = re.compile(
    r"""\# .+\n
    \n\*\*Idea\.\*\*\ (?P<idea>.+?)\n
    \n```\n(?P<equation>.+?)\n```\n(?:\n(?!\*\*).+?\n)?
    \n\*\*Source\.\*\*\ (?P<source>.+?)\n
    \n\*\*When\ to\ use\ it\.\*\*\ (?P<when>.+?)\n
    \n```\n(?P<command>.+?)\n```\n(?:\n.+?\n)?
    \n\#\#\ Results\n\n(?P<curve>[^\n]+)\n\n(?P<results>.+?)\n
    \n\#\#\ Failures\n\n(?P<failures>.+)""",
    re.DOTALL | re.VERBOSE,
)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_pages_of_learners_have_the_same_form(name, pages):
    """The page of each learner has the parts of `FORM`.

    A learner without a page passes if the docstring of its module, which is shown instead, contains
    its command.
    """
    path = DOCS / "learners" / f"{name}.md"
    if not path.exists():
        module = ROOT / "baselines" / f"{ALGORITHMS[name].module[1:].replace('.', '/')}.py"
        assert f"--algo {name}" in pages.docstring_page(name, module)
        return
    found = FORM.fullmatch(path.read_text("utf-8"))
    assert found, f"{path.name} differs from the form"
    part = {key: text.replace("\n", " ") for key, text in found.groupdict().items()}
    assert 2 <= len(re.findall(r"[.!)](?= |$)", part["idea"])) <= 4, part["idea"]
    assert re.search(r"[=←]|max_", part["equation"])
    assert re.search(r"\]\(https://|PPO as above", part["source"])
    assert f"--algo {name}" in part["command"] or name in ("ppo", "ppo-ray")
    assert re.match(r"!\[Learning curves?:? .+\]\(\.\./\S+\.png\)$|No curve: ", part["curve"])


def test_the_pictures_of_learners_are_in_the_folder():
    for path in (DOCS / "learners").glob("*.md"):
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", path.read_text("utf-8")):
            assert (path.parent / picture).is_file()


def test_the_pictures_are_not_drawn_for_help_or_an_unsuitable_run(monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("draw", DOCS / "draw.py")
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    monkeypatch.setattr(draw, "draw_sheets", lambda: pytest.fail("drawn"))
    with pytest.raises(SystemExit, match="0"):
        draw.main(["--help"])
    assert "directory of a run" in capsys.readouterr().out
    assert draw.main(["nothing"]) == 2
    assert "draw.py: nothing" in capsys.readouterr().err
    run = SimpleNamespace(config=SimpleNamespace(id="Grid-Empty-5x5-v0"))
    monkeypatch.setattr(draw.Run, "open", lambda path: run)
    assert draw.main(["my run"]) == 2
    assert "my run is a run in Grid-Empty-5x5-v0; give a run in" in capsys.readouterr().err
    run.config.id = draw.RUN_ID
    assert draw.main(["my run"]) == 2
    assert "no run folder my run" in capsys.readouterr().err


def test_a_part_of_the_pages_can_be_made_alone(monkeypatch, id_pages):
    chosen = ["Grid-DoorKey-5x5-v0", "Grid-DoorKey-8x8-v0"]
    monkeypatch.setenv("IDS", " ".join(chosen))
    assert (id_pages.families(), id_pages.ids("Puzzle")) == (["Grid"], [])
    assert [id for ids in id_pages.modules().values() for id in ids] == chosen
    text = id_pages.rendered(page(chosen[0]))
    assert f"next: [{chosen[1]}]" in text and "before:" not in text


# Heading line of a Markdown table, and the line of dashes below it.
HEAD = re.compile(r"^(\|.*\|)\n\|(?: *:?-+:? *\|)+$", re.MULTILINE)
FOLDERS = ("docs", "baselines", "benchmarks", "tests")
SOURCES = [*ROOT.glob("*.md"), *(path for name in FOLDERS for path in (ROOT / name).rglob("*.md"))]


def headless(text: str) -> list[str]:
    """Return the heading line of each table that has a column without a name."""
    return [head for head in HEAD.findall(text) if not all(map(str.strip, head[1:-1].split("|")))]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_columns_of_tables_have_names(path):
    assert not headless(path.read_text("utf-8"))


@pytest.mark.parametrize("id", ["Classic-CartPole-v0", "Craft-Classic-Ids-v0", "Puzzle-Sudoku-v0"])
def test_columns_of_the_tables_of_ids_have_names(id, id_pages):
    family = jaxenvs.spec(id).family
    for text in (id_pages.rendered(page(id)), id_pages.listing(family), id_pages.overview()):
        assert HEAD.findall(text) and not headless(text)


def test_a_notebook_becomes_a_page(pages):
    picture = {"data": {"image/png": "aGVsbG8=\n", "text/plain": ["Picture"]}}
    outputs = [picture, {"data": {"text/html": ["<b>x</b>"]}}, {"text": ["12\n"]}]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": outputs},
    ]
    assert pages.notebook({"cells": cells}).split("\n\n") == [
        "# Title\ntext",
        "```python\n1 + 1\n```",
        '<img alt="a picture" src="data:image/png;base64,aGVsbG8=">',
        "<b>x</b>",
        "```\n12\n```\n",
    ]


def test_every_section_is_on_the_page_of_the_site(id_pages):
    content = page("Craft-Classic-Ids-v0")
    text = id_pages.rendered(content)
    for section in content.sections:
        assert f"\n## {section.title}\n" in text
        assert all(f"| {row[0]} |" in text for row in section.rows if "|" not in row[0])


def test_families_list_their_ids(id_pages):
    listing, overview = id_pages.listing("Puzzle"), id_pages.overview()
    for id in jaxenvs.registry.list("Puzzle"):
        assert f"[{id}](../{id}.md)" in listing
    assert (
        f"{len(jaxenvs.registry.list())} ids" in overview and "[Craft](Craft/index.md)" in overview
    )


@pytest.mark.parametrize("id", ["Grid-Empty-5x5-v0", "Classic-CartPole-v0"])
def test_a_picture_is_the_same_each_time_and_small(id, id_pages):
    first = id_pages.picture(id)
    assert id_pages.picture(id) == first and len(first) < 20_000
    with Image.open(io.BytesIO(first)) as image:
        assert max(image.size) <= id_pages.SIDE and len(np.unique(np.asarray(image))) > 3


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.full] * (path.stem not in BY_DEFAULT))
        for path in TUTORIALS
        if "```python" in path.read_text()
    ],
)
def test_the_code_of_a_tutorial_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # one tutorial writes a folder of games
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        # Run the code as users do, with standard dtype promotion; the tests set strict promotion.
        with jax.numpy_dtype_promotion("standard"):
            exec(compile(block, path.name, "exec"), names)
    if path.stem == "search":
        assert names["result"].optimal.all() and names["stepped"].terminated
    if path.stem == "adapters":
        assert names["picture"].shape == (80, 80, 3) and names["second"].mid()
        assert names["solved"].all()
    if path.stem == "families":
        assert names["pixels"].shape == (8, 40, 40, 3)
        assert names["obs"].shape == (445,) and names["floats"].shape == (8268,)
    if path.stem == "curricula":
        assert capsys.readouterr().out.splitlines()[-1] == "1.0"


def test_the_commands_of_the_tutorials_exist():
    from jaxenvs.cli import COMMANDS

    for path in (*TUTORIALS, DOCS / "install.md", DOCS / "performance.md"):
        named = re.findall(r"^jaxenvs (\w[\w-]*)", path.read_text(), re.MULTILINE)
        assert set(named) <= set(COMMANDS)

"""Tests of `jaxenvs list` and `info`: pages of ids agree with the code and are complete."""

import inspect

import jax
import numpy as np
import pytest

import jaxenvs
from jaxenvs import cli
from jaxenvs.commands import info
from jaxenvs.commands.learned import UNLEARNED
from jaxenvs.commands.page import (
    LABELS,
    Section,
    comments,
    docstring,
    page,
    reference,
)
from jaxenvs.core.spaces import Discrete

CLASSES = {jaxenvs.spec(id).env_class: id for id in reversed(jaxenvs.registry.list())}
IDS = [
    "Grid-DoorKey-5x5-v0",
    "BabyAI-GoToRedBall-v0",
    "Classic-CartPole-v0",
    "Craft-Classic-Ids-v0",
    "Puzzle-SlidingTile-3x3-v0",
]


# By default, test one class of each module: the classes of a module share state and observation.
MODULES = {kind.__module__: kind for kind in reversed(CLASSES)}
PAGES = [
    pytest.param(
        kind,
        id=kind.__name__,
        marks=[] if MODULES[kind.__module__] is kind else [pytest.mark.full],
    )
    for kind in CLASSES
]


def rows(id: str, title: str) -> tuple[tuple[str, ...], ...]:
    return next(section.rows for section in page(id).sections if section.title == title)


def printed(capsys, *argv: str) -> str:
    assert cli.main([*argv]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("env_class", CLASSES, ids=lambda kind: kind.__name__)
def test_every_docstring_has_all_labels_and_no_word_is_lost(env_class):
    texts = docstring(env_class)
    for label in ("Rules", "Actions", "Observation", "Reward", "Episode ends"):
        assert texts[label], f"the docstring of {env_class.__name__} lacks: {label}"
    text = inspect.cleandoc(env_class.__doc__)
    kept = " ".join(part for parts in texts.values() for part in parts).lower().split()
    labels = {word.lower() for label in LABELS for word in f"{label} {label}:".split()}
    lost = {word for word in text.lower().split() if word not in kept} - labels
    assert lost <= {"(field", "`obs`):", "`reward`):"}, "words of the docstring that got lost"


@pytest.mark.parametrize("env_class", PAGES)
def test_every_row_of_a_page_has_a_meaning(env_class):
    sections = {section.title: section.rows for section in page(CLASSES[env_class]).sections}
    assert "Observation layout" in sections, "define `observation_layout`: meanings by index"
    for title in ("Observation layout", "State", "Constructor fields", "Params"):
        bare = [name for name, *_, what in sections.get(title, ()) if not what and name != "all"]
        assert not bare, f"{title} of {CLASSES[env_class]}: add a comment to {bare}"


def test_labels_start_lines_or_follow_sentences():
    class Example(jaxenvs.Env):
        """Walk: on.

        It is about
        cells.

        Actions: 0 stay,
            1 walk. Reward: one. Episode ends: after 3 *
        steps.

        Observation (field `obs`): none.
        """

    texts = docstring(Example)
    assert texts["Rules"] == ("Walk: on.", "It is about cells.")
    assert texts["Actions"] == ("0 stay, 1 walk.",) and texts["Reward"] == ("One.",)
    assert texts["Episode ends"] == ("After 3 * steps.",) and texts["Observation"] == ("None.",)


@pytest.mark.parametrize("id", IDS)
def test_sizes_on_a_page_equal_those_of_the_arrays(id, compiled):
    obs, state = compiled(id).reset(jax.random.key(0), None)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    table = rows(id, "State")
    assert table[-1][3] == str(size) and ("state", f"{size} bytes") in rows(id, "In short")
    assert sum(int(row[3]) for row in table[:-1]) == size
    arrays = obs if isinstance(obs, dict) else {"": obs}
    listed = rows(id, "Observation")[: len(arrays)]  # The default observation comes first.
    for label, dtype, shape, values, nbytes in listed:
        array = arrays.pop(label.strip("`").split()[-1] if isinstance(obs, dict) else "")
        assert (dtype, nbytes) == (str(array.dtype), str(array.nbytes))
        assert shape == (" x ".join(map(str, array.shape)) or "one number") and values != "any"
    assert not arrays


def test_every_value_of_obs_is_listed():
    names = {row[0] for row in rows("Grid-v0", "Observation")}
    kinds = {f"`obs={kind!r}`" for kind in jaxenvs.make("Grid-v0").observations} - {"`obs='dict'`"}
    assert kinds < names and "`obs='dict' mission`" in names
    env = jaxenvs.make("Craft-Classic-Ids-v0")
    layout = dict(rows("Craft-Classic-Ids-v0", "Observation layout"))
    items = env.rules.items
    assert layout[f"`ids[{env.layout.items.start + items.index('diamond')}]`"] == "diamond"
    assert layout[f"`ids[{env.layout.light}]`"].startswith("daylight")
    angle = dict(rows("Classic-CartPole-v0", "Observation layout"))["`[2]`"]
    assert "rad" in angle


def test_fields_and_params_have_values_and_comments():
    fields = {row[0]: row[1:] for row in rows("Grid-DoorKey-8x8-v0", "Constructor fields")}
    assert fields["`size`"] == ("`8`", "number of cells per side of the grid, walls included")
    params = {row[0]: row[1:] for row in rows("Classic-CartPole-v0", "Params")}
    assert params["`gravity`"] == ("`9.8`", "gravitational acceleration, m/s2")
    assert params["`max_steps_in_episode`"][1].startswith("Time limit in steps;")
    assert comments(int) == {}


def test_comments_are_inherited_and_taken_from_the_innermost_field():
    fields = {row[0]: row[1:] for row in rows("Grid-GoToDoor-5x5-v0", "Constructor fields")}
    assert fields["`size`"] == ("`5`", "number of cells per side of the grid, walls included")
    state = {row[0]: row[-1] for row in rows("Puzzle-Maze-10x10-v0", "State")}
    assert state["`instance.walls`"] == "1 in a wall, else 0"
    assert state["`board`"] == "the variable part of the state, which actions change"


def test_actions_have_the_environments_names():
    assert ("1", "`right`", "Right, D") in rows("Puzzle-SlidingTile-3x3-v0", "Actions")
    assert ("4", "`drop`", "Q, Left Shift") in rows("Grid-v0", "Actions")
    assert ("7", "`1,2`") in rows("Puzzle-LightsOut-5x5-v0", "Actions")
    assert ("1", "`U'`", "Shift U") in rows("Puzzle-Cube-3x3-v0", "Actions")
    env = jaxenvs.make("Puzzle-Cube-2x2-v0")
    assert isinstance(env.action_space, Discrete)
    assert len(rows("Puzzle-Cube-2x2-v0", "Actions")) == env.action_space.n
    names = [row[1] for row in rows("Craft-Classic-Ids-v0", "Achievements")]
    assert names == [f"`{name}`" for name in jaxenvs.spec("Craft-Classic-Ids-v0").achievements]


def test_references_of_random_play_are_of_registered_ids():
    """All ids with reference returns of random play are registered ids.

    A new id may lack these returns until `python -m jaxenvs.benchmarks.reference --ids ID` adds
    them.
    """
    random = reference()["random"]
    assert set(random) <= set(jaxenvs.registry.list())
    for id, row in random.items():
        low, high = jaxenvs.spec(id).env_class.reward_range
        assert row["episodes"] >= 1000 and row["length"] >= 1
        most = row["length"] + 0.1  # the mean length is rounded to one decimal
        assert low * most <= row["return"] <= high * most, id


def test_missing_records_are_marked(monkeypatch):
    """The page says "not recorded" for PPO if each run of it changed the task or used a bonus.

    A bonus is an intrinsic reward for exploration, such as RND.
    """
    (ppo,) = (r for r in rows("Grid-Empty-8x8-v0", "Reference returns") if r[0] == "PPO")
    row = reference()["trained"]["Grid-Empty-8x8-v0"][0]
    assert ppo[1].startswith(f"{np.mean(row['returns']):.4g} (") and row["command"] in ppo[3]
    apart = (["RND"], ["size=5"], ["scaled rewards", "size=5"])
    trained = {"Grid-Empty-8x8-v0": [{**row, "apart": each} for each in apart]}
    monkeypatch.setattr(
        "jaxenvs.commands.page.reference", lambda: {"random": {}, "trained": trained}
    )
    random, plain, *others = rows("Grid-Empty-8x8-v0", "Reference returns")
    assert random == ("random, legal actions", "not recorded", "", "")
    assert plain == ("PPO", "not recorded", "", "")
    names = ["PPO with RND", "PPO, `size=5`", "PPO with scaled rewards, `size=5`"]
    assert [other[0] for other in others] == names


def test_info_prints_the_page_within_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    text = printed(capsys, "info", "MiniGrid-DoorKey-8x8-v0")
    assert text.startswith("Grid-DoorKey-8x8-v0\n\nRULES\n  A wall splits the room;")
    assert max(map(len, text.splitlines())) <= 72 and "`" not in text
    for section in page("Grid-DoorKey-8x8-v0").sections:
        assert section.title.upper() in text
    words = text.split()
    for row in rows("Grid-DoorKey-8x8-v0", "State"):
        assert row[0].strip("`") in words


@pytest.mark.parametrize("id", [*IDS, "BabyAI-GoTo-v0"])
def test_no_name_of_a_table_is_broken_at_80_columns(id):
    content = page(id)
    lines = info.plain(content, 80)
    words = set("\n".join(lines).split())
    cells = [cell for section in content.sections for row in section.rows for cell in row]
    assert set(" ".join(cells).replace("`", "").split()) <= words
    assert max(map(len, lines)) <= 80


def test_a_last_column_without_room_goes_below_its_rows():
    rows = (("agent.position", "int32", "row and column"), ("time", "int32", ""))
    table = Section("State", (), ("field", "dtype", "what"), rows)
    wide = ["  field           dtype  what", "  agent.position  int32  row and column"]
    assert list(info._table(table, 40)) == [*wide, "  time            int32"]
    narrow = ["  field           dtype", "    what", "  agent.position  int32"]
    assert list(info._table(table, 30)) == [
        *narrow,
        "    row and column",
        "  time            int32",
    ]


def listed(capsys, *words: str) -> list[str]:
    return [line.split()[0] for line in printed(capsys, "list", *words).splitlines()]


def test_list_searches_families_ids_aliases_and_summaries(capsys):
    ids = jaxenvs.registry.list()
    assert listed(capsys) == ids
    # Searching for a family's name lists exactly the family's ids, although other ids contain the
    # name too.
    for family in ("Craft", "grid"):
        assert listed(capsys, family) == jaxenvs.registry.list(family.capitalize())
    assert listed(capsys, "DOORKEY-8") == ["Grid-DoorKey-8x8-v0"]
    # The search word is an alias of the id that is listed.
    assert listed(capsys, "MiniGrid-Empty-5x5") == ["Grid-Empty-5x5-v0"]
    lava = listed(capsys, "lava")
    # Grid-DistShift1-v0 is listed because the summary of its class contains the word.
    assert {id for id in ids if "Lava" in id} | {"Grid-DistShift1-v0"} <= {*lava}
    both = listed(capsys, "babyai", "open")
    assert "BabyAI-OpenDoor-v0" in both and all(id.startswith("BabyAI-") for id in both)


def learned(id: str) -> list[bool]:
    table = rows(id, "Reference returns")
    return ["not learned in " not in row[1] for row in table if not row[0].startswith("random")]


def test_a_run_no_better_than_random_play_is_marked_as_not_learned():
    # Both runs have return 0, like random play.
    assert learned("Grid-KeyCorridorS6R3-v0") == [False, False]
    # The first run, plain PPO, is worse than random play.
    assert learned("Grid-DistShift2-v0") == [False, True]
    assert all(learned("Grid-DoorKey-5x5-v0"))
    assert learned("Craft-Classic-Ids-v0")[0]
    _, alone, more = rows("Grid-KeyCorridorS6R3-v0", "Reference returns")
    assert alone[:2] == ("PPO", "not learned in 114,688 steps (0)")
    assert more[:2] == ("PPO with NovelD", "not learned in 2,002,944 steps (0)")
    texts = {
        id: [s.text for s in page(id).sections if s.title == "Reference returns"]
        for id in ("Grid-KeyCorridorS6R3-v0", "Grid-DoorKey-5x5-v0")
    }
    assert texts == {"Grid-KeyCorridorS6R3-v0": [UNLEARNED], "Grid-DoorKey-5x5-v0": [()]}


BAD = [
    (["info", "Grid-DorKey-8x8-v0"], "did you mean 'Grid-DoorKey-8x8-v0'"),
    (["info", "Grid"], "an id ends in its version; use 'Grid-v0'"),
    (["info", "Craftax-Symbolic-AutoReset-v1"], "here it is batches that reset themselves"),
    (["list", "Sokobn"], "no id, alias or summary has 'Sokobn'; did you mean 'Sokoban'"),
    (["list", "Grid", "xyzzy"], "no id, alias or summary has 'Grid xyzzy' (`jaxenvs list`"),
    (["list", "autoreset"], "no id has 'autoreset': here it is batches that reset themselves"),
    (["info"], "`jaxenvs info --help` lists the arguments"),
    (["list", "Grid", "--wide"], "`jaxenvs list --help` lists the arguments"),
]


@pytest.mark.parametrize(("argv", "says"), BAD)
def test_bad_input_is_one_sentence(argv, says, capsys):
    try:
        code = cli.main(argv)
    except SystemExit as stopped:
        code = stopped.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "") and says in err
    assert err.startswith(f"jaxenvs {argv[0]}: ") and err.count("\n") == 1

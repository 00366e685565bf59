"""Tests of `jaxenvs play ID --text`: games through a pipe, without display and pygame."""

import ast
import io
from pathlib import Path

import pytest

import jaxenvs
from jaxenvs import render
from jaxenvs.render import play, text
from jaxenvs.render.session import Session

ID = "Grid-Empty-5x5-v0"
NAMES = ["turn left", "turn right", "U", "U'", "7"]


@pytest.fixture
def typed(monkeypatch, capsys, no_display):
    """Return a function that plays with the given input lines; it returns exit code and output."""

    def run(*lines: str, args: tuple[str, ...] = ()) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        code = play.main([ID, "--text", *args])
        return code, capsys.readouterr().out

    return run


def test_a_game_is_won_by_typed_actions(typed):
    code, out = typed("forward", "fo", "1", "Forward", "2")
    # Six prompts: one for each of the five lines, and one that meets the end of the input.
    assert code == 0 and out.count("> ") == 6
    assert "Mission: get to the green goal square." in out and "> Forward" in out
    assert "You see a goal 2 steps ahead and 2 to the right." in out
    assert "Step 4 of at most 100" in out and "The episode ends here with the return 0.955." in out


def test_errors_list_the_allowed_actions(typed):
    _, out = typed("forwrd", "99", "d")
    assert "There is no action 'forwrd'; did you mean 'forward'?" in out
    assert "There is no action '99'" in out and "Legal now: 0 left, 1 right, 2 forward" in out
    assert "'d' matches 2 actions: 4 drop, 6 done." in out
    assert "Step 1 " not in out


def test_commands(typed):
    _, out = typed("undo", "right", "undo", "help", "actions", "new", "quit", "forward")
    assert "There is nothing to take back." in out and "begin a new level" in out
    assert out.count("Step 0 of") == 3 and out.count("Step 1 of") == 1
    assert "> forward" not in out  # no input is read after `quit`


def test_after_the_end_only_undo_and_new_work(typed):
    wins = ("forward", "forward", "right", "forward", "forward")
    _, out = typed(*wins, "left", "undo", "new")
    assert "The episode is over. Type `new` for the next level" in out
    assert out.rstrip().count("Step 4 of") == 2 and out.count("Step 0 of") == 2


def test_control_c_ends_the_game(monkeypatch, capsys):
    class Interrupted(io.StringIO):
        def readline(self, *_):
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Interrupted())
    assert text.play(Session(jaxenvs.make(ID)), ID) == 0
    assert capsys.readouterr().out.endswith("> \n")


@pytest.mark.parametrize("more", [("--keys", "up"), ("--gif", "a.gif"), ("--screenshot", "a.png")])
def test_text_excludes_files_and_keys(more, capsys):
    assert play.main([ID, "--text", *more]) == 2
    assert "--text plays in the terminal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "choice"),
    [
        ("turn right", text.Choice(action=1)),
        ("TURN  right", text.Choice(action=1)),
        ("right", text.Choice(action=1)),
        ("u", text.Choice(action=2)),
        ("u'", text.Choice(action=3)),
        ("7", text.Choice(action=4)),
        ("0", text.Choice(action=0)),
        ("undo", text.Choice(command="undo")),
    ],
)
def test_lines_are_parsed_as_actions_and_commands(line, choice):
    assert text.chosen(line, NAMES, [0, 1, 2, 3, 4], ["left", "right"]) == choice


def test_an_illegal_action_is_refused_with_the_legal_ones():
    problem = text.chosen("U", NAMES, [0, 4]).problem
    assert problem == "'U' is not legal now; legal actions: 0 turn left, 7."
    assert text.chosen("1", NAMES, [0, 4]).problem.startswith("'turn right' is not legal")


def test_a_prefix_of_illegal_actions_is_reported_as_illegal():
    assert text.chosen("TURN r", NAMES, [0, 4]).action == -1
    assert text.chosen("TURN r", NAMES, [0, 4]).problem.startswith("'turn right' is not legal now")
    problem = text.chosen("turn", NAMES, [2, 4]).problem
    assert problem == "'turn' matches 2 actions, none of them legal now; legal actions: 2 U, 7."


def test_a_suggestion_ends_in_one_question_mark():
    problem = text.chosen("turn lefd", NAMES, [0, 1]).problem
    assert "or 'undo'? Legal now: 0 turn left" in problem


def test_long_lines_are_quoted_in_part():
    for line in ("9" * 5000, "a" * 100_000):  # `int` accepts at most 4300 digits
        problem = text.chosen(line, NAMES, [0]).problem
        assert problem.startswith(f"There is no action '{line[0] * 57}...'. Legal now:")
        assert len(problem) < 200


@pytest.mark.parametrize("code", ["ascii", "utf-8"])
def test_bytes_outside_the_terminals_encoding_are_accepted(monkeypatch, no_display, code):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"n\xc3\xa9\xff\nquit\n"), code))
    monkeypatch.setattr("sys.stdout", out)
    assert play.main([ID, "--text"]) == 0
    out.seek(0)
    assert "There is no action 'n" in out.read()


def test_a_closed_input_ends_the_game(monkeypatch, capsys, no_display):
    monkeypatch.setattr("sys.stdin", None)
    assert play.main([ID, "--text"]) == 0
    assert "Actions: 0 left" in capsys.readouterr().out


def test_only_the_first_of_many_actions_are_listed():
    class Many(Session):
        def __init__(self) -> None:
            self.env = jaxenvs.make("Puzzle-LightsOut-7x7-v0")

    session = Many()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "legal", lambda _: list(range(49)))
        assert text.offered(session).endswith("39 5,4 and 9 more (`actions` lists them).")
        assert "48 6,6." in text.answer(session, text.Choice(command="actions"))


def test_it_needs_neither_pygame_nor_pillow():
    """No module that `play.py` imports at its top level, even indirectly, imports pygame or PIL."""
    folder = Path(render.__file__).parent
    waiting, seen = ["play"], set()
    while waiting:
        seen.add(name := waiting.pop())
        for node in ast.parse((folder / f"{name}.py").read_text()).body:
            names = [alias.name for alias in getattr(node, "names", [])]
            module = getattr(node, "module", None) or ""
            assert not {"pygame", "PIL"} & {n.split(".")[0] for n in (*names, module)}, name
            near = [module] if module else names
            if getattr(node, "level", 0) == 1:
                waiting += [n for n in near if n not in seen]
    assert {"text", "session", "arguments", "gif"} <= seen and "window" not in seen

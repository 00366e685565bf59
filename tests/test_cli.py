"""The `jaxenvs` command: its table, its help, and what completes it in three shells."""

import shutil
import subprocess
import sys

import pytest

import jaxenvs
from jaxenvs import checking, cli, completion

IDS = jaxenvs.registry.list()


def run(argv: list[str], capsys) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    try:
        code = cli.main(argv)
    except SystemExit as stopped:
        code = stopped.code
    return (code, *capsys.readouterr())


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_examples_that_name_it(name, capsys):
    code, out, err = run([name, "--help"], capsys)
    assert (code, err) == (0, "") and f"usage: jaxenvs {name} " in out
    examples = out.partition("examples:\n")[2].splitlines()
    assert len(examples) >= 2 and all(line.startswith(f"  jaxenvs {name}") for line in examples)
    words = " ".join(examples).split()
    ids = [word for word in words if "-v0" in word and not word.startswith("Mine-")]
    for id in ids:
        assert jaxenvs.spec(id)
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert all(option in out.partition("examples:")[0] for option in options)


def test_the_help_lists_all_commands(capsys):
    code, out, _ = run(["--help"], capsys)
    assert code == 0 and all(f"\n  {name} " in out for name in cli.COMMANDS)
    assert run([], capsys)[0] == 2
    assert run(["--version"], capsys)[1] == f"jaxenvs {jaxenvs.__version__}\n"


BAD = [
    (["trian"], "no command 'trian'; did you mean 'train'"),
    (["--completion"], "name bash, zsh, fish"),
    (["--completion", "csh"], "name bash, zsh, fish, not 'csh'"),
    (["check"], "ID"),
    (["check", "Grid-Emty-5x5-v0"], "did you mean 'Grid-Empty-5x5-v0'"),
    (["check", "Grid-v0", "--steps", "x"], "'x' must be a whole number, 0 to"),
    (["check", "Grid-v0", "--seed", "-1"], "'-1' must be a whole number, 0 to"),
]


@pytest.mark.parametrize(("argv", "says"), BAD)
def test_bad_input_is_one_sentence(argv, says, capsys):
    code, out, err = run(argv, capsys)
    assert (code, out) == (2, "") and says in err and err.count("\n") == 1


def test_a_missing_extra_is_named(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxenvs.baselines.train", None)
    absent = cli.Command("nothing", "no_such_package.of_a_test", "train")
    monkeypatch.setitem(cli.COMMANDS, "absent", absent)
    code, _, err = run(["absent"], capsys)
    assert code == 2 and 'pip install "jaxenvs[train]"' in err


def test_check_reports_each_id_and_ends_with_the_worst(capsys, monkeypatch):
    asked = []

    def check_env(id, *, steps, seed):
        asked.append((id, steps, seed))
        if id.startswith("Puzzle"):
            raise checking.ContractError("breaks its contract:\nreset: it is random")
        return ["reset", "step"]

    monkeypatch.setattr(checking, "check_env", check_env)
    argv = ["check", "Grid-v0", "Puzzle-2048-v0", "Craft-Classic-Ids-v0", "--steps", "9"]
    code, out, err = run([*argv, "--seed", "3"], capsys)
    assert code == 1 and asked == [(id, 9, 3) for id in argv[1:4]]
    assert out.splitlines()[0] == "Grid-v0: keeps the contract (2 checks, 9 random steps)"
    assert len(out.splitlines()) == 2 and err.startswith("Puzzle-2048-v0: breaks its contract:")


@pytest.fixture(scope="module")
def scripts():
    """The script of each shell; what the commands print of themselves is asked for once."""
    with pytest.MonkeyPatch.context() as patch:
        known = completion.words()
        patch.setattr(completion, "words", lambda: known)
        yield {shell: completion.script(shell) for shell in cli.SHELLS}, known


def test_the_words_are_those_of_the_help(scripts):
    _, known = scripts
    assert list(known) == list(cli.COMMANDS)
    assert {"--gif", "--keys", "--tile-size"} < set(known["play"].options)
    assert {"--algo", "--entropy", "--capacity", "--simulations"} < set(known["train"].options)
    assert set(known["train"].values["--algo"]) >= {"ppo", "davi", "ppo-ray"}
    assert known["solve"].values["--terminate"] == ("first", "optimal")
    assert known["solve"].arguments == tuple(jaxenvs.registry.list("Puzzle"))
    assert set(IDS) < set(known["info"].arguments) and "CartPole-v1" in known["info"].arguments
    assert known["watch"].values["--random"] == known["info"].arguments
    assert all("--help" in word.options for word in known.values())


COMPLETED = [
    (["ch"], {"check"}),
    ([""], set(cli.COMMANDS)),
    (["--comp"], {"--completion"}),
    (["--completion", "z"], {"zsh"}),
    (["info", "Grid-Empty-R"], {id for id in IDS if id.startswith("Grid-Empty-R")}),
    (["play", "Grid-v0", "--scr"], {"--screenshot"}),
    (["solve", "--terminate", "o"], {"optimal"}),
    (["watch", "--random", "Classic-"], {"Classic-CartPole-v0"}),
    (["list", ""], {id.split("-")[0] for id in IDS}),
    (["train", "--algo", "ppo-r"], {"ppo-rnn", "ppo-ray"}),
    (["train", "Grid-v0", "--algo", "dqn", "--capac"], {"--capacity"}),
]


@pytest.mark.parametrize(("words", "fits"), COMPLETED)
def test_bash_completes(words, fits, scripts):
    at = len(words)
    line = " ".join(f"'{word}'" for word in ["jaxenvs", *words])
    ask = f'COMP_WORDS=({line}) COMP_CWORD={at}; _jaxenvs; printf "%s\\n" "${{COMPREPLY[@]}}"'
    script = f"{scripts[0]['bash']}\n{ask}"
    done = subprocess.run(["bash", "-u"], input=script, capture_output=True, text=True, check=True)
    assert (set(done.stdout.split()), done.stderr) == (fits, "")


@pytest.mark.parametrize(("words", "fits"), COMPLETED)
def test_fish_completes(words, fits, scripts, tmp_path):
    if not shutil.which("fish"):
        pytest.skip("no fish here")
    file = tmp_path / "jaxenvs.fish"
    file.write_text(scripts[0]["fish"])
    ask = f"source {file}; complete -C 'jaxenvs {' '.join(words)}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", ask], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} >= fits


@pytest.mark.parametrize(("words", "fits"), COMPLETED)
def test_zsh_completes(words, fits, scripts):
    if not shutil.which("zsh"):
        pytest.skip("no zsh here")
    given = " ".join(f"'{word}'" for word in ["jaxenvs", *words])
    body = scripts[0]["zsh"].rpartition("\n")[0]  # without what registers the function
    ask = f"words=({given}); CURRENT={len(words) + 1}; _files() {{ }}"
    shown = 'compadd() { shift; for w in "$@"; do [[ $w == ${word}* ]] && echo $w; done }'
    script = f"{shown}\n{body}\n{ask}\n_jaxenvs"
    done = subprocess.run(["zsh", "-f"], input=script, capture_output=True, text=True, check=False)
    assert (set(done.stdout.split()), done.stderr) == (fits, "")


def test_no_word_needs_quotes_in_a_shell(scripts):
    for text in scripts[0].values():
        ids = next(line for line in text.splitlines() if "ids" in line and "Grid-v0" in line)
        assert not set(ids) & set("$`\\'*?[]{}<>|&;")

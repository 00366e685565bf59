"""Tests of `--set NAME=VALUE`, whose grammar is the same for all commands."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxenvs
from jaxenvs.baselines.run.options import fields as trained
from jaxenvs.commands import parser
from jaxenvs.commands.fields import gathered, parse, written

READ = [
    ("true", True),
    ("False", False),
    ("none", None),
    ("null", None),
    ("5", 5),
    ("-1", -1),
    ("1e-3", 0.001),
    ("full", "full"),
    ("/levels/a b[1].txt", "/levels/a b[1].txt"),
    ("a=b", "a=b"),
    ("", ""),
    ("'5'", "5"),
    ('"a, b"', "a, b"),
    ("it's", "it's"),
    ("(1, 2)", (1, 2)),
    ("[go_to, 'pick, up',]", ("go_to", "pick, up")),
    ("[[true], (null)]", ((True,), (None,))),
    ("[]", ()),
    ('{"a": [null, 1]}', {"a": [None, 1]}),
    ('[{"a": 1, "b": {}}, 2]', ({"a": 1, "b": {}}, 2)),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_train_and_the_players_parse_values_alike(text, value, monkeypatch):
    pair, made, env = f"size={text}", {}, jaxenvs.make("Grid-v0")
    monkeypatch.setattr(parser.registry, "make", lambda id, **given: made.update(given) or env)
    parser.make_env("Grid-v0", [pair])
    # Compare by `repr`, because True == 1.
    assert repr(made) == repr(trained((pair,))) == repr({"size": value})


SIMPLE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(
    st.recursive(
        SIMPLE | st.dictionaries(st.text(), st.text() | st.integers()),
        lambda inner: st.tuples(inner) | st.tuples(inner, inner),
        max_leaves=5,
    )
)
def test_written_pairs_are_parsed_to_the_same_value(value):
    assert parse([written("name", value)]) == {"name": value}


BAD = [
    ("size", "write NAME=VALUE, such as view_size=5"),
    ("=5", "write NAME=VALUE"),
    ("view-size=5", "write NAME=VALUE"),
    ("a=[1, 2", "lacks a ']'; quote it if it is a string"),
    ("a=(1]", r"lacks a '\)'"),
    ("a=(1) 2", "continues after its closing bracket"),
    ("a='b", "close it with ', or quote the whole value"),
    (r"a='\x'", "is not a complete string"),
    ("a={1", "is not a dict; write JSON"),
    (f"a={'[' * 17}{']' * 17}", "tuples may be nested 16 deep"),
    (f"a={'[' * 9**5}", "lacks a ']'"),
    (f"a={'{' * 9**5}", "is not a dict"),
]


@pytest.mark.parametrize(("pair", "says"), BAD)
def test_errors_state_what_to_write(pair, says):
    with pytest.raises(ValueError, match=says) as caught:
        parse([pair])
    assert str(caught.value).startswith(f"--set {pair}: ")


def test_pairs_may_share_an_option_or_not_and_precede_other_arguments():
    words = "--set a=1 ID --seed 3 --set b=2 c=3 --set=d=4 --gif e=5.gif"
    rest, pairs = "ID --seed 3 --gif e=5.gif", "--set a=1 b=2 c=3 d=4"
    assert gathered(words.split()) == f"{rest} {pairs}".split()
    assert gathered(["ID"]) == ["ID"]
    # A word without `=` stays where it is; `parse` raises the error later.
    assert gathered(["ID", "--set", "size"]) == ["ID", "--set", "size"]
    assert gathered(["--set", "--help"]) == ["--set", "--help"]
    assert gathered(["ID", "--set"]) == ["ID", "--set"]

"""Tests of `jaxenvs.render` and `jaxenvs.animate`: all accepted types of states, and errors."""

import base64
import importlib
import io
import pickle
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxenvs
from jaxenvs.core.env import Reset
from jaxenvs.core.extras import MissingExtraError
from jaxenvs.core.png import Picture
from jaxenvs.core.typed import installation
from jaxenvs.core.vector import VectorState
from jaxenvs.render import frames
from jaxenvs.testing.contract import plan

GRID = "Grid-DoorKey-5x5-v0"
TIMES = 5


@pytest.fixture(scope="module")
def played(compiled):
    """Return an environment, and states of random play with time as their first axis."""
    subject = compiled(GRID)
    stacked = jax.device_get(subject.rollout(*plan(subject.env), subject.env.default_params)[1])
    return subject.env, jax.tree.map(lambda leaf: leaf[:TIMES], stacked.state)


def at(states, i):
    return jax.tree.map(lambda leaf: leaf[i], states)


def gif_frames(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as image:
        shown = []
        for i in range(image.n_frames):
            image.seek(i)
            shown.append(np.asarray(image.convert("RGB")))
    return np.stack(shown)


def test_a_picture_equals_the_compositors_and_displays_in_notebooks(played):
    env, states = played
    picture = jaxenvs.render(env, at(states, 0), tile_size=8)
    wanted = frames.board_painter(env, 8)(at(states, slice(1)))[0]
    np.testing.assert_array_equal(picture, wanted)
    assert isinstance(picture, np.ndarray) and type(np.asarray(picture)) is np.ndarray
    with Image.open(io.BytesIO(picture._repr_png_())) as image:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), picture)
    cut = picture[:9, 3:]
    assert Image.open(io.BytesIO(cut._repr_png_())).size == (37, 9)
    assert picture[..., 0]._repr_png_() is None and picture[:0]._repr_png_() is None
    assert isinstance(picture.mean(), float) and type(picture / 255) is np.ndarray
    assert max(jaxenvs.render(env, at(states, 0)).shape) <= frames.ANIMATION_SIZE
    assert type(pickle.loads(pickle.dumps(picture))) is Picture


@pytest.mark.parametrize("colours", [2, 256, 257])
def test_a_png_has_the_exact_colours(colours):
    every = np.random.default_rng(colours).choice(2**24, colours, replace=False).astype(np.uint32)
    numbers = np.arange(20 * 31) % colours
    packed = every[numbers].reshape(20, 31)
    picture = np.stack([packed >> 16, packed >> 8 & 255, packed & 255], -1).astype(np.uint8)
    with Image.open(io.BytesIO(picture.view(Picture)._repr_png_())) as image:
        assert image.mode == ("P" if colours <= 256 else "RGB")
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), picture)


def test_the_package_is_callable_and_importable():
    import jaxenvs.render as package

    assert package is jaxenvs.render is sys.modules["jaxenvs.render"] and callable(package)
    assert package.frames is frames and package.animate is jaxenvs.animate
    assert pickle.loads(pickle.dumps(package)) is package
    assert importlib.reload(package) is package and callable(package)
    assert {"render", "animate"} <= set(dir(jaxenvs))


def test_pictures_and_replays_need_only_the_core_packages(played, monkeypatch, tmp_path):
    env, states = played
    for name in ("PIL", "imageio", "imageio_ffmpeg", "pygame"):
        # None makes `import` fail, as if the package were not installed.
        monkeypatch.setitem(sys.modules, name, None)
    assert jaxenvs.render(env, at(states, 0))._repr_png_()[1:4] == b"PNG"
    assert jaxenvs.animate(env, states, tmp_path / "a.html").stat().st_size > 5_000
    shown = jaxenvs.animate(env, states)
    for call in (shown._repr_html_, lambda: shown.save(tmp_path / "a.gif")):
        with pytest.raises(MissingExtraError, match="PIL.*" + re.escape(installation("play"))):
            call()
    with pytest.raises(MissingExtraError, match="imageio_ffmpeg"):
        shown.save(tmp_path / "a.mp4")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_states_may_have_every_form(played, tmp_path):
    """Stacked states, a list, a tuple and an iterator of states give the same animation."""
    env, states = played
    single = [at(states, i) for i in range(TIMES)]
    wanted = np.stack([jaxenvs.render(env, state) for state in single])
    forms = (states, jax.tree.map(jnp.asarray, states), single, tuple(single), iter(single))
    for form in forms:
        path = jaxenvs.animate(env, form, tmp_path / "a.gif")
        np.testing.assert_array_equal(gif_frames(path.read_bytes()), wanted)
    shown = jaxenvs.animate(env, states)
    content = re.fullmatch(
        r'<img alt="[^"]*" src="data:image/gif;base64,(.*)">', shown._repr_html_()
    )
    assert base64.b64decode(content[1]) == (tmp_path / "a.gif").read_bytes()
    assert len(shown) == TIMES and repr(shown).startswith("<5 pictures of DoorKey(")


def test_a_batch_is_a_wall(played):
    env, states = played
    # States with the leading axes (2 time steps, 4 boards).
    rows = jax.tree.map(lambda leaf: np.stack([leaf[:4]] * 2), states)
    batch = jaxenvs.make_vec(env, 4)
    whole = VectorState(env=rows, ended=None, pool=())
    pictures = frames.board_painter(env, 8)(at(states, slice(4)))
    wanted = frames.mosaic(pictures, 2)
    for given, of in ((whole, batch), (rows, env), (whole, env)):
        animation = jaxenvs.animate(of, given, tile_size=8)
        np.testing.assert_array_equal(gif_frames(_gif(animation)), [wanted, wanted])
        np.testing.assert_array_equal(jaxenvs.render(of, at(given, 0), tile_size=8), wanted)
    first = jaxenvs.render(batch, at(whole, 0), tile_size=8, boards=1)
    np.testing.assert_array_equal(first, pictures[0])


def _gif(animation) -> bytes:
    return base64.b64decode(animation._repr_html_().split("base64,")[1].removesuffix('">'))


def test_the_last_state_of_an_episode_is_shown_longer(played, tmp_path):
    env, states = played
    twice = jax.tree.map(lambda leaf: np.concatenate([leaf[:2], leaf[:3]]), states)
    with Image.open(jaxenvs.animate(env, twice, tmp_path / "a.gif", fps=10)) as image:
        seconds = []
        for i in range(image.n_frames):
            image.seek(i)
            seconds.append(image.info["duration"] / 1000)
    assert seconds == [0.1, 0.8, 0.1, 0.1, 0.8]


def test_params_reach_the_painter(monkeypatch, played):
    env, states = played

    def lit(self, state, tile_size, params=None):
        bright = (params or self.default_params).max_steps_in_episode // 10
        return jnp.full((4, 4, 3), bright).astype(jnp.uint8)

    class Lit(type(env)):
        """DoorKey whose picture is a grey value that depends on `max_steps_in_episode`."""

        picture = lit

    dark = env.default_params.replace(max_steps_in_episode=90)
    bright = Lit(size=5)
    state = at(states, 0)
    found = [jaxenvs.render(bright, state, params=params).max() for params in (None, dark)]
    assert found == [25, 9]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda e, s: jaxenvs.render(3, s), TypeError, "expected an environment.*got int 3"),
        (lambda e, s: jaxenvs.render("Grid-v0", s), TypeError, "got str 'Grid-v0'"),
        (lambda e, s: jaxenvs.render(e, (s, s)), TypeError, "must be a GridState"),
        (lambda e, s: jaxenvs.render(e, at(s, None)), TypeError, "animate for states over time"),
        (lambda e, s: jaxenvs.render(e, at(s, slice(0))), ValueError, "no states to draw"),
        (lambda e, s: jaxenvs.render(e, at(s, 0), boards=0), ValueError, "boards=0 is out of"),
        (lambda e, s: jaxenvs.animate(e, at(s, 0)), TypeError, "jaxenvs.render for one state"),
        (lambda e, s: jaxenvs.animate(e, []), ValueError, "no states to draw"),
        (lambda e, s: jaxenvs.animate(e, [at(s, 0), 3]), TypeError, "got int 3"),
        (lambda e, s: jaxenvs.animate(e, s, fps=0), ValueError, "fps=0 is out of range"),
        (lambda e, s: jaxenvs.animate(e, s, fps="8"), TypeError, "fps must be a number, got '8'"),
        (lambda e, s: jaxenvs.render(e, jax.random.key(0)), TypeError, "must be a GridState"),
        (lambda e, s: jaxenvs.render(e, Reset(0, at(s, 0))), TypeError, "give its field `state`"),
        (lambda e, s: jaxenvs.render(e, at(s, 0), tile_size=0), ValueError, "tile_size=0 is out"),
        (lambda e, s: jaxenvs.render(e, at(s, 0), params=3), TypeError, "params must be like"),
        (lambda e, s: jaxenvs.animate(e, s, params=3), TypeError, "animate: params must be like"),
        (lambda e, s: jaxenvs.animate(e, [at(s, 0), s]), TypeError, "state 1 has another batch"),
        (lambda e, s: jaxenvs.animate(e, s, "a.avi"), ValueError, "a.avi must end in .gif, .mp4"),
        (lambda e, s: jaxenvs.animate(e, s, "/no/a.gif"), OSError, "'/no/a.gif'"),
    ],
)
def test_errors_name_the_mistake(call, error, words, played):
    with pytest.raises(error, match=words):
        call(*played)

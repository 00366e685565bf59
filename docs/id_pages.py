"""Make the documentation's pages about environments: one per id, one per family, and an overview.

`jaxenvs.commands.page` makes the content of an id's page. This module formats the content as
Markdown. It draws an animation of random play for the page, and a picture of a level for the tables
of ids. The environment variable IDS (ids separated by spaces) selects the ids that have a page;
without it, all ids have one.
"""

import inspect
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenvs
from jaxenvs import registry
from jaxenvs.commands.learned import is_plain, is_same_task, with_additions
from jaxenvs.commands.page import Page, reference, state_bytes
from jaxenvs.core import drawing, png
from jaxenvs.core.env import Env
from jaxenvs.core.masking import legal
from jaxenvs.core.spaces import Discrete
from jaxenvs.puzzles import Puzzle

ORIGINALS = {  # package whose rules an environment reproduces (`Env.package`) -> Markdown link
    "craftax": "[Craftax](https://github.com/MichaelTMatthews/Craftax)",
    "gymnasium": "[Gymnasium](https://github.com/Farama-Foundation/Gymnasium)",
    "minigrid": "[MiniGrid](https://github.com/Farama-Foundation/Minigrid)",
    "xminigrid": "[XLand-MiniGrid](https://github.com/dunnolab/xland-minigrid)",
}
SEED = 3  # random seed of the level in pictures and animations
# Limit in pixels on the longer side of a picture in a table; the page shows it `SIDE // 2` wide.
SIDE = 240
STEPS, ANIMATION_SIDE, ANIMATION_BYTES = (
    32,
    320,
    100_000,
)  # limits of an animation: number of pictures, pixels of the longer side, bytes of the file
_SPECIAL = re.compile(r"([\\*_>\[\]#|])")


def ids(family: str | None = None) -> list[str]:
    """Return the ids of one family, or of all families, that have a page."""
    wanted = os.environ.get("IDS", "").split()
    return [id for id in registry.list(family) if not wanted or id in wanted]


def families() -> list[str]:
    """Return the families that have a page."""
    return [family for family in registry.families() if ids(family)]


def modules() -> dict[str, list[str]]:
    """Return a dict: name of a Python module -> ids whose class it defines and that have a page."""
    groups: dict[str, list[str]] = defaultdict(list)
    for id in ids():
        groups[jaxenvs.spec(id).env_class.__module__].append(id)
    return dict(groups)


def rendered(content: Page) -> str:
    """Return the page of an id as Markdown."""
    lines = [f"# {content.id}", "", _neighbours(content.id), ""]
    lines += [
        f"![Random play in the level of seed {SEED}]({content.id}.gif)",
        "",
        *_commands(content),
    ]
    for section in content.sections:
        lines += ["", f"## {section.title}"]
        for text in section.text:
            lines += ["", escaped(text)]
        if section.rows:
            lines += ["", *_table(section.head, section.rows)]
    return "\n".join([*lines, "", *_sizes(content.id), *_use(content.id)])


def _neighbours(id: str) -> str:
    """Return links to the page of all families, the id's family, and the previous and next id."""
    family = jaxenvs.spec(id).family
    before, _, after = f" {' '.join(ids(family))} ".partition(f" {id} ")
    links = ["[All](index.md)", f"[{family}]({family}/index.md)"]
    links += [f"before: [{name}]({name}.md)" for name in before.split()[-1:]]
    links += [f"next: [{name}]({name}.md)" for name in after.split()[:1]]
    return " · ".join(links)


def _sizes(id: str) -> list[str]:
    """Return a section (as lines) with a table of the ids that share the environment class of `id`.

    The table contains `id` itself. If no other id has this class, the result is empty.
    """
    kind = jaxenvs.spec(id).env_class
    variants = [other for other in registry.list() if jaxenvs.spec(other).env_class is kind]
    if len(variants) == 1:
        return []
    rows = [_size(other, other == id) for other in variants]
    head = ("id", "fields", "board", "steps", "bytes of state", "random return")
    return ["## Sizes and variants", "", *_table(head, rows), ""]


def _size(id: str, is_here: bool) -> tuple[str, ...]:
    spec, env = jaxenvs.spec(id), jaxenvs.make(id)
    fields = ", ".join(f"`{name}={value!r}`" for name, value in spec.fields.items())
    random = reference()["random"].get(id)
    return (
        f"`{id}` (here)" if is_here else f"`{id}`",
        fields or "defaults",
        " x ".join(map(str, drawing.board_shape(env))),
        str(env.default_params.max_steps_in_episode),
        str(state_bytes(env)),
        f"{random['return']:.4g}" if random else "not recorded",
    )


def _use(id: str) -> list[str]:
    """Return the sections on the use of an id in Python and on the original environment, as lines.

    Without an original in another package, the second section is left out.
    """
    spec = jaxenvs.spec(id)
    code = [
        "import jax",
        "import jaxenvs",
        "",
        f'env = jaxenvs.make("{id}")',
        "obs, state = env.reset(jax.random.key(0))",
        "action = env.action_space.sample(jax.random.key(1))",
        "step = env.step(jax.random.key(2), state, action)",
        "picture = jaxenvs.render(env, step.state)  # a NumPy array; notebooks display it",
    ]
    lines = ["## In Python", "", "```python", *code, "```", ""]
    if original := ORIGINALS.get(spec.env_class.package):
        source = (inspect.getdoc(sys.modules[spec.env_class.__module__]) or "").split("\n")[0]
        lines += [
            "## The original",
            "",
            escaped(source),
            "",
            f"The rules are those of {original}.",
            "",
        ]
    return lines


def _table(head: tuple[str, ...], rows: Any) -> Iterator[str]:
    for i, row in enumerate((head, *rows)):
        yield f"| {' | '.join(map(escaped, row))} |"
        if i == 0:
            yield "|" + " --- |" * len(row)


def escaped(text: str) -> str:
    """Escape the special characters of Markdown outside code."""
    parts = re.split(r"(`[^`]*`)", text)
    # Parts with an even index are outside code. `<` becomes `&lt;`, because Markdown would show a
    # backslash before `<`.
    for i in range(0, len(parts), 2):
        parts[i] = _SPECIAL.sub(r"\\\1", parts[i]).replace("<", "&lt;")
    return "".join(parts)


def _commands(content: Page) -> list[str]:
    """Return a Markdown code block with commands for an id, such as `jaxenvs play ID`."""
    id, env = content.id, jaxenvs.make(content.id)
    lines = [f"jaxenvs play {id}", f"jaxenvs check {id}", f"jaxenvs train {id}"]
    if env.fully_observed:
        lines.append(f"jaxenvs train {id} --algo alphazero")
    if isinstance(env, Puzzle):
        lines.append(f"jaxenvs solve {id} --watch")
    return ["```", *lines, "```"]


def overview() -> str:
    """Return the page of all families: for each, the number of ids and a picture of a level."""
    rows = []
    for family in families():
        first, *_ = members = ids(family)
        rows.append(
            f"| [{family}]({family}/index.md) | {len(members)} | [![{first}]({first}.png)"
            f"{{ width={SIDE // 2} }}]({family}/index.md) |"
        )
    head = ["# Environments", "", f"{len(ids())} ids, a page for each.", ""]
    return "\n".join([*head, "| family | ids | a level |", "| --- | --- | --- |", *rows, ""])


def listing(family: str) -> str:
    """Return the page of a family, a table of its ids.

    A row has a picture of a level, the summary, and the returns of random play and of PPO.
    """
    head = "| a level | id | task | random | PPO (steps) |"
    lines = [f"# {family}", "", head, "| --- | --- | --- | --- | --- |"]
    table = reference()
    for id in ids(family):
        random = table["random"].get(id)
        cells = [
            f"![{id}](../{id}.png){{ width={SIDE // 2} loading=lazy }}",
            f"[{id}](../{id}.md)",
            escaped(jaxenvs.spec(id).summary),
            f"{random['return']:.4g}" if random else "not recorded",
            _by_ppo(table["trained"].get(id, [])),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _by_ppo(runs: list[dict[str, Any]]) -> str:
    """Format the mean return and the steps of the best PPO run among an id's recorded runs.

    A run that has learned ranks above one that has not. Among runs that have learned, those without
    an exploration bonus and scaled rewards rank highest. Of runs with equal rank, the longest one
    is the best. Runs that changed the task are ignored.
    """

    def rank(run: dict[str, Any]) -> tuple[bool, bool, int]:
        return run["learned"], run["learned"] and is_plain(run), run["steps"]

    same = [run for run in runs if run["algorithm"] == "ppo" and is_same_task(run)]
    if not same:
        return "not recorded"
    best = max(same, key=rank)
    outcome = f"{np.mean(best['returns']):.4g}" if rank(best)[0] else "not learned"
    return f"{outcome}{with_additions(best)} ({best['steps'] / 1e6:.2g} M)"


def picture(id: str) -> bytes:
    """Return a picture of a level as PNG; each build of the documentation makes the same bytes."""
    env = jaxenvs.make(id)
    size = drawing.fitting_tile_size(drawing.board_shape(env), SIDE, SIDE, 32)
    state = env.reset(jax.random.key(SEED)).state
    return png.encoded(np.asarray(drawing.painter(env, size)(state, None)))


def animation(id: str) -> bytes:
    """Return a GIF of random legal actions; each build of the documentation makes the same bytes.

    The animation is shortened until it has at most `ANIMATION_BYTES` bytes.
    """
    from jaxenvs.render import frames, gif

    env = jaxenvs.make(id)
    states = jax.device_get(_played(env)(jax.random.key(SEED)))
    size = drawing.fitting_tile_size(drawing.board_shape(env), ANIMATION_SIDE, ANIMATION_SIDE, 32)
    pictures = frames.board_painter(env, size)(states)
    count = len(pictures)
    while len(content := gif.encoded((one, 1 / 8) for one in pictures[:count])) > ANIMATION_BYTES:
        count = count * 3 // 4
    return content


def _played(env: Env) -> Any:
    """Return a compiled function that plays `STEPS` random legal actions: key -> all states.

    An episode that ends is followed by a new one in the same level.
    """

    def play(key: Any) -> Any:
        first = env.reset(key).state

        def step(state: Any, key: Any) -> tuple[Any, Any]:
            if isinstance(env.action_space, Discrete):
                mask = env.action_mask(state)
                logits = legal(jnp.zeros(mask.shape, jnp.float32), mask)
                action = jax.random.categorical(key, logits)
            else:
                action = env.action_space.sample(key)
            moved = env.step(key, state, action)
            after = jax.tree.map(lambda a, b: jnp.where(moved.done, a, b), first, moved.state)
            return after, state

        return jax.lax.scan(step, first, jax.random.split(key, STEPS))[1]

    return jax.jit(play)

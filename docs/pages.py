"""Hook of mkdocs: makes the page of every id, and adds the pages that lie beside the code.

The results are not kept in the repository. `jaxenvs.commands.page` has the content of a page; its
picture is the level of one seed. Pages of environments take most of the time, so each core makes a
share: `pages.py FOLDER MODULE...` writes the pages of these modules.
"""

import functools
import inspect
import json
import os
import posixpath
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Set before jax is imported: each program draws one picture, so it should compile quickly.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)

import jax
import jax.numpy as jnp
import numpy as np

import jaxenvs
from jaxenvs import registry
from jaxenvs.commands.learned import is_plain, is_same_task, with_additions
from jaxenvs.commands.page import Page, page, reference, state_bytes
from jaxenvs.core import drawing, png
from jaxenvs.core.env import Env
from jaxenvs.core.masking import legal
from jaxenvs.core.spaces import Discrete
from jaxenvs.puzzles import Puzzle

ROOT = Path(__file__).resolve().parent.parent
# Files of the repository that become pages, and their addresses.
TAKEN = {
    "README.md": "index.md",
    "baselines/README.md": "learners.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/families.md": "benchmarks-families.md",
    "benchmarks/gpu.md": "benchmarks-gpu.md",
    "tests/README.md": "tests.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
ORIGINALS = {  # by the package whose rules are reproduced (`Env.package`)
    "craftax": "[Craftax](https://github.com/MichaelTMatthews/Craftax)",
    "gymnasium": "[Gymnasium](https://github.com/Farama-Foundation/Gymnasium)",
    "minigrid": "[MiniGrid](https://github.com/Farama-Foundation/Minigrid)",
    "xminigrid": "[XLand-MiniGrid](https://github.com/dunnolab/xland-minigrid)",
}
SEED, SIDE = 3, 320  # of the level; pixels of the longer side of its picture, at most
STEPS, FILM_SIDE, FILM_BYTES = 32, 192, 100_000  # of an animation; its bytes at most
TOLD = 20  # pages between two lines of progress
MOST_WORKERS = 8  # processes, each of which loads JAX
# A link or a picture; code, in a fence or in backquotes, matches with empty groups.
_LINK = re.compile(
    r"^```.*?^```$|`[^`\n]+`|\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
_SPECIAL = re.compile(r"([\\*_<>\[\]#|])")


def on_config(config: Any) -> Any:
    """Name the families in the navigation."""
    families = [{name: f"envs/{name}.md"} for name in registry.families()]
    for entry in config.nav:
        if "Environments" in entry:
            entry["Environments"] = [{"All": "envs/index.md"}, *families]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    from mkdocs.structure.files import File

    for name, content in generated():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **rest: Any) -> str:
    """Let the links of a page point into the site."""
    sources = {target: source for source, target in TAKEN.items()}
    uri = page.file.src_uri
    return relinked(markdown, sources.get(uri, f"docs/{uri}"), uri)


def generated() -> Iterator[tuple[str, str | bytes]]:
    """Every page and picture that is made here: its address and content."""
    for source, target in TAKEN.items():
        yield target, (ROOT / source).read_text("utf-8")
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        yield f"notebooks/{path.stem}.md", notebook(json.loads(path.read_text("utf-8")))
    yield "envs/index.md", _overview()
    for family in registry.families():
        yield f"envs/{family}.md", _listing(family)
    with tempfile.TemporaryDirectory() as folder:
        _make_all(Path(folder))
        for path in sorted(Path(folder).iterdir()):
            yield f"envs/{path.name}", path.read_bytes()


def _make_all(folder: Path) -> None:
    """Write the pages of all environments, with a process for each core, and print progress."""
    groups = modules()
    if len(groups) == 1:
        main(str(folder), *groups)
        return
    workers = min(os.cpu_count() or 1, MOST_WORKERS)
    shares: list[list[str]] = [[] for _ in range(workers)]
    sizes = [0] * workers
    for name in sorted(groups, key=lambda name: -len(groups[name])):
        least = sizes.index(min(sizes))
        shares[least].append(name)
        sizes[least] += len(groups[name])
    read, write = os.pipe()
    command = [sys.executable, __file__, str(folder)]
    children = [subprocess.Popen([*command, *share], stdout=write) for share in shares if share]
    os.close(write)
    with os.fdopen(read) as done:
        for count, _ in enumerate(done, 1):
            if count % TOLD == 0 or count == len(registry.list()):
                print(f"pages of environments: {count} of {len(registry.list())}", flush=True)
    if any(child.wait() for child in children):
        raise RuntimeError("a process that makes pages of environments failed, see above")


def main(folder: str, *names: str) -> None:
    """Write pages, pictures and animations of the ids of some modules; print each id."""
    jax.config.update("jax_compilation_cache_dir", str(ROOT / ".cache" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    groups = modules()
    for name in names:
        for id in groups[name]:
            path = Path(folder) / id
            path.with_name(f"{id}.md").write_text(rendered(page(id)), "utf-8")
            if id == groups[name][0]:
                path.with_name(f"{id}.gif").write_bytes(film(id))
            path.with_name(f"{id}.png").write_bytes(picture(id))
            print(id, flush=True)


@functools.cache
def modules() -> dict[str, list[str]]:
    """Ids by the module of their class; the first has the animation of all."""
    groups: dict[str, list[str]] = defaultdict(list)
    for id in registry.list():
        groups[jaxenvs.spec(id).env_class.__module__].append(id)
    return dict(groups)


def relinked(markdown: str, source: str, uri: str) -> str:
    """Turn links between files of the repository into links between pages.

    `source` is the file in the repository, `uri` the page. Links to other files become their names.
    """
    here = posixpath.dirname(uri)

    def link(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        text, (path, mark, anchor) = _LINK.sub(link, match[1]), match[2].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return f"[{text}]({match[2]})"
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        target = TAKEN.get(file) or (file[5:] if file.startswith("docs/") else None)
        if target is None:
            return text
        return f"[{text}]({posixpath.relpath(target, here or '.')}{mark}{anchor})"

    return _LINK.sub(link, markdown)


def rendered(content: Page) -> str:
    """Return a page as Markdown."""
    shown = modules()[jaxenvs.spec(content.id).env_class.__module__][0]
    lines = [f"# {content.id}", "", _beside(content.id), ""]
    lines += [
        f"![The level of seed {SEED}]({content.id}.png){{ .board }} "
        f"![Random play in {shown}]({shown}.gif){{ .board title='Random play in {shown}' }}"
    ]
    for section in content.sections:
        lines += ["", f"## {section.title}"]
        for text in section.text:
            lines += ["", escaped(text)]
        if section.rows:
            lines += ["", *_table(section.head, section.rows)]
    return "\n".join([*lines, "", *_sizes(content.id), *_use(content.id), *_commands(content)])


def _beside(id: str) -> str:
    """Links to the list, the family, and the ids before and after."""
    ids = registry.list(jaxenvs.spec(id).family)
    i = ids.index(id)
    links = ["[All](index.md)", f"[{jaxenvs.spec(id).family}]({jaxenvs.spec(id).family}.md)"]
    links += [f"before: [{ids[i - 1]}]({ids[i - 1]}.md)"] if i else []
    links += [f"next: [{ids[i + 1]}]({ids[i + 1]}.md)"] if i + 1 < len(ids) else []
    return " · ".join(links)


def _sizes(id: str) -> list[str]:
    """Compare the ids of one class."""
    kind = jaxenvs.spec(id).env_class
    ids = [other for other in registry.list() if jaxenvs.spec(other).env_class is kind]
    if len(ids) == 1:
        return []
    rows = [_size(other, other == id) for other in ids]
    head = ("id", "fields", "board", "steps", "bytes of state", "random return")
    return ["## Its sizes and variants", "", *_table(head, rows), ""]


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
    """A snippet of Python, and the original."""
    spec = jaxenvs.spec(id)
    code = [
        "import jax",
        "import jaxenvs",
        "",
        f'env = jaxenvs.make("{id}")',
        "obs, state = env.reset(jax.random.key(0))",
        "action = env.action_space.sample(jax.random.key(1))",
        "step = env.step(jax.random.key(2), state, action)",
        "picture = jaxenvs.render(env, step.state)  # which a notebook shows",
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


def notebook(content: dict[str, Any]) -> str:
    """Return a notebook with its outputs as Markdown."""
    parts = []
    for cell in content["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            said = output.get("data") or {"text/plain": output.get("text", "")}
            shown = {kind: "".join(lines) for kind, lines in said.items()}
            if page := shown.get("text/html"):
                parts.append(page)
            elif picture := shown.get("image/png"):
                parts.append(f'<img alt="a picture" src="data:image/png;base64,{picture.strip()}">')
            else:
                parts.append(f"```\n{shown['text/plain'].rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _table(head: tuple[str, ...], rows: Any) -> Iterator[str]:
    for i, row in enumerate((head, *rows)):
        yield f"| {' | '.join(map(escaped, row))} |"
        if i == 0:
            yield "|" + " --- |" * len(row)


def escaped(text: str) -> str:
    """Escape Markdown's special characters outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if i % 2 else _SPECIAL.sub(r"\\\1", p) for i, p in enumerate(parts))


def _commands(content: Page) -> list[str]:
    id, env = content.id, jaxenvs.make(content.id)
    lines = [f"jaxenvs play {id}", f"jaxenvs check {id}", f"jaxenvs train {id}"]
    if env.fully_observed:
        lines.append(f"jaxenvs train {id} --algo alphazero")
    if isinstance(env, Puzzle):
        lines.append(f"jaxenvs solve {id} --watch")
    return ["## At the command line", "", "```", *lines, "```", ""]


def _overview() -> str:
    rows = []
    for family in registry.families():
        ids = registry.list(family)
        rows.append(
            f"| [{family}]({family}.md) | {len(ids)} | [![{ids[0]}]({ids[0]}.png)"
            f"{{ width=120 }}]({family}.md) |"
        )
    count = len(registry.list())
    head = ["# Environments", "", f"{count} ids, a page for each.", ""]
    return "\n".join([*head, "| family | ids | |", "| --- | --- | --- |", *rows, ""])


def _listing(family: str) -> str:
    """The table of a family: picture, id, summary, returns."""
    head = "| | id | | random | PPO (steps) |"
    lines = [f"# {family}", "", head, "| --- | --- | --- | --- | --- |"]
    table = reference()
    for id in registry.list(family):
        random = table["random"].get(id)
        cells = [
            f"![{id}]({id}.png){{ width=96 loading=lazy }}",
            f"[{id}]({id}.md)",
            escaped(jaxenvs.spec(id).summary),
            f"{random['return']:.4g}" if random else "not recorded",
            _by_ppo(table["trained"].get(id, [])),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _by_ppo(runs: list[dict[str, Any]]) -> str:
    """Return and steps of the longest run of PPO that learned, alone rather than with additions."""

    def merit(run: dict[str, Any]) -> tuple[bool, bool, int]:
        return run["learned"], run["learned"] and is_plain(run), run["steps"]

    same = [run for run in runs if run["algorithm"] == "ppo" and is_same_task(run)]
    if not same:
        return "not recorded"
    best = max(same, key=merit)
    told = f"{np.mean(best['returns']):.4g}" if merit(best)[0] else "not learned"
    return f"{told}{with_additions(best)} ({best['steps'] / 1e6:.2g} M)"


def picture(id: str) -> bytes:
    """Return the PNG of a level, the same at every build."""
    env = jaxenvs.make(id)
    size = drawing.fitting_tile_size(drawing.board_shape(env), SIDE, SIDE, 32)
    state = env.reset(jax.random.key(SEED)).state
    return png.encoded(np.asarray(drawing.painter(env, size)(state, None)))


def film(id: str) -> bytes:
    """Return a GIF of random legal play, the same at every build, cut to a small size."""
    from jaxenvs.render import frames, gif

    env = jaxenvs.make(id)
    states = jax.device_get(_played(env)(jax.random.key(SEED)))
    size = drawing.fitting_tile_size(drawing.board_shape(env), FILM_SIDE, FILM_SIDE, 32)
    pictures = frames.board_painter(env, size)(states)
    count = len(pictures)
    while len(content := gif.encoded((one, 1 / 8) for one in pictures[:count])) > FILM_BYTES:
        count = count * 3 // 4
    return content


def _played(env: Env) -> Any:
    """The compiled function from a key to states of random legal play, over episodes."""

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


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Hook of mkdocs: makes the page of every id, and takes in the pages that lie beside the code.

Nothing of it is kept in the repository. `jaxenvs.commands.page` says what stands on a page; its
picture is the level of one seed, drawn by the environment itself.
"""

import functools
import io
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before jax: a picture is drawn once, so its program is not worth much of a compiler's time.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)

import jax
import numpy as np
from PIL import Image

import jaxenvs
from jaxenvs import registry
from jaxenvs.commands.page import Page, is_learned, is_plain, page, reference
from jaxenvs.puzzles import Puzzle

ROOT = Path(__file__).resolve().parent.parent
# Files of the repository that are pages, and where.
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
SEED, SIDE = 3, 320  # of the level; pixels of the longer side of its picture, at most
# A link or a picture; code, in a fence or in backquotes, has groups that are empty.
_LINK = re.compile(
    r"^```.*?^```$|`[^`\n]+`|\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
_SPECIAL = re.compile(r"([\\*_<>\[\]#|])")


def on_config(config: Any) -> Any:
    """Name the families in the navigation; keep what is compiled, so that later builds are fast."""
    jax.config.update("jax_compilation_cache_dir", str(ROOT / ".cache" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
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
    """Every page and picture that is made here: where it stands, and what it is."""
    for source, target in TAKEN.items():
        yield target, (ROOT / source).read_text("utf-8")
    yield "envs/index.md", _overview()
    for family in registry.families():
        yield f"envs/{family}.md", _listing(family)
    for id in registry.list():
        yield f"envs/{id}.md", rendered(page(id))
        yield f"envs/{id}.png", picture(id)


def relinked(markdown: str, source: str, uri: str) -> str:
    """Turn links between files of the repository into links between pages.

    `source` is the file in the repository, `uri` the page. A file that is no page is only named.
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
    lines = [f"# {content.id}", "", f"![The level of seed {SEED}]({content.id}.png){{ .board }}"]
    for section in content.sections:
        lines += ["", f"## {section.title}"]
        for text in section.text:
            lines += ["", escaped(text)]
        if section.rows:
            lines += ["", *_table(section.head, section.rows)]
    return "\n".join([*lines, "", *_commands(content)])


def _table(head: tuple[str, ...], rows: Any) -> Iterator[str]:
    for i, row in enumerate((head, *rows)):
        yield f"| {' | '.join(map(escaped, row))} |"
        if i == 0:
            yield "|" + " --- |" * len(row)


def escaped(text: str) -> str:
    """Protect what Markdown would read as its own, outside of code."""
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
    """The table of a family: picture, id, what it is about, returns."""
    head = "| | id | | random | PPO (steps) |"
    lines = [f"# {family}", "", head, "| --- | --- | --- | --- | --- |"]
    table = reference()
    for id in registry.list(family):
        random = table["random"].get(id)
        plain = filter(is_plain, table["trained"].get(id, []))
        longest = max(plain, key=lambda run: run["steps"], default=None)
        ppo = "not recorded"
        if longest:
            learned = is_learned(longest, random)
            ppo = f"{np.mean(longest['returns']):.4g}" if learned else "not learned"
            ppo += f" ({longest['steps'] / 1e6:.2g} M)"
        cells = [
            f"![{id}]({id}.png){{ width=96 loading=lazy }}",
            f"[{id}]({id}.md)",
            escaped(jaxenvs.spec(id).summary),
            f"{random['return']:.4g}" if random else "not recorded",
            ppo,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


@functools.cache
def picture(id: str) -> bytes:
    """Return the PNG of a level, the same at every build."""
    env = jaxenvs.make(id)
    rows, columns = jax.eval_shape(env.tiles, env.state_shape).shape
    size = max(4, min(32, SIDE // max(rows, columns) // 4 * 4))
    draw = getattr(env, "picture", None)
    if draw is None:
        tiles = jax.jit(lambda key: env.tiles(env.reset(key).state))(jax.random.key(SEED))
        cells = env.atlas(size)[np.asarray(tiles)]  # rows, columns, size, size, 3
        pixels = cells.transpose(0, 2, 1, 3, 4).reshape(rows * size, columns * size, 3)
    else:
        pixels = jax.jit(lambda key: draw(env.reset(key).state, size))(jax.random.key(SEED))
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels)).save(file, format="PNG", optimize=True)
    return file.getvalue()

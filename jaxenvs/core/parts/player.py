"""`PlayerPart`, a base class of `Env`: members for people and language models that play."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Int, PyTree, UInt8

from .. import eager, texts
from ..controls import Controls, by_name
from ..facts import RGB, Effects, Fact, observed, sentences
from ..spaces import Discrete
from .part import Part


class PlayerPart(Part):
    """Keys, texts and pictures of an environment, for players, viewers and documentation pages.

    A picture is made from `tiles` and `atlas`, or by `picture`.
    """

    # Number of rows at the bottom of `tiles` that show the same information as `facts`. Viewers
    # that have a panel for facts hide these rows.
    status_rows: ClassVar[int] = 0

    @property
    def action_names(self) -> tuple[str, ...]:
        """A short name for each action, or for each component if actions are vectors.

        Empty by default. The arrow keys play actions called `up`, `right`, `down` and `left`.
        """
        return ()

    @property
    def controls(self) -> Controls:
        """Keys and mouse actions with which a person plays.

        By default, Discrete actions get keys from their `action_names`, and other actions have no
        keys. An environment with other actions may override this property. Then `Controls.actions`
        lists the keys, and `Controls.values` has, for each key, the element of the action space
        that the key selects.
        """
        if not isinstance(self.action_space, Discrete):
            return Controls()
        names = self.action_names or (f"action {i}" for i in range(self.action_space.n))
        return Controls(by_name(names))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Pairs (index, meaning) that explain the entries of an observation.

        The environment's documentation page shows them. Empty by default.
        """
        return ()

    def facts(self, state: Any, params: Any = None) -> tuple[Fact, ...]:
        """Return facts about the agent's possessions and knowledge, for viewers and descriptions.

        By default there are none. Not traceable by JAX.
        """
        return ()

    def effects(self, before: Any, action: int, after: Any, params: Any = None) -> Effects:
        """Return side effects of an action: the facts and cells that viewers highlight after it.

        `before` and `after` are the states around the action. By default there are no side effects.
        Not traceable by JAX.
        """
        return Effects()

    def describe(self, state: Any, params: Any = None, detail: str = "full") -> str:
        """Return a text about the agent's knowledge of `state`, for people and language models.

        `detail` is "full", or "short" for at most three lines. By default the text consists of the
        facts, as sentences, and the observation. Not traceable by JAX; `jaxenvs.text` describes
        batches.
        """
        texts.check_detail(f"{type(self).__name__}.describe", detail)
        if self.has_text_inputs:
            return self.texts(texts.one_input(self, state, params), detail)[0]
        known = sentences(self.facts(state, params))
        text = "\n".join([*known, *observed(self.observe(state, params))])
        return text if detail == "full" else texts.shortened(text)

    def describe_changes(self, before: Any, state: Any, params: Any = None) -> str:
        """Return a text about the changes that the agent observes between two states.

        It is "Nothing changed." if the agent's knowledge did not change. By default it consists of
        the lines of `describe` that changed. Not traceable by JAX.
        """
        if not self.has_text_inputs:
            return texts.changed_lines(self.describe(before, params), self.describe(state, params))
        inputs = (texts.one_input(self, one, params) for one in (before, state))
        return self.text_changes(*inputs)[0]

    @property
    def has_text_inputs(self) -> bool:
        """True if `texts` writes the descriptions, from the arrays of `text_inputs`; else False.

        The property examines the first class in the method resolution order that defines
        `text_inputs` or `describe`. It is True if that class defines `text_inputs`, except for
        `PlayerPart`, which only defines the defaults.
        """
        for kind in type(self).__mro__:
            if "text_inputs" in vars(kind) or "describe" in vars(kind):
                return "text_inputs" in vars(kind) and kind is not PlayerPart
        return False

    @eager.compiled
    def text_inputs(self, state: Any, params: Any = None) -> PyTree[Array]:
        """Return the arrays from which `texts` writes, without hidden information about `state`.

        An environment that overrides `text_inputs` must also override `texts`. `jaxenvs.text` then
        describes a batch of states fast, because one call of `texts` writes the whole batch.
        """
        raise NotImplementedError(f"{self.name} describes its states without text_inputs")

    def texts(self, inputs: PyTree[np.ndarray], detail: str = "full") -> list[str]:
        """Return the description of each state in a batch of `text_inputs` (arrays on the host)."""
        raise NotImplementedError(f"{self.name} describes its states without text_inputs")

    def text_changes(self, old: PyTree[np.ndarray], new: PyTree[np.ndarray]) -> list[str]:
        """Return a text like `describe_changes` for each pair of states of two batches.

        `old` and `new` are the `text_inputs` of the batches, on the host. By default, the text of a
        pair has the lines that differ between the full descriptions of its two states.
        """
        both = texts.pairs(self.texts(old, "full"), self.texts(new, "full"))
        return [texts.changed_lines(*pair) for pair in both]

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """Return the icon called `name`, uint8 (size, size, 3), for a panel coloured `background`.

        The field `icon` of a `Fact` contains the name. None, the default, if there is no icon of
        this name.
        """
        return None

    @eager.compiled
    def tiles(self, state: Any) -> Int[Array, "height width"]:
        """Return the state drawn as a map of tiles: indices into the sprites of `atlas`."""
        raise NotImplementedError(f"{self.name} has no tiles to draw")

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the sprites that `tiles` refers to, uint8 (sprites, tile_size, tile_size, 3)."""
        raise NotImplementedError(f"{self.name} has no tiles to draw")

    def picture(
        self, state: Any, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"] | None:
        """Return a picture that shows more of the state than its tiles, or None if there is none.

        The default is None. The picture is about as large as the tiles at `tile_size` pixels per
        tile. `tile_size` is static under `jit`.
        """
        return None

    def view_tiles(self, state: Any) -> Int[Array, "height width"] | None:
        """Return the agent's view of the state, drawn as a map of tiles: indices into `atlas`.

        None, the default, if there is no such view.
        """
        return None

    def trail(self, state: Any, action: int) -> Sequence[tuple[float, float]] | None:
        """Return the points that the latest step adds to the line that viewers draw on the picture.

        The line shows the course of the episode. Its points are (x, y), from 0 to 1 across the
        picture. `state` is the state after `action`, the latest action; `action` is -1 at the start
        of an episode. The default is None: no line is drawn. Not traceable by JAX.
        """
        return None

    def picture_between(
        self, state: Any, action: int, share: float, tile_size: int
    ) -> UInt8[Array, "height width 3"] | None:
        """Return a picture of the state during an action, so that viewers can animate the action.

        `share` is the fraction of the action that is done, from 0 to 1. The default is None: the
        action is not animated. Not traceable by JAX.
        """
        return None

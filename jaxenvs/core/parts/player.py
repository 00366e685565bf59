"""Part of `Env` for people and language models who play: keys, texts and pictures."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Int, UInt8

from .. import eager
from ..controls import Controls, by_name
from ..facts import RGB, Effects, Fact, observed, sentences
from ..spaces import Discrete
from .part import Part


class PlayerPart(Part):
    """Keys, texts and pictures, for players, viewers and documentation pages.

    An environment is drawn from `tiles` and `atlas`, or by `picture`.
    """

    # Number of rows at the bottom of `tiles` that repeat `facts`; hidden where a panel shows them.
    status_rows: ClassVar[int] = 0

    @property
    def action_names(self) -> tuple[str, ...]:
        """A short name for each action; `up`, `right`, `down` and `left` are played by arrow keys.

        For a Box or a MultiDiscrete space: a name for each component of an action.
        """
        return ()

    @property
    def controls(self) -> Controls:
        """Keys and mouse of a person who plays.

        By default the keys come from `action_names`, and only Discrete actions have keys. For
        another space, `values` holds the element of the space that each of `actions` stands for.
        """
        if not isinstance(self.action_space, Discrete):
            return Controls()
        names = self.action_names or (f"action {i}" for i in range(self.action_space.n))
        return Controls(by_name(names))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """(index, meaning) of each entry of the observation, for its page; empty by default."""
        return ()

    def facts(self, state: Any, params: Any = None) -> tuple[Fact, ...]:
        """Return the agent's possessions and knowledge, for panels and text; not traceable."""
        return ()

    def effects(self, before: Any, action: int, after: Any, params: Any = None) -> Effects:
        """Return the side effects of an action between two states, for players to highlight.

        By default there are none. Not traceable.
        """
        return Effects()

    def describe(self, state: Any, params: Any = None) -> str:
        """Describe the agent's knowledge of `state`, for people and language models.

        By default the facts as sentences, then the observation. Not traceable.
        """
        known = sentences(self.facts(state, params))
        return "\n".join([*known, *observed(self.observe(state, params))])

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """Return the icon that a fact names, uint8 (size, size, 3); None if there is none."""
        return None

    @eager.compiled
    def tiles(self, state: Any) -> Int[Array, "height width"]:
        """Return the picture of the state as indices into `atlas`."""
        raise NotImplementedError(f"{self.name} has no tiles to draw")

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the sprites, uint8 (tiles, tile_size, tile_size, 3)."""
        raise NotImplementedError(f"{self.name} has no tiles to draw")

    def picture(
        self, state: Any, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"] | None:
        """Return a picture that shows more than the tiles; None, the default, if there is none.

        The picture is about as large as the tiles. Traceable for a given `tile_size`, in pixels.
        """
        return None

    def view_tiles(self, state: Any) -> Int[Array, "height width"] | None:
        """Return the agent's view as indices into `atlas`; None, the default, if it has none."""
        return None

    def trail(self, state: Any, action: int) -> Sequence[tuple[float, float]] | None:
        """Return the points that the latest step adds to the line of an episode, or None.

        Points are (x, y) in the picture, from 0 to 1. `state` is the state after `action`; at the
        start of an episode `action` is -1. By default None: players draw no line. Not traceable.
        """
        return None

    def picture_between(
        self, state: Any, action: int, share: float, tile_size: int
    ) -> UInt8[Array, "height width 3"] | None:
        """Return the picture of an unfinished action, of which `share` (0 to 1) is done.

        Players animate actions with it. By default None: there is nothing in between. Not
        traceable.
        """
        return None

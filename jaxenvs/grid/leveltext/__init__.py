"""Levels of MiniGrid as text: pictures with headers, see `jaxenvs.levels`."""

"""The level editor: its model, its key commands, its drawing and `jaxenvs levels edit`."""

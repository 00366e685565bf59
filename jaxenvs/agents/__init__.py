"""Environments as games for language-model agents, which act by the names of actions.

`Episode` plays one environment by action names, and returns descriptions and pictures. `Games`
holds the episodes of many clients. Neither depends on a protocol; the modules `mcp` and `openenv`
serve environments over one.
"""

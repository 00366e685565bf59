"""Environments as games for language-model agents, which act by the names of actions.

`Episode` is one environment in words, names and pictures; `Games` holds the episodes of many
clients. Both are independent of a protocol. `mcp` and `openenv` serve them.
"""

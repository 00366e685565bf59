"""Environments as games for language-model agents, which act by the names of actions.

`Episode` plays one environment by action names, and returns descriptions and pictures. `Games`
stores the episodes of many clients. Both are independent of any protocol; the modules `mcp` and
`openenv` serve environments over a protocol.
"""

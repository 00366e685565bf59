"""Code of the command line: table of commands, argument parser, shell completion.

The commands `list`, `info`, `check`, `games` and `levels` are here too.
"""

"""Code of the command line: table of commands, argument parser, shell completion.

The package also has the commands `list`, `info`, `check`, `games` and `levels`.
"""

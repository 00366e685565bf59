"""Code of the command line: table of commands, argument parser, pages of ids, shell completion.

The simple commands `list`, `info` and `check` are here too.
"""

"""The commands of ``onetrip.redis``, whose methods return what ``_send`` returns: here results.
``_commands.pyi`` says so, and is written by
``scripts/python-commands --blocking > faces/python/onetrip/blocking/_commands.pyi``.
"""

from ..redis._commands import Arg, Commands, Key, SessionCommands

__all__ = ["Arg", "Commands", "Key", "SessionCommands"]

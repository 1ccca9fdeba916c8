"""The clients, each in a module of its own, with the same few functions.

A driver converts nothing: what its client returns is what is read. ``open(url, task)`` gives a
client, and ``VERSION`` says which it is.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from types import ModuleType


def driver(name: str) -> ModuleType:
    return import_module(f"{__name__}.of_{name}")


def named(*packages: str) -> str:
    return ", ".join(f"{package} {version(package)}" for package in packages)

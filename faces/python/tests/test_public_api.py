"""What users can name, as docs/reference/public-api/python.txt lists it.

A test with ``ONETRIP_WRITE=1`` writes the list anew. Of the drop-ins the originals are the list.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onetrip.errors

LIST = Path(__file__).parents[3] / "docs/reference/public-api/python.txt"
#: `onetrip.blocking.redis` has the commands of `onetrip.redis`.
MODULES = ("onetrip", "onetrip.blocking", "onetrip.errors", "onetrip.redis")
HEAD = """\
# What a program can name of the package for Python, without types. Do not edit: `ONETRIP_WRITE=1 make
# python T=test_public_api.py` writes it.

"""


def lines() -> list[str]:
    found: set[str] = set()
    for name in MODULES:
        module = importlib.import_module(name)
        public = [it for it in vars(module) if not it.startswith("_")]
        for of in getattr(module, "__all__", public):
            found.update(described(f"{name}.{of}", getattr(module, of)))
    return sorted(found)


def described(name: str, of: Any) -> Iterator[str]:
    """A name, and what can be named of it; not what a base has that is listed itself."""
    if inspect.isclass(of):
        if not of.__module__.startswith("onetrip"):
            return
        own = [it for it in of.__mro__ if it.__module__.startswith("onetrip")]
        public = [it for it in own[1:] if getattr(onetrip.errors, it.__name__, None) is it]
        yield f"class {name}{f'({public[0].__name__})' if public else ''}"
        for base in own:
            for member in {**inspect.get_annotations(base), **vars(base)}:
                if not member.startswith("_") and base not in public:
                    yield f"{name}.{member}{signature(getattr(of, member, None))}"
    elif callable(of):
        yield f"{name}{signature(of)}"


def signature(of: Any) -> str:
    """The parameters; their types are in the stubs."""
    if not callable(of) or inspect.isclass(of):
        return ""
    try:
        found = inspect.signature(of)
    except ValueError:
        # A method of C without a text of its own.
        return "(…)"
    bare = [it.replace(annotation=it.empty) for it in found.parameters.values()]
    of_caller = [it for it in bare if it.name != "self"]
    return str(found.replace(parameters=of_caller, return_annotation=found.empty))


def test_the_list_is_that_of_the_package() -> None:
    text = HEAD + "\n".join(lines()) + "\n"
    if os.environ.get("ONETRIP_WRITE"):
        LIST.write_text(text)
    assert LIST.read_text() == text, "run this test with ONETRIP_WRITE=1, and look at what changed"

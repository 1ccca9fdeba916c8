"""onetrip's reads on replicas: stale."""

from .reads import VERSION, opening

__all__ = ["VERSION", "open"]

open = opening("stale")

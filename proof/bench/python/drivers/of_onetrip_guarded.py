"""onetrip's reads on replicas: guarded."""

from .reads import VERSION, opening

__all__ = ["VERSION", "open"]

open = opening("guarded")

"""onetrip's reads on replicas: alone."""

from .reads import VERSION, opening

__all__ = ["VERSION", "open"]

open = opening("alone")

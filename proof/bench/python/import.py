"""How many ms the import of a module takes, in a process that has done nothing else."""

import sys
import time

before = time.perf_counter()
__import__(sys.argv[1])
print((time.perf_counter() - before) * 1000)

"""The same client for programs without async: each call returns its result.

::

    with onetrip.blocking.connect("postgres://localhost/shop") as db:
        print(db.fetchval("select count(*) from users"))
        with db.pipeline() as batch:  # One trip, all or nothing.
            user = batch.fetchrow("select * from users where id = $1", 7)
            orders = batch.fetch("select * from orders where user_id = $1", 7)
        print(user.result(), orders.result())

A client may be used from many threads. It has no thread of its own: while a thread waits for its
answer, it looks after the connections of all. Between calls nobody does, so idle connections are
closed, and lost ones are noticed, with the next call.

A call that Ctrl-C or a signal's handler interrupts is given up as a cancelled task is: the server
is told to stop, and no other call gets its reply. :class:`Timeout` does the same after a time, or
when another thread says so.
"""

from ._client import Batch, Database, Session, Transaction, connect
from ._loop import Timeout
from ._parts import Block, Events, Stream

__all__ = [
    "Batch",
    "Block",
    "Database",
    "Events",
    "Session",
    "Stream",
    "Timeout",
    "Transaction",
    "connect",
]

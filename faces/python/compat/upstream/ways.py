"""A plugin of pytest: the driver that ONETRIP_WAY names."""

import os

if os.environ["ONETRIP_WAY"] == "installed":
    import onetrip.asyncpg

    onetrip.asyncpg.install()
elif os.environ["ONETRIP_WAY"] == "onetrip":
    from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg

    from onetrip.sqlalchemy import PGDialect_onetrip

    # What SQLAlchemy's tests know of asyncpg they ask by the name of the driver.
    PGDialect_onetrip.driver = "asyncpg"
    # What they need to be set up they look for beside the dialect.
    PGDialect_onetrip.load_provisioning = PGDialect_asyncpg.load_provisioning

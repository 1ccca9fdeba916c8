"""Where asyncpg keeps the types of values."""

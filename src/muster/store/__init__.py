"""Where things are kept: SQL for SQLite and PostgreSQL, migrations, blobs. Knows no HTTP."""

"""Files of a data directory: its one owner, API keys, the operations that safety depends on.

Snapshots and the journal reach files through `files.py` and a named VFS of SQLite, so that tests can cut the power
at any operation. May import `errors`.
"""

"""`python -m aucstream` is `aucstream`."""

from aucstream.cli import main

main()

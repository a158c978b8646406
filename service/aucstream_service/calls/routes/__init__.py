"""Routes that are served by the router: models, snapshots, evaluation, events, health, pages.

`learning.py` only describes the hot calls. May import what `calls` may import.
"""

"""The calls: one row, many rows, event streams, metrics, and the routes of everything else.

A hot call goes through one dispatcher in front of the router (`dispatch.py`) and is described in OpenAPI like all
others. Each one-row handler returns an answer, returns a pending answer, or raises; then nothing was done. May
import `api`, `models`, `bodies` and below.
"""

"""Errors of the service, and what an answer says of them.

`exceptions.py` has the classes, `problems.py` the table of status and type, `refusal_text.py` the words for a
refused value, which never quote features. The lowest room: may import the library only.
"""

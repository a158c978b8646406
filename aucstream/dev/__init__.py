"""Tools of who works on the project, run in a checkout: no other file imports them, and the wheel leaves them out.

`new_learner.py` writes a learner from `templates/`. May import everything of the library.
"""

"""Feature maps: what lets a linear ranker bend.

What was learned behind a map cannot be carried over to another map or to other units. So the first rows are kept,
then `mapping.py` sets the scaling once, fits the map, and lets the learner learn the kept rows; from then on both
are fixed (docs/maps.md). May import `learners`,
`features` and below.
"""

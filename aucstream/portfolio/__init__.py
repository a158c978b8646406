"""Many models as one: a portfolio whose members learn side by side and are judged by what they say.

`portfolio.py` lists the members, `auto.py` is the learner. The rule by which they are weighed is compiled:
`kernels/auc/mixture.py`.
"""

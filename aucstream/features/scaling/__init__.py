"""Scaling of a stream of rows.

The estimates move at every row. The values that are applied move when the rows have grown by a tenth. A pipeline
cuts every block at those rows, so that between two changes all rows run through compiled code with constant
applied values. At a change the learner is carried over into the new units: weights by the ratio of the deviations;
sums of rows, buffered rows and offsets by what they were declared to be.

Two rules come from measurement (docs/lab/scaling.md): the prior variance does not depend on the columns' units,
and a weight is not amplified when its column's deviation grows. A user sees the classes of `scalers.py`. May
import `kernels` and below.
"""

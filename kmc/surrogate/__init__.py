"""The surrogate of the learner: a Gaussian-process regression of log-density values.

``regression`` fits it and predicts with it, ``covariance`` has its two kernels and their
derivatives, ``nystrom`` is for many values, and ``density`` turns its mean into a log-density that
many jitted ``chains`` can sample.
"""

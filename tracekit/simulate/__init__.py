"""A described job -> Kineto traces of its ranks, with the exact truth beside them."""

from tracekit.simulate.job import Job, Noise, read_job
from tracekit.simulate.run import Simulated, simulate
from tracekit.simulate.truth import Truth

__all__ = ["Job", "Noise", "Simulated", "Truth", "read_job", "simulate"]

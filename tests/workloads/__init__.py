"""Tests of the workloads: real processes, real gloo, and plain code on the JSON that they write."""

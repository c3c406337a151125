"""Distributed PyTorch training run for real under `torch.profiler`, one Kineto trace a rank.

`python -m workloads ddp --ranks 2 --out traces/ddp` starts the ranks itself; `torchrun -m workloads.ddp --out ...`
works as well. Each way of splitting the training is one file here, read top to bottom. `README.md` beside this file
says how to run them, what they write, and how to add one.
"""

"""The job's dependency graph, its replay with other durations, and the answers to "what if"."""

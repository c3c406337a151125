"""Speed and memory, as ratios measured side by side in one run; see README.md in this folder."""

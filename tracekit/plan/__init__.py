"""The arithmetic of parallel training: what a layout costs, by formula."""

"""One file per page: `TITLE`, `ORDER`, `show(analysis)`, and `ALONE = True` where a page needs no run."""

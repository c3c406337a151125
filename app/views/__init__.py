"""One file per page: `TITLE`, `ORDER`, `show(analysis)`, `ALONE = True` where a page needs no run, `NEEDS` where
it needs a package that is not always installed."""

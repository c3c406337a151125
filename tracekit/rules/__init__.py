"""One file per diagnosis. Its docstring is its manual page, `CODE` its name, `check` yields its findings."""

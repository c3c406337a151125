"""What all tests share."""

from hypothesis import settings

settings.register_profile("steady", deadline=None)  # machines are shared: a slow example is no failure
settings.load_profile("steady")

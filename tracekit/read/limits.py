"""How much a file may hold. No trace that anybody profiles comes near; what goes beyond would only fill the memory.

A file beyond a limit is not read, and a sentence says which limit it was; the other files go on.
"""

from __future__ import annotations

EVENT_BYTES = 4 << 20
"""No event's text is longer; text that goes on for longer without coming to an end is broken."""
METADATA_BYTES = 16 << 20
"""What stands beside the events, at most."""
TEXT_BYTES = 64 << 30
"""A file's decompressed text, at most."""
PACKED, PACKED_FROM_BYTES = 200, 64 << 20
"""How many times its compressed size a text is at most, once it is so large. Real traces: 10 to 40 times."""
EVENTS = 200_000_000
"""Events of a file, at most: 100 bytes of memory each,"""
HALVES = 20_000_000
"""and of begins and ends, which wait for each other: 500 bytes each."""
BROKEN_PLACES = 100_000
"""Places where a file's text is broken."""
NAME_CHARACTERS = 1 << 14
"""A longer name is cut. The names of kernels made of nested templates have some thousand characters."""
NAMES_CHARACTERS, NAME_OVERHEAD = 1 << 27, 64
"""All different names of a file together, and what each counts beside its text."""
RANKS = 1 << 11
"""Ranks that one file may fuse."""
STEPS = 100_000
"""Steps of one rank in one file."""
MEMBERS = 1 << 17
"""Files of an archive."""

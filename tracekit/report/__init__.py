"""Analyses as text and JSON: first reduced to plain values, then rendered; functions return strings, nothing prints."""

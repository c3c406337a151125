"""The analysis in a browser: pages over tracekit that compute nothing. Start it with `tracekit app`."""

"""Files to a `Run`: any Kineto traces, whatever wrote or rewrote them."""

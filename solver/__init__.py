"""The search: one file per engine, verification and replay. Returns data, prints nothing."""

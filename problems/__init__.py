"""Ready-to-run problem files."""

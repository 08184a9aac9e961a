"""The encodings: structures, monomials, inner tables. Imports only the data types."""

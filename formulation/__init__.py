"""The mathematics: data types, the analytical core, the encodings. No searching, no printing, no clocks."""

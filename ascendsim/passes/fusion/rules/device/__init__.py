"""Rules that look at what the device gets: element types, formats and the way out of the Cube."""

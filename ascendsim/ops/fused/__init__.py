"""What fusion makes: forms of operators that only the chip has, groups of nodes as one task, composites."""

"""Work becomes blocks: one template a kind of work, each tiles it for the buffers of a chip and emits loops.

cube, cube_block, cube_pair   products and convolutions, with what happens on their way out (`way_out`)
tiling, score, traffic        which tiles they have, by a closed form
share_tiles, compiled_search  the innermost part of that, for the interpreter and for compiled code
vector, vector_writer         vector programs; `movement`: data that moves, `sequence`: work of several parts
conv, strips, operands, area  what a tile is of maps, matrices and weights, in memory and in L1
"""

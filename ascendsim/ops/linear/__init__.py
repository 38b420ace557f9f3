"""Sums of products: matrix products, convolutions, attention without a softmax, recurrent cells,
transforms.
"""

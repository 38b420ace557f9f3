"""Caffe's networks: a prototxt, with or without its caffemodel."""

from ascendsim.frontends.caffe.loading import read_caffe

__all__ = ["read_caffe"]

"""Images in front of a network, resampling, detection behind it."""

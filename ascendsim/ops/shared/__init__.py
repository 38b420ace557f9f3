"""What operator families share."""

"""Images for networks: read, brought to the form that an input takes, and prepared by DVPP on the chip."""

"""What happened when (`records`): what the machine writes and all reports read."""

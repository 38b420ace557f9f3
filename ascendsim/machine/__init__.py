"""The machine: a discrete-event model of the chip that turns a Program into a Trace."""

from ascendsim.machine.run import run

__all__ = ["run"]

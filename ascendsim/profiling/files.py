"""Writing output files whole or not at all; lives in `core`, since other floors write files too."""

from ascendsim.core.files import write_whole

__all__ = ["write_whole"]

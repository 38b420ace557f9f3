"""What became of each image: who decoded it, when it was ready, when the network had worked on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ascendsim.core.table import Row, Table
from ascendsim.images.pictures import Picture
from ascendsim.profiling.view import ProfiledRun
from ascendsim.trace.records import TaskRecord

COLUMNS = (
    "Image",
    "Width",
    "Height",
    "Decoder",
    "Batch",
    "Requested(us)",
    "Decoded(us)",
    "Ready(us)",
    "Network start(us)",
    "Network end(us)",
    "Latency(us)",
)


def image_times(run: ProfiledRun, pictures: Sequence[Picture]) -> Table:
    """One row an image.

    Times are since the start of the run; Requested is when the Ctrl CPU began with the image, Ready when DVPP
    had brought it to the network's size, Latency the time from the one to the end of the network.
    Decoded is N/A for pixels, which are not decoded.

    Args:
        run: Over these images.
        pictures: In the order in which they were given.
    """
    first = {view.name: view.record for view in run.tasks if view.for_images}
    others = [view for view in run.tasks if not view.for_images]
    batches = run.program.info.runs
    tasks = len(others) // batches
    # ids of the network's tasks go by its executions (`images.program`)
    spans: defaultdict[int, list[TaskRecord]] = defaultdict(list)
    for view in others:
        spans[view.id // max(tasks, 1)].append(view.record)
    rows: list[Row] = []
    for number, picture in enumerate(pictures):
        batch = number * batches // len(pictures)
        request = first.get(f"Request_{number}") or first[f"Decode_{number}"]
        decoded = first.get(f"JPEGD_{number}") or first.get(f"Decode_{number}")
        start = min((record.start for record in spans[batch]), default=first[f"Execute_{batch}"].end)
        end = max((record.end for record in spans[batch]), default=start)
        rows.append(
            (
                picture.name,
                picture.width,
                picture.height,
                picture.decoder,
                batch,
                run.us(request.start),
                None if decoded is None else run.us(decoded.end),
                run.us(first[f"VPC_{number}"].end),
                run.us(start),
                run.us(end),
                run.us(end - request.start),
            )
        )
    return Table("images", COLUMNS, tuple(rows))

"""What queues, buffers and tensors tell of themselves inside of a kernel."""

import numpy as np

import ascendsim as asim
from ascendsim import asc

POS = asc.TPosition


def seen_in(body):
    """What the body of a kernel returns on its one core."""
    seen = []

    def kernel(z):
        seen.append(body())
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)  # a kernel that does nothing is refused

    asim.run_kernel(asc.jit(kernel), 1, np.zeros(8, np.float32))
    return seen[0]


def test_a_queue_counts_its_tensors_and_free_slots():
    def body():
        pipe, que = asc.TPipe(), asc.TQue(POS.VECIN, 1)
        pipe.init_buffer(que, 2, 256)
        states = []

        def note():
            states.append(
                (
                    que.get_tensor_count_in_que(),
                    que.has_tensor_in_que(),
                    que.has_idle_buffer(),
                    que.vacant_in_que(),
                )
            )

        note()
        first = que.alloc_tensor(asc.float32)
        asc.duplicate(first, 1.0, 64)
        note()
        que.enque(first)
        note()
        que.free_tensor(que.deque(asc.float32))
        note()
        que.free_all_event()
        return states

    assert seen_in(body) == [
        (0, False, True, True),
        (0, False, True, True),
        (1, True, True, False),
        (0, False, True, True),
    ]


def test_a_part_of_a_buffer_begins_at_its_byte():
    def body():
        pipe, buf = asc.TPipe(), asc.TBuf(POS.VECCALC)
        pipe.init_buffer(buf, 512)
        part = buf.get_with_offset(32, 128, asc.float32)
        whole = buf.get(asc.float32)
        return part.address - whole.address, part.get_size(), part.get_position()

    assert seen_in(body) == (128, 32, POS.VECCALC)


def test_a_tensor_keeps_what_is_set():
    def body():
        first = asc.LocalTensor(asc.float32, POS.VECCALC, 0, 64)
        other = asc.LocalTensor(asc.float32, POS.VECCALC, 1024, 64)
        first.set_user_tag(7)
        first.set_size(16)
        sizes = [first.get_size()]
        first.set_buffer_len(128)
        sizes.append(first.get_size())
        first.set_addr_with_offset(other, 8)
        return first.get_user_tag(), sizes, first.address

    assert seen_in(body) == (7, [16, 32], 1024 + 8 * 4)


def test_a_pipe_that_is_destroyed_gives_its_room_again():
    def body():
        pipe, first, again = asc.TPipe(), asc.TBuf(POS.VECCALC), asc.TBuf(POS.VECCALC)
        pipe.init_buffer(first, 512)
        pipe.destroy()
        pipe.init_buffer(again, 512)
        return first.get(asc.float32).address, again.get(asc.float32).address

    assert seen_in(body) == (0, 0)


def test_a_flag_that_is_fetched_stays_free():
    def body():
        pipe, event = asc.TPipe(), asc.HardEvent.MTE2_V
        held = pipe.alloc_event_id(event)
        fetched = [pipe.fetch_event_id(event), pipe.fetch_event_id(event)]
        return held, fetched

    held, (first, again) = seen_in(body)
    assert first == again != held


def test_rows_are_a_layout_of_fixpipe():
    assert asc.FixpipeConfig.cfg_row_major() != asc.FixpipeConfig.cfg_nz()

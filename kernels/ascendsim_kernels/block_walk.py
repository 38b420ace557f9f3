"""Blocks of one task walked to their end: scalar units, queues, pipes, flags and shared links in integer
ticks.

The machine's model of a task that has the cores to itself, without its events: the same tokens (issued
instructions, free queue slots, flags), the same rates of transfers, and so the same ticks. Units that can go
on stand in a list of work; when it is empty, time moves to the next transfer that begins or ends. All state
is in arrays of int64, rows of units and columns as named here, so that a walk can be left for a rate that the
caller must work out and be taken up again.
"""

from __future__ import annotations

from numpy import int64
from numpy.typing import NDArray

from ascendsim_kernels.jit import lean

Ints = NDArray[int64]

# what a walk comes back with
DONE, STUCK, RATES, BEYOND = range(4)

# columns of an instruction; of a loop's end A, B, C are its number, trips and first instruction
LANE, ISSUE, KIND, A, B, C, WRITE, READS, READ_COUNT = range(9)
INSTRUCTION = 9
FIXED, SET, WAIT, TRANSFER, BARRIER, LOOP, END = range(7)  # the first five as in `machine.compiled`

# columns of a transfer, bound to the links
WORK, CLASS, LATENCY = range(3)

# columns of a core: where its rows begin in the other arrays, what it is, and its scalar unit
CODE0, LANE0, FLAG0, LOOP0, TRANSFER0, FLAG_TICKS, SCALAR_SETS = range(7)
AT, TIME, BUSY, OVER, FULL, FLAG, ASLEEP, RUNNING, END_TICK = range(7, 16)
CORE = 16

# columns of a lane: its core, its queue, and the pipe
OWNER, DEPTH, HEAD, TAIL, QUEUED, LOCAL, ARRIVAL, COMPLETE, PIPE_BUSY, FIRST, LAST = range(11)
STATE, DOING, START, FLOW, NEXT = range(11, 16)
PIPE = 16
GOING, ASLEEP_FOR_ONE, AT_FLAG, ON_LINKS, ENDED = range(5)  # states of a pipe

ISSUED, INSTRUCTION_OF, FREE = range(3)  # of a queue's slot: issue tick, instruction, when it became free
FIRST_TOKEN, TOKENS, WAITER, MEMBER = range(4)  # of a flag
OF_BARRIER, CORES, AHEAD = range(3)  # of a member of a barrier
NEEDED, BARRIER_TICKS, FIRST_ROUND, ROUNDS, HEARD0, HEARD = range(6)  # of a barrier
ARRIVED, LATEST = range(2)  # of a barrier's round
LANE_OF, ON, ENTRY, LEFT, RATE, CLASS_OF, PLACE = range(7)  # of a flow; ON: not at all, later, now
LATER, NOW_ON = 1, 2
NOW, FIRST_WORK, WORK_COUNT, SET_KEY, CHANGED, FAILED = range(6)  # of the clock

FAR = 1 << 60  # no tick is as late


@lean
def add_work(unit: int, clock: Ints, work: Ints) -> None:
    """A unit can go on; `work[1]` tells who stands in the list already."""
    if not work[1, unit]:
        work[1, unit] = 1
        size = work.shape[1]
        at = clock[FIRST_WORK] + clock[WORK_COUNT]
        work[0, at if at < size else at - size] = unit
        clock[WORK_COUNT] += 1


@lean
def give(flag: int, at: int, flags: Ints, tokens: Ints, clock: Ints, work: Ints) -> None:
    """Adds a token that counts from tick `at` on."""
    count, size = flags[flag, TOKENS], tokens.shape[1]
    if count == size:
        clock[FAILED] = 1
        return
    place = flags[flag, FIRST_TOKEN] + count
    tokens[flag, place if place < size else place - size] = at
    flags[flag, TOKENS] = count + 1
    waiter = flags[flag, WAITER]
    if waiter >= 0:
        flags[flag, WAITER] = -1
        add_work(waiter, clock, work)


@lean
def take(flag: int, flags: Ints, tokens: Ints) -> int:
    """Takes the first token."""
    first = flags[flag, FIRST_TOKEN]
    at: int = tokens[flag, first]
    flags[flag, FIRST_TOKEN] = first + 1 if first + 1 < tokens.shape[1] else 0
    flags[flag, TOKENS] -= 1
    return at


@lean
def fire(
    flag: int,
    at: int,
    flags: Ints,
    tokens: Ints,
    clock: Ints,
    work: Ints,
    members: Ints,
    barriers: Ints,
    rounds: Ints,
    heard: Ints,
) -> None:
    """Sets a flag: a token, or an arrival at a barrier, whose last one lets all go on."""
    member = flags[flag, MEMBER]
    if member < 0:
        give(flag, at, flags, tokens, clock, work)
        return
    barrier, size = members[member, OF_BARRIER], rounds.shape[1]
    ahead = members[member, AHEAD]
    first = barriers[barrier, FIRST_ROUND]
    place = (first + ahead) % size
    if ahead == barriers[barrier, ROUNDS]:
        if ahead == size:
            clock[FAILED] = 1
            return
        rounds[barrier, place, ARRIVED], rounds[barrier, place, LATEST] = 0, at
        barriers[barrier, ROUNDS] += 1
    rounds[barrier, place, ARRIVED] += members[member, CORES]
    rounds[barrier, place, LATEST] = max(rounds[barrier, place, LATEST], at)
    members[member, AHEAD] = ahead + 1
    if rounds[barrier, first, ARRIVED] == barriers[barrier, NEEDED]:
        barriers[barrier, FIRST_ROUND] = (first + 1) % size
        barriers[barrier, ROUNDS] -= 1
        for other in range(members.shape[0]):
            if members[other, OF_BARRIER] == barrier:
                members[other, AHEAD] -= 1
        tick = rounds[barrier, first, LATEST] + barriers[barrier, BARRIER_TICKS]
        for number in range(barriers[barrier, HEARD0], barriers[barrier, HEARD0] + barriers[barrier, HEARD]):
            give(heard[number], tick, flags, tokens, clock, work)


@lean
def retire(core: int, cores: Ints, lanes: Ints) -> None:
    """Ends a block if its scalar unit and all of its pipes are through."""
    if cores[core, OVER] and cores[core, RUNNING] == 0:
        end = cores[core, TIME]
        for lane in range(cores[core, LANE0], lanes.shape[0]):
            if lanes[lane, OWNER] != core:
                break
            end = max(end, lanes[lane, COMPLETE])
        cores[core, END_TICK] = end


@lean
def feed(
    core: int,
    code: Ints,
    cores: Ints,
    loops: Ints,
    lanes: Ints,
    slots: Ints,
    flags: Ints,
    tokens: Ints,
    clock: Ints,
    work: Ints,
    members: Ints,
    barriers: Ints,
    rounds: Ints,
    heard: Ints,
) -> None:
    """A scalar unit issues as many instructions as the queues take."""
    if cores[core, OVER]:
        return
    at, time, busy = cores[core, AT], cores[core, TIME], cores[core, BUSY]
    lane0, flag0 = cores[core, LANE0], cores[core, FLAG0]
    cores[core, FULL] = cores[core, FLAG] = -1
    while True:
        kind, issue = code[at, KIND], code[at, ISSUE]
        if code[at, LANE] >= 0:
            lane = lane0 + code[at, LANE]
            if lanes[lane, QUEUED] == lanes[lane, DEPTH]:
                cores[core, FULL] = lane
                break
            tail = lanes[lane, TAIL]
            time = max(time, slots[lane, tail, FREE]) + issue
            busy += issue
            slots[lane, tail, ISSUED], slots[lane, tail, INSTRUCTION_OF] = time, at
            lanes[lane, TAIL] = tail + 1 if tail + 1 < lanes[lane, DEPTH] else 0
            lanes[lane, QUEUED] += 1
            if lanes[lane, STATE] == ASLEEP_FOR_ONE:
                lanes[lane, STATE] = GOING
                cores[core, ASLEEP] -= 1
                add_work(lane, clock, work)
        elif kind == LOOP:
            loop = cores[core, LOOP0] + code[at, A]
            loops[loop] += 1
            if loops[loop] < code[at, B]:
                at = cores[core, CODE0] + code[at, C]
                continue
            loops[loop] = 0
        elif kind == FIXED:
            busy += code[at, A]
            time += code[at, A]
        elif kind == SET:
            tick = time + issue + cores[core, FLAG_TICKS]
            fire(flag0 + code[at, A], tick, flags, tokens, clock, work, members, barriers, rounds, heard)
            busy += issue
            time += issue
        elif kind == WAIT:
            flag = flag0 + code[at, A]
            if flags[flag, TOKENS] == 0:
                flags[flag, WAITER] = lanes.shape[0] + core
                cores[core, FLAG] = flag
                break
            time = max(time, take(flag, flags, tokens)) + issue
            busy += issue
        else:
            cores[core, OVER] = 1
            break
        at += 1
    cores[core, AT], cores[core, TIME], cores[core, BUSY] = at, time, busy
    if cores[core, OVER]:
        for lane in range(lane0, lanes.shape[0]):
            if lanes[lane, OWNER] != core:
                break
            if lanes[lane, STATE] == ASLEEP_FOR_ONE:
                lanes[lane, STATE] = GOING
                add_work(lane, clock, work)
        cores[core, ASLEEP] = 0
        retire(core, cores, lanes)


@lean
def enter(flow: int, flows: Ints, clock: Ints) -> None:
    """A transfer begins to move."""
    flows[flow, ON] = NOW_ON
    clock[SET_KEY] += flows[flow, CLASS_OF] * flows[flow, PLACE]
    clock[CHANGED] = 1


@lean
def advance(
    lane: int,
    code: Ints,
    reads: Ints,
    transfers: Ints,
    cores: Ints,
    lanes: Ints,
    slots: Ints,
    in_flight: Ints,
    ready: Ints,
    flows: Ints,
    flags: Ints,
    tokens: Ints,
    clock: Ints,
    work: Ints,
    members: Ints,
    barriers: Ints,
    rounds: Ints,
    heard: Ints,
) -> None:
    """A pipe takes instructions in order and gives each its start and end, until it must wait."""
    core = lanes[lane, OWNER]
    scalar, flag0 = lanes.shape[0] + core, cores[core, FLAG0]
    local, arrival, complete = lanes[lane, LOCAL], lanes[lane, ARRIVAL], lanes[lane, COMPLETE]
    state, at = lanes[lane, STATE], lanes[lane, DOING]
    lanes[lane, STATE] = GOING
    if state == AT_FLAG and cores[core, SCALAR_SETS]:
        cores[core, ASLEEP] -= 1
    while True:
        if state == GOING:
            if lanes[lane, QUEUED] == 0:
                if cores[core, OVER]:
                    lanes[lane, STATE] = ENDED
                    complete = max(complete, local)
                else:
                    lanes[lane, STATE] = ASLEEP_FOR_ONE
                    cores[core, ASLEEP] += 1
                    add_work(scalar, clock, work)
                break
            head = lanes[lane, HEAD]
            issue, at = slots[lane, head, ISSUED], slots[lane, head, INSTRUCTION_OF]
            arrival = max(arrival, issue)
            local = max(local, issue)
            slots[lane, head, FREE] = local
            lanes[lane, HEAD] = head + 1 if head + 1 < lanes[lane, DEPTH] else 0
            lanes[lane, QUEUED] -= 1
            if cores[core, FULL] == lane and cores[core, ASLEEP] > 0:
                add_work(scalar, clock, work)
        kind = code[at, KIND]
        if kind == FIXED:
            start = max(local, arrival + code[at, C])
            for number in range(code[at, READS], code[at, READS] + code[at, READ_COUNT]):
                start = max(start, ready[lane, reads[number]])
            local = start + code[at, A]
            if lanes[lane, FIRST] < 0:
                lanes[lane, FIRST] = start
            lanes[lane, LAST] = local
            if code[at, WRITE] >= 0:
                ready[lane, code[at, WRITE]] = local + code[at, B]
            lanes[lane, PIPE_BUSY] += local - start
            complete = max(complete, local + code[at, B])
        elif kind == WAIT:
            flag = flag0 + code[at, A]
            if flags[flag, TOKENS] == 0:
                flags[flag, WAITER] = lane
                lanes[lane, STATE] = AT_FLAG
                if cores[core, SCALAR_SETS]:
                    cores[core, ASLEEP] += 1
                    add_work(scalar, clock, work)
                break
            token = take(flag, flags, tokens)
            arrival = max(arrival, token)
            local = max(local, token)
        elif kind == SET:
            tick = max(complete, local) - code[at, B] + cores[core, FLAG_TICKS]
            fire(flag0 + code[at, A], tick, flags, tokens, clock, work, members, barriers, rounds, heard)
        elif kind == BARRIER:
            local = max(local, complete)
        elif state == ON_LINKS:
            local = clock[NOW]
            visible = local + transfers[cores[core, TRANSFER0] + code[at, B], LATENCY]
            complete = max(complete, visible)
            last = lanes[lane, NEXT]
            in_flight[lane, last] = complete
            lanes[lane, NEXT] = last + 1 if last + 1 < in_flight.shape[1] else 0
            lanes[lane, PIPE_BUSY] += local - lanes[lane, START]
        else:
            local = max(local, in_flight[lane, lanes[lane, NEXT]])
            flow, transfer = lanes[lane, FLOW], cores[core, TRANSFER0] + code[at, B]
            flows[flow, LEFT], flows[flow, CLASS_OF] = transfers[transfer, WORK], transfers[transfer, CLASS]
            flows[flow, ENTRY] = local + code[at, A]
            lanes[lane, START], lanes[lane, STATE] = local, ON_LINKS
            if flows[flow, ENTRY] <= clock[NOW]:
                enter(flow, flows, clock)
            else:
                flows[flow, ON] = LATER
            break
        state = GOING
    lanes[lane, LOCAL], lanes[lane, ARRIVAL], lanes[lane, COMPLETE] = local, arrival, complete
    lanes[lane, DOING] = at
    if lanes[lane, STATE] == ENDED:
        cores[core, RUNNING] -= 1
        retire(core, cores, lanes)


@lean
def share(flows: Ints, clock: Ints, keys: Ints, rates: Ints) -> bool:
    """Gives the active transfers the rates of their set; False if the table does not have it.

    The table is a hash table that is never full: the key of a set (0 is a free row) and the rate of every
    flow in it.
    """
    key, size = clock[SET_KEY], keys.shape[0]
    row = key % size
    while keys[row] != key:
        if keys[row] == 0:
            return False
        row = row + 1 if row + 1 < size else 0
    for flow in range(flows.shape[0]):
        flows[flow, RATE] = rates[row, flow]
    clock[CHANGED] = 0
    return True


@lean
def pass_time(flows: Ints, clock: Ints, work: Ints) -> bool:
    """Moves time to the next transfer that begins or ends; False if there is none."""
    now, soonest = clock[NOW], FAR
    for flow in range(flows.shape[0]):
        if flows[flow, ON] == NOW_ON:
            soonest = min(soonest, now - (-flows[flow, LEFT] // flows[flow, RATE]))
        elif flows[flow, ON] == LATER:
            soonest = min(soonest, flows[flow, ENTRY])
    if soonest == FAR:
        return False
    clock[NOW] = soonest
    for flow in range(flows.shape[0]):
        if flows[flow, ON] == NOW_ON:
            flows[flow, LEFT] -= flows[flow, RATE] * (soonest - now)
            if flows[flow, LEFT] <= 0:
                flows[flow, ON] = 0
                clock[SET_KEY] -= flows[flow, CLASS_OF] * flows[flow, PLACE]
                clock[CHANGED] = 1
                add_work(flows[flow, LANE_OF], clock, work)
        elif flows[flow, ON] == LATER and flows[flow, ENTRY] == soonest:
            enter(flow, flows, clock)
    return True


@lean
def walk(
    code: Ints,
    reads: Ints,
    transfers: Ints,
    cores: Ints,
    loops: Ints,
    lanes: Ints,
    slots: Ints,
    in_flight: Ints,
    ready: Ints,
    flows: Ints,
    flags: Ints,
    tokens: Ints,
    clock: Ints,
    work: Ints,
    members: Ints,
    barriers: Ints,
    rounds: Ints,
    heard: Ints,
    keys: Ints,
    rates: Ints,
) -> int:
    """Goes on until all blocks have ended (DONE), nothing moves any more (STUCK), the rates of a set of
    transfers are wanted (RATES), or more comes together than the arrays hold (BEYOND).
    """
    while True:
        while clock[WORK_COUNT]:
            first = clock[FIRST_WORK]
            unit = work[0, first]
            clock[FIRST_WORK] = first + 1 if first + 1 < work.shape[1] else 0
            clock[WORK_COUNT] -= 1
            work[1, unit] = 0
            if unit < lanes.shape[0]:
                advance(
                    unit,
                    code,
                    reads,
                    transfers,
                    cores,
                    lanes,
                    slots,
                    in_flight,
                    ready,
                    flows,
                    flags,
                    tokens,
                    clock,
                    work,
                    members,
                    barriers,
                    rounds,
                    heard,
                )
            else:
                feed(
                    unit - lanes.shape[0],
                    code,
                    cores,
                    loops,
                    lanes,
                    slots,
                    flags,
                    tokens,
                    clock,
                    work,
                    members,
                    barriers,
                    rounds,
                    heard,
                )
        if clock[FAILED]:
            return BEYOND
        if clock[CHANGED] and clock[SET_KEY] and not share(flows, clock, keys, rates):
            return RATES
        if not pass_time(flows, clock, work):
            break
    for core in range(cores.shape[0]):
        if cores[core, END_TICK] < 0:
            return STUCK
    return DONE

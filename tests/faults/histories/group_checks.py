"""Invariants of consumers, groups and committed offsets: I6, I12 and I13."""

from collections import defaultdict
from collections.abc import Iterator

from tests.faults.histories.facts import Facts, Place, Violation
from tests.faults.histories.recording import Operation
from tests.faults.histories.registers import Access, Register


def polled_twice(facts: Facts) -> Iterator[Violation]:
    """I6: while a consumer keeps a partition it gets each offset once, in order."""
    last: dict[tuple[str, Place], tuple[int, Operation]] = {}
    for operation in facts.operations:
        if operation.kind in ("assign", "seek"):
            for partition in operation["partitions"]:
                last.pop((operation.process, (operation["topic"], partition)), None)
        elif operation.kind == "poll" and operation.is_ok:
            for partition, offset, _ in operation["records"]:
                where = operation.process, (operation["topic"], partition)
                before, poll = last.get(where, (-1, operation))
                if offset <= before:
                    yield Violation("I6", f"{operation.process} polled {offset} after {before}", [poll, operation])
                last[where] = offset, operation


def committed_wrongly(facts: Facts) -> Iterator[Violation]:
    """I12: reads and writes of committed offsets are linearizable, a member that is assigned a partition resumes at the
    committed offset, and no commit with an outdated generation succeeds."""
    transactional = {end["group"] for end in facts.of("end")}
    for (group, place), register in registers(facts).items():
        if group not in transactional:
            yield from misread("I12", facts, group, place, register)
    yield from _accepted_stale(facts)


def registers(facts: Facts) -> dict[tuple[str, Place], Register]:
    """Committed offsets as registers, by group and partition."""
    outcomes = facts.outcomes()
    writes: dict[tuple[str, Place], list[Access]] = defaultdict(list)
    reads: dict[tuple[str, Place], list[Access]] = defaultdict(list)
    for commit in facts.of("commit"):
        if commit.outcome != "fail":
            for partition, offset in commit["offsets"]:
                place = commit["topic"], partition
                writes[commit["group"], place].append(Access(commit.begun_ns, commit.ended_ns, offset, commit))
    for end in facts.of("end"):
        if end["is_commit"] and outcomes.get(end["transaction"]) != "aborted":
            for topic, partition, offset in end["offsets"]:
                access = Access(end.begun_ns, end.ended_ns, offset, end)
                writes[end["group"], (topic, partition)].append(access)
    for read in facts.ok("committed"):
        for partition, offset in read["offsets"]:
            place = read["topic"], partition
            reads[read["group"], place].append(Access(read.begun_ns, read.ended_ns, offset, read))
    return {where: Register(writes[where], reads[where]) for where in writes.keys() | reads.keys()}


def misread(invariant: str, facts: Facts, group: str, place: Place, register: Register) -> Iterator[Violation]:
    topic, partition = place
    for read in facts.ok("committed"):
        if (read["group"], read["topic"]) != (group, topic):
            continue
        possible = register.possible(read.begun_ns, read.ended_ns)
        for index, offset in read["offsets"]:
            if index == partition and offset not in {write.value for write in possible}:
                text = f"{group} has committed {offset} of {place}, it is told"
                yield Violation(invariant, text, [*(write.operation for write in possible), read])
    given: dict[str, Operation] = {}
    for operation in facts.operations:
        if operation.fields.get("group") != group or operation.fields.get("topic") != topic:
            continue
        if operation.kind == "assign" and partition in operation["partitions"]:
            given[operation.process] = operation
        elif operation.kind == "poll" and operation.process in given:
            offsets = [offset for index, offset, _ in operation["records"] if index == partition]
            if not offsets:
                continue
            assign = given.pop(operation.process)
            possible = register.possible(assign.begun_ns, operation.ended_ns)
            if offsets[0] < min(write.value for write in possible):
                text = f"{operation.process} went back to {offsets[0]} of {place}"
                proof = [*(write.operation for write in possible), assign, operation]
                yield Violation(invariant, text, proof)


def _accepted_stale(facts: Facts) -> Iterator[Violation]:
    """In the classic protocol the whole group has a generation; in the other each member has an epoch of its own."""
    assigns: dict[str, list[Operation]] = defaultdict(list)
    for assign in facts.ok("assign"):
        assigns[assign["group"]].append(assign)
    for commit in facts.ok("commit"):
        # If the generation changed meanwhile, it is unknown which one the commit named.
        if commit["generation_after"] != commit["generation"]:
            continue
        for assign in assigns[commit["group"]]:
            concerns = assign["protocol"] == "classic" or assign["member"] == commit["member"]
            if concerns and assign["generation"] > commit["generation"] and assign.ended_ns < commit.begun_ns:
                text = f"{commit['group']} took a commit of generation {commit['generation']}"
                yield Violation("I12", text, [assign, commit])
                break


def owned_twice(facts: Facts) -> Iterator[Violation]:
    """I13: in one generation a partition belongs to one member. A poll shows the partitions kept from the generation
    before. A member without a generation has been removed from its group and will learn it."""
    owners: dict[tuple[str, int, Place], Operation] = {}
    for operation in facts.operations:
        if operation.kind == "assign":
            partitions = operation["partitions"]
        elif operation.kind == "poll":
            partitions = {partition for partition, _, _ in operation["records"]}
        else:
            continue
        for partition in partitions:
            where = operation["group"], operation["generation"], (operation["topic"], partition)
            first = owners.setdefault(where, operation)
            if first["member"] != operation["member"] and operation["generation"] > 0:
                text = f"{where[2]} belongs to {first['member']} and {operation['member']}"
                yield Violation("I13", text, [first, operation])

"""/v1/schedules: records that are to appear later, until they do."""

import re
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from headwater.broker.schedule.administration import PAGE_RECORDS_MAX, Change, RecordName, ScheduledRecord
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.http.operation import operation
from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.records.json_form import Format, HeaderForm, content_form, header_forms
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.listeners.http.router import Area
from headwater.listeners.http.v1.page import PageQuery, page_of
from headwater.security.acl import Operation
from headwater.security.acl import topic as named

TAG = "schedules"
SOME_REFUSED = {207: "Some of the names were refused; the results say why."}
# Each may need a read of the log.
NAMES_MAX = 1000
NO_PLACE = RecordName(-1, -1)
_PLACE = re.compile(r"([0-9]{1,10})-([0-9]{1,19})")
PageSize: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=PAGE_RECORDS_MAX)]
Time: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class SchedulePartition(msgspec.Struct):
    """What is scheduled for one partition."""

    partition: int
    pending: int
    size_bytes: int
    # -1 if nothing is due at any time.
    next_due_ms: int


class Schedule(msgspec.Struct):
    """What is scheduled for a topic."""

    topic: str
    pending: int
    # Those with scheduled records.
    partitions: list[SchedulePartition]


class SchedulePage(msgspec.Struct):
    """Topics in the order of their names, and what is scheduled for them."""

    schedules: list[Schedule]
    next: str | None


class ScheduledQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which records, and whether with their contents, which needs the right to read the topic."""

    limit: PageSize = 100
    # The place behind which the page begins: `next` of the page before.
    after: str | None = None
    # Only the records of this id; they are not paged.
    schedule_id: str | None = None
    contents: bool = False
    format: Format = "text"


class ScheduledRecordForm(msgspec.Struct, omit_defaults=True):
    """A record that is to appear."""

    # The partition in which it will appear, and where it is in the schedule.
    place: str
    partition: int
    due_ms: int
    size_bytes: int
    schedule_id: str | None = None
    # Whether its contents can be read; it cannot be delivered otherwise.
    is_readable: bool = True
    key: Raw | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    headers: list[HeaderForm] = []


class ScheduledRecords(msgspec.Struct):
    """Scheduled records by partition, in the order in which they were scheduled."""

    records: list[ScheduledRecordForm]
    # Where the next page begins; null on the last one.
    next: str | None


class ScheduledName(msgspec.Struct, forbid_unknown_fields=True):
    """A record by its place, such as 0-17, or all that have an id."""

    place: str | None = None
    schedule_id: str | None = None


class ScheduledNames(msgspec.Struct, forbid_unknown_fields=True):
    """Scheduled records."""

    records: Annotated[list[ScheduledName], msgspec.Meta(min_length=1, max_length=NAMES_MAX)]


class Move(msgspec.Struct, forbid_unknown_fields=True):
    """Scheduled records, and when they are to appear instead: in ms since 1970, or so long after now."""

    records: Annotated[list[ScheduledName], msgspec.Meta(min_length=1, max_length=NAMES_MAX)]
    due_ms: Time | None = None
    delay_ms: Time | None = None


class ChangeResult(msgspec.Struct, omit_defaults=True):
    """How many records were changed; or why none was."""

    changed: int
    error: str = ""
    # Kafka's name of the error.
    code: str = ""


class ChangeResults(msgspec.Struct):
    """One result for each name, in their order."""

    results: list[ChangeResult]


@operation("GET", "/v1/schedules", tag=TAG)
async def list_schedules(request: Request, query: PageQuery) -> SchedulePage:
    """How many records are scheduled, for each of the topics that the client may describe."""
    guard = request.guard
    names = (
        topic.name
        for topic in request.broker.topics.all()
        if guard.allows(Operation.DESCRIBE, named(topic.name), is_probe=True)
    )
    found, following = page_of(names, query)
    schedules = [await _schedule(request, name) for name in found]
    return SchedulePage([each for each in schedules if each.pending], following)


@operation("GET", "/v1/schedules/{topic}", tag=TAG)
async def count_scheduled(request: Request, topic: str) -> Schedule:
    """How many records are scheduled for a topic."""
    request.guard.check(Operation.DESCRIBE, named(topic))
    return await _schedule(request, topic)


async def _schedule(request: Request, topic: str) -> Schedule:
    statuses = await request.broker.schedule.administration.statuses(topic)
    partitions = [
        SchedulePartition(each.target.partition, each.pending_count, each.size_bytes, each.next_due_ms)
        for each in statuses
    ]
    return Schedule(topic, sum(each.pending for each in partitions), partitions)


@operation("GET", "/v1/schedules/{topic}/records", tag=TAG)
async def list_scheduled(request: Request, topic: str, query: ScheduledQuery) -> ScheduledRecords:
    """The records that are scheduled for a topic: a page of all, or those that have an id, as many as one page has."""
    request.guard.check(Operation.READ if query.contents else Operation.DESCRIBE, named(topic))
    schedule = request.broker.schedule.administration
    if query.schedule_id is not None:
        page = await schedule.find(topic, [RecordName(-1, -1, query.schedule_id)])
    else:
        after = NO_PLACE if query.after is None else _place(query.after)
        page = await schedule.page(topic, after, query.limit)
    is_end = page.is_last or not page.records or query.schedule_id is not None
    following = None if is_end else _name_of(page.records[-1])
    form = query.format if query.contents else None
    return ScheduledRecords([_shown(each, form) for each in page.records], following)


@operation("GET", "/v1/schedules/{topic}/records/{place}", tag=TAG)
async def show_scheduled(request: Request, topic: str, place: str) -> ScheduledRecordForm:
    """One scheduled record with its contents."""
    request.guard.check(Operation.READ, named(topic))
    found = await request.broker.schedule.administration.find(topic, [_place(place)])
    if not found.records:
        raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, "no such record is scheduled: it may have been delivered")
    return _shown(found.records[0], "text")


@operation("POST", "/v1/schedules/{topic}/cancel", tag=TAG, further_statuses=SOME_REFUSED)
async def cancel_scheduled(request: Request, topic: str, body: ScheduledNames) -> Response | ChangeResults:
    """The records never appear."""
    return await _change(request, topic, body.records, Change.CANCEL)


@operation("POST", "/v1/schedules/{topic}/deliver", tag=TAG, further_statuses=SOME_REFUSED)
async def deliver_scheduled(request: Request, topic: str, body: ScheduledNames) -> Response | ChangeResults:
    """The records appear now."""
    return await _change(request, topic, body.records, Change.DELIVER_NOW)


@operation("POST", "/v1/schedules/{topic}/move", tag=TAG, further_statuses=SOME_REFUSED)
async def move_scheduled(request: Request, topic: str, body: Move) -> Response | ChangeResults:
    """The records appear at another time."""
    if (body.due_ms is None) is (body.delay_ms is None):
        raise Rejection(400, "give either `due_ms` or `delay_ms`")
    due_ms = body.due_ms if body.due_ms is not None else request.broker.clock.now_ms() + (body.delay_ms or 0)
    return await _change(request, topic, body.records, Change.MOVE, due_ms)


async def _change(
    request: Request, topic: str, names: list[ScheduledName], change: Change, due_ms: int = -1
) -> Response:
    """Each name counts for itself. If none does, the whole request is refused."""
    request.guard.check(Operation.WRITE, named(topic))
    request.broker.topics.existing(topic)
    refusals: list[HeadwaterError] = []
    results: list[ChangeResult] = []
    for each in names:
        try:
            count = await request.broker.schedule.administration.change(topic, _record_name(each), change, due_ms)
        except HeadwaterError as refusal:
            refusals.append(refusal)
            results.append(ChangeResult(0, str(refusal), refusal.code.name))
        else:
            results.append(ChangeResult(count))
    if len(refusals) == len(results):
        raise refusals[0]
    return Response(207 if refusals else 200, msgspec.json.encode(ChangeResults(results)))


def _record_name(name: ScheduledName) -> RecordName:
    if (name.place is None) is (name.schedule_id is None):
        raise Rejection(400, "give either `place` or `schedule_id`")
    return RecordName(-1, -1, name.schedule_id) if name.place is None else _place(name.place)


def _place(text: str) -> RecordName:
    matched = _PLACE.fullmatch(text)
    if matched is None or int(matched[1]) >= 2**31 or int(matched[2]) >= 2**63:
        raise Rejection(400, f"a place is PARTITION-NUMBER, such as 0-17, not {text[:40]!r}")
    return RecordName(int(matched[1]), int(matched[2]))


def _name_of(found: ScheduledRecord) -> str:
    return f"{found.partition}-{found.entry.offset}"


def _shown(found: ScheduledRecord, form: Format | None) -> ScheduledRecordForm:
    """Without a format, without contents."""
    shown = ScheduledRecordForm(
        place=_name_of(found),
        partition=found.partition,
        due_ms=found.entry.due_ms,
        size_bytes=found.entry.size,
        schedule_id=found.schedule_id,
        is_readable=found.record is not None,
    )
    if form is not None and found.record is not None:
        shown.key, shown.key_base64 = content_form(found.record.key, form)
        shown.value, shown.value_base64 = content_form(found.record.value, form)
        if found.record.headers:
            shown.headers = header_forms(found.record.headers)
    return shown


AREA = Area(
    "schedules",
    (
        list_schedules,
        count_scheduled,
        list_scheduled,
        show_scheduled,
        cancel_scheduled,
        deliver_scheduled,
        move_scheduled,
    ),
)

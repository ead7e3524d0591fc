"""Reads a trace with the message classes of the package perfetto and prints, as one JSON object, its slices, instants,
flows and tracks, with what is wrong in problems. Nothing here is taken from how the trace was written."""

import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackDescriptor, TracePacket, TrackEvent

problems = []


def known(message):
    """Complains about fields that Perfetto has not."""
    if len(UnknownFieldSet(message)):
        problems.append(f"unknown fields in {message.DESCRIPTOR.name}")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for m in value if field.is_repeated else [value]:
                known(m)


def annotation(a, names):
    """Returns the type and the value of an annotation."""
    if a.dict_entries:
        entries = {}
        for entry in a.dict_entries:
            entries[entry.name or names[entry.name_iid]] = annotation(entry, names)
        return ["dict", entries]
    if a.array_values:
        return ["array", [annotation(v, names) for v in a.array_values]]
    kind = a.WhichOneof("value")
    value = getattr(a, kind) if kind else None
    # Numbers as text: JSON has no 64 bits, and no NaN.
    return [kind, str(value) if kind in ("int_value", "uint_value", "double_value") else value]


def main(name):
    trace = Trace()
    with open(name, "rb") as f:
        trace.ParseFromString(f.read())
    known(trace)
    categories, events, keys = {}, {}, {}
    tracks, stacks, flows = {}, {}, {}
    slices, instants = [], []
    clocks = {}
    last, cleared = 0, False
    for n, p in enumerate(trace.packet):
        if not p.trusted_packet_sequence_id:
            problems.append(f"packet {n} has no sequence")
        if p.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            cleared = True
            categories, events, keys = {}, {}, {}
        for table, news in (
            (categories, p.interned_data.event_categories),
            (events, p.interned_data.event_names),
            (keys, p.interned_data.debug_annotation_names),
        ):
            for i in news:
                if i.iid in table or not i.iid:
                    problems.append(f"packet {n} interns {i.iid} twice")
                table[i.iid] = i.name
        if p.HasField("clock_snapshot"):
            clocks = {c.clock_id: c.timestamp for c in p.clock_snapshot.clocks}
        if p.HasField("track_descriptor"):
            d = p.track_descriptor
            if d.uuid in tracks:
                problems.append(f"track {d.uuid} comes twice")
            if d.parent_uuid and d.sibling_merge_behavior != TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE:
                problems.append(f"track {d.uuid} is merged")
            tracks[d.uuid] = {
                "name": d.name, "parent": d.parent_uuid, "pid": d.process.pid, "process": d.process.process_name,
                "labels": list(d.process.process_labels),
            }
        if not p.HasField("track_event"):
            continue
        if p.timestamp < last:
            problems.append(f"packet {n} goes back in time")
        last = p.timestamp
        e = p.track_event
        if (e.category_iids or e.name_iid or e.debug_annotations) and not (
            cleared and p.sequence_flags & TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        ):
            problems.append(f"packet {n} uses what is interned and does not say so")
        if tracks.get(tracks.get(e.track_uuid, {}).get("parent"), {}).get("pid", 0) < 1:
            problems.append(f"packet {n} is on track {e.track_uuid}, which is below no process")
        stack = stacks.setdefault(e.track_uuid, [])
        if e.type == TrackEvent.TYPE_SLICE_END:
            if not stack:
                problems.append(f"packet {n} ends nothing")
            else:
                stack.pop()["end"] = p.timestamp
            continue
        one = {
            "name": e.name if e.HasField("name") else events[e.name_iid],
            "category": [categories[i] for i in e.category_iids] + list(e.categories),
            "track": e.track_uuid,
            "pid": tracks[tracks[e.track_uuid]["parent"]]["pid"],
            "start": p.timestamp,
            "trace": e.correlation_id_str,
            "within": stack[-1]["id"] if stack else "",
            "args": {},
        }
        for a in e.debug_annotations:
            key = a.name or keys.get(a.name_iid, "")
            if key in one["args"]:
                problems.append(f"packet {n} has {key} twice")
            one["args"][key] = annotation(a, keys)
        one["id"] = one["args"].get("span_id", ["", ""])[1]
        for f in e.flow_ids:
            flows.setdefault(f, []).append(one["id"])
        for f in e.terminating_flow_ids:
            if len(flows.get(f, [])) != 1:
                problems.append(f"flow {f} ends without a start")
            flows.setdefault(f, []).append(one["id"])
        if e.type == TrackEvent.TYPE_SLICE_BEGIN:
            stack.append(one)
            slices.append(one)
        elif e.type == TrackEvent.TYPE_INSTANT:
            instants.append(one)
        else:
            problems.append(f"packet {n} is of type {e.type}")
    for track, stack in stacks.items():
        if stack:
            problems.append(f"{len(stack)} slices are open on track {track}")
    json.dump(
        {
            "problems": problems[:20], "clocks": clocks, "slices": slices, "instants": instants,
            "flows": [f for _, f in sorted(flows.items())], "tracks": list(tracks.values()),
        },
        sys.stdout,
    )


main(sys.argv[1])

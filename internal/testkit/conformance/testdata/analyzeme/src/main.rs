//! Prints what analyzeme reads in a file: `events FILE` one JSON line an event,
//! `labels FILE` one JSON line a label, with the number of its intervals, its
//! time and its self time in nanoseconds.

use analyzeme::{EventPayload, ProfilingData, Timestamp};
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn nanos(t: SystemTime) -> Result<u64> {
    Ok(u64::try_from(t.duration_since(UNIX_EPOCH)?.as_nanos())?)
}

fn events(data: &ProfilingData, out: &mut impl Write) -> Result<()> {
    for e in data.iter_full() {
        let mut line = json!({
            "kind": e.event_kind, "label": e.label, "args": e.additional_data, "thread": e.thread_id,
        });
        match e.payload {
            EventPayload::Timestamp(Timestamp::Interval { start, end }) => {
                line["start"] = json!(nanos(start)?);
                line["end"] = json!(nanos(end)?);
            }
            EventPayload::Timestamp(Timestamp::Instant(at)) => line["at"] = json!(nanos(at)?),
            EventPayload::Integer(value) => line["value"] = json!(value),
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn labels(data: ProfilingData, out: &mut impl Write) -> Result<()> {
    let mut counts = BTreeMap::<String, u64>::new();
    for e in data.iter_full() {
        if let EventPayload::Timestamp(Timestamp::Interval { .. }) = e.payload {
            *counts.entry(e.label.into_owned()).or_default() += 1;
        }
    }
    let mut analysis = data.perform_analysis();
    analysis.query_data.sort_by(|a, b| a.label.cmp(&b.label));
    for q in &analysis.query_data {
        // A label that only instants have is one of no intervals.
        let Some(count) = counts.get(&q.label) else {
            continue;
        };
        let line = json!({
            "label": q.label, "intervals": count,
            "time": q.time.as_nanos() as u64, "self": q.self_time.as_nanos() as u64,
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, what, name] = &args[..] else {
        return Err("usage: entrace-analyzeme events|labels FILE.mm_profdata".into());
    };
    let data = ProfilingData::new(&Path::new(name).with_extension(""))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    match what.as_str() {
        "events" => events(&data, &mut out)?,
        "labels" => labels(data, &mut out)?,
        _ => return Err("events or labels?".into()),
    }
    Ok(out.flush()?)
}

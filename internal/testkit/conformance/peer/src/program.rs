//! The small program that `entrace-peer write` records. It has no clock, no randomness and one thread, so that the
//! same build writes the same bytes every time.

use std::io;
use tracing::{
    debug, debug_span, error, error_span, field, info, info_span, trace, trace_span, warn,
    warn_span,
};

#[derive(Debug)]
#[expect(dead_code, reason = "read by Debug alone")]
struct Point {
    x: i32,
    label: &'static str,
}

pub fn run() {
    info!("hello from the peer");
    one_span_with_many_children();
    // From here on every id is above 250, so parents and children need more than one byte.
    nested_and_siblings();
    every_field_type();
    awkward_texts();
    long_strings();
    explicit_parents();
}

/// 300 children, with texts of 0 to 299 bytes: lengths on both sides of 251, offsets on both sides of 251 and 65,536.
fn one_span_with_many_children() {
    info_span!("many", count = 300_u64).in_scope(|| {
        for i in 0..300_u64 {
            let text = "x".repeat(i as usize);
            debug!(i, square = i * i, negative = -(i as i64), text, "step {i}");
        }
    });
}

fn nested_and_siblings() {
    error_span!("outer", depth = 1).in_scope(|| {
        warn!("in outer");
        warn_span!("middle", depth = 2).in_scope(|| {
            info!(answer = 42);
            debug_span!("inner", depth = 3).in_scope(|| {
                trace!("in inner");
                debug!("in inner");
                info!("in inner");
                warn!("in inner");
                error!("in inner");
            });
        });
        trace_span!("sibling", number = 1).in_scope(|| trace!(only = "a field"));
        trace_span!("sibling", number = 2).in_scope(|| {});
    });
}

fn every_field_type() {
    let err = io::Error::new(io::ErrorKind::NotFound, "no such thing");
    let err: &(dyn std::error::Error + 'static) = &err;
    let point = Point { x: -1, label: "p" };
    // Not in the order of the names: version 1 keeps this order, version 2 sorts.
    info!(
        text = "plain",
        yes = true,
        no = false,
        bytes = &[0_u8, 0x7f, 0xff][..],
        bytes_none = &[] as &[u8],
        debug = ?point,
        display = %"shown",
        error = err,
        "http.status" = 200_u16,
        Upper = "before lower case",
        none = Option::<u64>::None,
        some = Some(7_u64),
        "texts, booleans, bytes, Debug and errors"
    );
    info!(
        nan = f64::NAN,
        inf = f64::INFINITY,
        minus_inf = f64::NEG_INFINITY,
        minus_zero = -0.0,
        zero = 0.0,
        two = 2.0,
        tenth = 0.1,
        min_positive = f64::MIN_POSITIVE,
        subnormal = f64::from_bits(1),
        max = f64::MAX,
        "floats"
    );
    // The values around 251, 2^16 and 2^32 are where the variable length integers grow.
    info!(
        u_0 = 0_u64,
        u_250 = 250_u64,
        u_251 = 251_u64,
        u_65535 = 65_535_u64,
        u_65536 = 65_536_u64,
        u_2_32 = 1_u64 << 32,
        u_max = u64::MAX,
        i_0 = 0_i64,
        i_minus_1 = -1_i64,
        i_125 = 125_i64,
        i_minus_126 = -126_i64,
        i_max = i64::MAX,
        i_min = i64::MIN,
        "64 bit integers"
    );
    info!(
        u_0 = 0_u128,
        u_2_64 = 1_u128 << 64,
        u_max = u128::MAX,
        i_0 = 0_i128,
        i_minus_1 = -1_i128,
        i_max = i128::MAX,
        i_min = i128::MIN,
        "128 bit integers"
    );
}

fn awkward_texts() {
    info!("");
    info!(empty = "", "árvíztűrő tükörfúrógép, 日本語, \u{1f980}");
    warn!(
        "line one\nline two\r\n\ttab \u{1b}[31mred\u{1b}[0m \"quoted\" \\ nul \0 bell \u{7} del \u{7f} \u{2028}"
    );
    info!(name: "étrange", target: "çible", { "ключ" = "значение" }, "names beyond ASCII");
    // A message that is no text: version 1 stores its Debug form, version 2 no message at all.
    info!(message = 7_u64);
    info_span!("span with a message", message = "said by a span").in_scope(|| {});
}

fn long_strings() {
    let long = "0123456789".repeat(7_000);
    info!(long, "a text of 70,000 bytes");
    let wide = "é".repeat(2_000);
    info!(wide, "4,000 bytes, 2,000 characters");
}

fn explicit_parents() {
    let span = info_span!("late", value = field::Empty, "a field set later");
    // TreeLayer does not listen for this, so the file has no trace of it.
    span.record("value", 5_u64);
    span.in_scope(|| {
        info!(parent: None, "a child of the root in spite of the span");
        info_span!(parent: None, "root span").in_scope(|| debug!("below the root span"));
    });
    info!(parent: &span, "a child of the span, after it was left");
}

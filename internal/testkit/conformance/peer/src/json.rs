//! The JSON that the commands print. It is the same for both disk versions, so the two releases' types, which have
//! the same names but nothing in common for the compiler, are turned into these.

use serde::{Serialize, Serializer};

#[derive(Serialize)]
pub struct Entry<'a> {
    pub id: u32,
    pub parent: u32,
    pub message: Option<&'a str>,
    pub name: &'a str,
    pub target: &'a str,
    pub level: &'static str,
    pub module_path: Option<&'a str>,
    pub file: Option<&'a str>,
    pub line: Option<u32>,
    pub attributes: Vec<(&'a str, Value<'a>)>,
}

#[derive(Serialize)]
pub struct Header<'a> {
    pub id: u32,
    pub name: &'a str,
    pub level: &'static str,
    pub file: Option<&'a str>,
    pub line: Option<u32>,
    pub message: Option<&'a str>,
}

#[derive(Serialize)]
pub enum Value<'a> {
    String(&'a str),
    #[serde(serialize_with = "hex")]
    Bytes(&'a [u8]),
    Bool(bool),
    #[serde(serialize_with = "float")]
    Float(f64),
    U64(u64),
    I64(i64),
    U128(u128),
    I128(i128),
}

fn hex<S: Serializer>(bytes: &&[u8], s: S) -> Result<S::Ok, S::Error> {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    s.serialize_str(&digits)
}

/// JSON has no number for NaN and the infinities (serde_json writes null), and they must stay apart.
fn float<S: Serializer>(f: &f64, s: S) -> Result<S::Ok, S::Error> {
    if f.is_nan() {
        s.serialize_str("NaN")
    } else if f.is_infinite() {
        s.serialize_str(if *f > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        s.serialize_f64(*f)
    }
}

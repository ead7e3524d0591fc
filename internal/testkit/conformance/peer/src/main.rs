//! A command line around the published `entrace_core` crates. See README.md.

mod json;
mod peer;
mod program;

use peer::{Result, v1, v2};
use std::{
    error::Error,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

const USAGE: &str = "\
usage: entrace-peer dump N FILE
       entrace-peer children N FILE
       entrace-peer header N FILE
       entrace-peer iet2et N IN OUT [--length-prefixed]
       entrace-peer et2iet N IN OUT
       entrace-peer v1to2 IN OUT
       entrace-peer write N iet|ietprefix|et OUT
       entrace-peer send N HOST:PORT
       entrace-peer listen N COUNT
N is the disk version, 1 or 2.";

fn main() -> ExitCode {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
        Err(err) => {
            report(err.as_ref());
            ExitCode::FAILURE
        }
    }
}

/// Says false when the arguments make no command.
fn run(args: &[PathBuf]) -> Result<bool> {
    // File names need not be UTF-8; as a word such a name matches nothing, as a path it is kept.
    let words: Vec<&str> = args
        .iter()
        .map(|a| a.to_str().unwrap_or_default())
        .collect();
    let path = |i: usize| -> &Path { &args[i] };
    let mut out = BufWriter::new(io::stdout().lock());
    match words[..] {
        ["dump", "1", _] => v1::dump(path(2), &mut out)?,
        ["dump", "2", _] => v2::dump(path(2), &mut out)?,
        ["children", "1", _] => v1::children(path(2), &mut out)?,
        ["children", "2", _] => v2::children(path(2), &mut out)?,
        ["header", "1", _] => v1::header(path(2), &mut out)?,
        ["header", "2", _] => v2::header(path(2), &mut out)?,
        ["iet2et", "1", _, _] => v1::iet2et(path(2), path(3), false)?,
        ["iet2et", "2", _, _] => v2::iet2et(path(2), path(3), false)?,
        ["iet2et", "1", _, _, "--length-prefixed"] => v1::iet2et(path(2), path(3), true)?,
        ["iet2et", "2", _, _, "--length-prefixed"] => v2::iet2et(path(2), path(3), true)?,
        ["et2iet", "1", _, _] => v1::et2iet(path(2), path(3))?,
        ["et2iet", "2", _, _] => v2::et2iet(path(2), path(3))?,
        ["v1to2", _, _] => v2::v1to2(path(1), path(2))?,
        ["write", "1", "iet", _] => v1::record_iet(path(3), false)?,
        ["write", "2", "iet", _] => v2::record_iet(path(3), false)?,
        ["write", "1", "ietprefix", _] => v1::record_iet(path(3), true)?,
        ["write", "2", "ietprefix", _] => v2::record_iet(path(3), true)?,
        ["write", "1", "et", _] => v1::record_et(path(3))?,
        ["write", "2", "et", _] => v2::record_et(path(3))?,
        ["send", "1", to] => v1::send(to)?,
        ["send", "2", to] => v2::send(to)?,
        ["listen", "1", count] => v1::listen(count.parse()?, &mut out)?,
        ["listen", "2", count] => v2::listen(count.parse()?, &mut out)?,
        _ => return Ok(false),
    }
    out.flush()?;
    Ok(true)
}

/// Prints an error and everything that caused it.
fn report(err: &dyn Error) {
    eprintln!("entrace-peer: {err}");
    let mut source = err.source();
    while let Some(err) = source {
        eprintln!("  caused by: {err}");
        source = err.source();
    }
}

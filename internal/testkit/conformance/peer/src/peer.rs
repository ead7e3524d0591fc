//! The commands, once for each release of the crate. The releases' types are alike in name only, so what both can do
//! is a macro, and each version's module adds what differs. Nothing here knows the formats: every byte is read and
//! written by the crates.

use std::{error::Error, fs, path::Path};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// An error and what was being done.
#[derive(Debug)]
struct Context(String, Box<dyn Error>);

impl std::fmt::Display for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Context {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.1.as_ref())
    }
}

pub fn context<E: Into<Box<dyn Error>>>(
    what: impl Into<String>,
) -> impl FnOnce(E) -> Box<dyn Error> {
    move |err| Box::new(Context(what.into(), err.into()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(context(path.display().to_string()))
}

// Output is made in memory and written at the end: the crates' writers ignore some errors of a full disk, this does not.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(context(path.display().to_string()))
}

macro_rules! commands {
    () => {
        use crate::{
            json,
            peer::{Result, context, read, write},
            program,
        };
        use entrace::{
            EnValueRef, IETPresentationConfig, LevelContainer, LogProvider, LogProviderError,
            StorageFormat, TreeLayer, convert,
            mmap::ETStorage,
            remote::{IETStorage, IETStorageConfig, RemoteLogProvider},
            storage::Storage,
        };
        use std::{
            io::{BufWriter, Cursor, Write},
            net::{TcpListener, TcpStream},
            path::Path,
            sync::Arc,
            thread::sleep,
            time::{Duration, Instant},
        };
        use tracing_subscriber::{Registry, layer::SubscriberExt};

        pub fn dump(file: &Path, out: &mut impl Write) -> Result<()> {
            dump_trace(&open(file)?, out)
        }

        fn dump_trace(trace: &Trace, out: &mut impl Write) -> Result<()> {
            each(trace, out, |id| {
                let meta = trace.meta(id)?;
                Ok(json::Entry {
                    id,
                    parent: trace.parent(id)?,
                    message: message(trace, id)?,
                    name: meta.name,
                    target: meta.target,
                    level: level(meta.level),
                    module_path: meta.module_path,
                    file: meta.file,
                    line: meta.line,
                    attributes: attributes(trace, id)?
                        .into_iter()
                        .map(|(k, v)| (k, value(v)))
                        .collect(),
                })
            })
        }

        pub fn children(file: &Path, out: &mut impl Write) -> Result<()> {
            let trace = open(file)?;
            each(&trace, out, |id| trace.children(id))
        }

        /// Listens for one sender, as ENTRACE's frontend does, and prints the address, then, when so many entries have
        /// come, what dump and children print. The crate tells the end in no other way that needs no channel of its.
        pub fn listen(count: usize, out: &mut impl Write) -> Result<()> {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            writeln!(out, "{}", listener.local_addr()?)?;
            out.flush()?;
            let provider = RemoteLogProvider::new(listener, IETPresentationConfig::default());
            let mut trace = remote(provider);
            let end = Instant::now() + Duration::from_secs(60);
            while trace.len() < count {
                if Instant::now() > end {
                    return Err(format!("{} entries have come, not {count}", trace.len()).into());
                }
                sleep(Duration::from_millis(1));
                trace.frame_callback();
            }
            sleep(Duration::from_millis(200)); // more may come
            trace.frame_callback();
            dump_trace(&trace, out)?;
            each(&trace, out, |id| trace.children(id))
        }

        /// Records the program through a connection.
        pub fn send(to: &str) -> Result<()> {
            let stream = BufWriter::new(TcpStream::connect(to).map_err(context(to))?);
            let storage = Arc::new(IETStorage::init(IETStorageConfig::length_prefixed(stream)));
            record(storage.clone());
            storage.finish()?;
            Ok(())
        }

        pub fn header(file: &Path, out: &mut impl Write) -> Result<()> {
            let trace = open(file)?;
            each(&trace, out, |id| {
                let h = trace.header(id)?;
                Ok(json::Header {
                    id,
                    name: h.name,
                    level: level(h.level),
                    file: h.file,
                    line: h.line,
                    message: h.message,
                })
            })
        }

        fn each<T: serde::Serialize>(
            trace: &Trace,
            out: &mut impl Write,
            line: impl Fn(u32) -> std::result::Result<T, LogProviderError>,
        ) -> Result<()> {
            for id in 0..trace.len() as u32 {
                serde_json::to_writer(
                    &mut *out,
                    &line(id).map_err(context(format!("entry {id}")))?,
                )?;
                out.write_all(b"\n")?;
            }
            Ok(())
        }

        fn level(level: LevelContainer) -> &'static str {
            match level {
                LevelContainer::Trace => "TRACE",
                LevelContainer::Debug => "DEBUG",
                LevelContainer::Info => "INFO",
                LevelContainer::Warn => "WARN",
                LevelContainer::Error => "ERROR",
            }
        }

        fn value(v: EnValueRef<'_>) -> json::Value<'_> {
            match v {
                EnValueRef::String(v) => json::Value::String(v),
                EnValueRef::Bytes(v) => json::Value::Bytes(v),
                EnValueRef::Bool(v) => json::Value::Bool(v),
                EnValueRef::Float(v) => json::Value::Float(v),
                EnValueRef::U64(v) => json::Value::U64(v),
                EnValueRef::I64(v) => json::Value::I64(v),
                EnValueRef::U128(v) => json::Value::U128(v),
                EnValueRef::I128(v) => json::Value::I128(v),
            }
        }

        pub fn iet2et(from: &Path, to: &Path, length_prefixed: bool) -> Result<()> {
            let want = if length_prefixed {
                StorageFormat::IETPrefix
            } else {
                StorageFormat::IET
            };
            let input = read_format(from, entrace::EN_DISK_VERSION, want)?;
            let mut out = vec![];
            convert::iet_to_et(&mut Cursor::new(input), &mut out, true, length_prefixed)?;
            write(to, &out)
        }

        pub fn et2iet(from: &Path, to: &Path) -> Result<()> {
            let input = read_format(from, entrace::EN_DISK_VERSION, StorageFormat::ET)?;
            let mut out = vec![];
            convert::et_to_iet(&mut Cursor::new(input), &mut out, true)?;
            write(to, &out)
        }

        /// Reads a whole file. The crate's converters take the magic on trust, and would make nonsense of another
        /// version or format, so the magic is checked here.
        fn read_format(path: &Path, version: u8, format: StorageFormat) -> Result<Vec<u8>> {
            let (bytes, is_version, is_format) = read_magic(path)?;
            if (is_version, is_format as u8) != (version, format as u8) {
                return Err(
                    format!("{}: not a file of this version and format", path.display()).into(),
                );
            }
            Ok(bytes)
        }

        fn read_magic(path: &Path) -> Result<(Vec<u8>, u8, StorageFormat)> {
            let bytes = read(path)?;
            let magic = bytes
                .first_chunk()
                .ok_or_else(|| format!("{}: shorter than the magic", path.display()))?;
            let (version, format) =
                entrace::parse_entrace_magic(magic).map_err(context(path.display().to_string()))?;
            Ok((bytes, version, format))
        }

        pub fn record_iet(to: &Path, length_prefixed: bool) -> Result<()> {
            let config = if length_prefixed {
                IETStorageConfig::length_prefixed(vec![])
            } else {
                IETStorageConfig::non_length_prefixed(vec![])
            };
            let storage = Arc::new(IETStorage::init(config));
            record(storage.clone());
            write(to, &storage.finish()?)
        }

        pub fn record_et(to: &Path) -> Result<()> {
            // ETStorage collects an IET file first, and makes the ET file of it at the end.
            let storage: Arc<ETStorage<Cursor<Vec<u8>>, _>> =
                Arc::new(ETStorage::init(Cursor::new(vec![])));
            record(storage.clone());
            let done =
                finished(storage.finish(Cursor::new(vec![]))?).ok_or("the writer made no file")?;
            write(to, done.get_ref())
        }

        /// Runs the program under a subscriber of its own, for this thread only.
        fn record<S: Storage + Send + Sync + 'static>(storage: Arc<S>) {
            let subscriber = Registry::default().with(TreeLayer::from_storage(storage));
            tracing::subscriber::with_default(subscriber, program::run);
        }
    };
}

pub mod v1 {
    use entrace_v1 as entrace;
    commands!();

    type Trace = Box<dyn LogProvider>;

    fn remote(provider: RemoteLogProvider) -> Trace {
        Box::new(provider)
    }

    fn open(path: &Path) -> Result<Trace> {
        // SAFETY: an ET file is memory mapped; whoever runs this does not change the file meanwhile.
        let mut trace =
            unsafe { entrace::load_trace(path.to_owned(), entrace::LoadConfig::default()) }
                .map_err(context(path.display().to_string()))?;
        // A thread of the crate hands the entries of an IET file over (one at least: it refuses a file without), then
        // their children. They are taken in when the frontend's callback is run, and nothing tells that it is done.
        // An ET file is there at once, and may well be empty.
        let (_, _, format) = read_magic(path)?;
        while !matches!(format, StorageFormat::ET)
            && (trace.len() == 0 || trace.children(trace.len() as u32 - 1).is_err())
        {
            std::thread::yield_now();
            trace.frame_callback();
        }
        Ok(trace)
    }

    fn message(trace: &Trace, id: u32) -> std::result::Result<Option<&str>, LogProviderError> {
        Ok(trace.header(id)?.message) // right in spite of the header's wrong file and line: it stands before them
    }

    fn attributes(
        trace: &Trace,
        id: u32,
    ) -> std::result::Result<Vec<(&str, EnValueRef<'_>)>, LogProviderError> {
        trace.attrs(id)
    }

    fn finished<T: entrace::mmap::FileLike, Q: entrace::mmap::FileLike>(
        done: entrace::mmap::ETShutdownValue<T, Q>,
    ) -> Option<Q> {
        done.temp_buf
    }
}

pub mod v2 {
    use entrace_v2 as entrace;
    commands!();

    type Trace = entrace::LogProviderImpl;

    fn remote(provider: RemoteLogProvider) -> Trace {
        Trace::Remote(provider)
    }

    fn open(path: &Path) -> Result<Trace> {
        // SAFETY: an ET file is memory mapped; whoever runs this does not change the file meanwhile.
        unsafe { entrace::load_trace(path, entrace::LoadConfig::default()) }
            .map_err(context(path.display().to_string()))
    }

    fn message(trace: &Trace, id: u32) -> std::result::Result<Option<&str>, LogProviderError> {
        trace.message(id)
    }

    fn attributes(
        trace: &Trace,
        id: u32,
    ) -> std::result::Result<Vec<(&str, EnValueRef<'_>)>, LogProviderError> {
        Ok(trace
            .attr_names(id)?
            .into_iter()
            .zip(trace.attr_values(id)?)
            .collect())
    }

    fn finished<T: entrace::mmap::FileLike, Q: entrace::mmap::FileLike>(
        done: entrace::mmap::ETShutdownValue<T, Q>,
    ) -> Option<Q> {
        done.final_buf
    }

    pub fn v1to2(from: &Path, to: &Path) -> Result<()> {
        let (bytes, version, format) = read_magic(from)?;
        if version != 1 {
            return Err(format!("{}: version {version}, not 1", from.display()).into());
        }
        // The crate's own check of an IET file's magic asks for an ET file, so it is left out for both. Without it
        // the crate starts to read where it is put.
        let mut input = Cursor::new(bytes);
        input.set_position(10);
        let mut out = vec![];
        match format {
            StorageFormat::IET => convert::iet_v1_to_v2(&mut input, &mut out, true)?,
            StorageFormat::ET => {
                convert::et_v1_to_v2(&mut input, &mut out, &mut Cursor::new(vec![]), true)?
            }
            StorageFormat::IETPrefix => {
                return Err("the crate has no such conversion for IETPrefix".into());
            }
        }
        write(to, &out)
    }
}

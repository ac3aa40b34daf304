//! One line of the log: klog's text, or a JSON object.
//!
//! Values are escaped, so that no value starts a new line, and truncated, so that none floods the log.

use std::fmt::{self, Write as _};
use std::sync::OnceLock;

use jiff::tz::TimeZone;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;
use world::World;

/// Bytes of one value. Only messages that list every invalid field of an object are longer.
const LONGEST: usize = 4096;

/// The form of lines.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub world: World,
    pub zone: TimeZone,
    pub json: bool,
    /// Without the header.
    pub bare: bool,
    /// With the directory of the source file.
    pub located: bool,
}

impl<S, N> FormatEvent<S, N> for Form
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let (metadata, mut fields) = (event.metadata(), Fields::default());
        event.record(&mut fields);
        if self.json {
            return writeln!(writer, "{}", self.object(metadata, fields));
        }
        if !self.bare {
            self.header(&mut writer, metadata)?;
        }
        write!(writer, "{:?}", fields.message)?;
        for (name, value) in &fields.others {
            write!(writer, " {name}={}", Shown(value))?;
        }
        writeln!(writer)
    }
}

impl Form {
    /// `I1122 22:11:07.123456   4711 cluster_status.rs:123] `, in local time, as klog prints it.
    fn header(&self, writer: &mut Writer<'_>, metadata: &Metadata<'_>) -> fmt::Result {
        let (letter, colour) = match *metadata.level() {
            Level::ERROR => ('E', "\u{1b}[31m"),
            Level::WARN => ('W', "\u{1b}[33m"),
            _ => ('I', ""),
        };
        let colour = if writer.has_ansi_escapes() { colour } else { "" };
        let now = self.world.now().to_zoned(self.zone.clone());
        let reset = if colour.is_empty() { "" } else { "\u{1b}[0m" };
        write!(writer, "{colour}{letter}{}{reset}", now.strftime("%m%d %H:%M:%S%.6f"))?;
        write!(writer, " {:>7} {}] ", process(), self.caller(metadata))
    }

    /// In the order of upstream's JSON: time, source, message.
    fn object(&self, metadata: &Metadata<'_>, fields: Fields) -> String {
        let micros = self.world.now().as_microsecond();
        // Milliseconds with a fraction. 2^53 microseconds are the year 2255: no digit is lost before.
        #[allow(clippy::cast_precision_loss, reason = "exact until 2255")]
        let at = micros as f64 / 1000.0;
        let level = match *metadata.level() {
            Level::ERROR => ("level", "error".into()),
            Level::WARN => ("level", "warning".into()),
            _ => ("v", Value::from(super::needed(metadata))),
        };
        let first =
            [("ts", at.into()), ("caller", self.caller(metadata).into()), ("msg", fields.message.into()), level];
        let taken = first.each_ref().map(|(name, _)| *name);
        let others = fields.others.into_iter().filter(|(name, _)| !taken.contains(name));
        let pairs = first.into_iter().chain(others).map(|(name, value)| format!("{name:?}:{value}"));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
    }

    fn caller(&self, metadata: &Metadata<'_>) -> String {
        let path = metadata.file().unwrap_or("unknown");
        let file = if self.located { located(path) } else { path.rsplit('/').next().unwrap_or(path).to_owned() };
        format!("{file}:{}", metadata.line().unwrap_or_default())
    }
}

/// The path in its crate, after the crate's name.
fn located(path: &str) -> String {
    let own = path.rsplit_once("crates/").map_or(path, |(_, own)| own);
    own.replacen("/src/", "/", 1)
}

fn process() -> u32 {
    static PROCESS: OnceLock<u32> = OnceLock::new();
    *PROCESS.get_or_init(std::process::id)
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn text(&mut self, field: &Field, mut text: String) {
        if text.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
            let left = text.len() - end;
            text.truncate(end);
            // Writing to a String cannot fail.
            let _ = write!(text, "... ({left} bytes more)");
        }
        match field.name() {
            "message" => self.message = text,
            _ => self.value(field, text.into()),
        }
    }

    fn value(&mut self, field: &Field, value: Value) {
        self.others.push((field.name(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.value(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.value(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.value(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.value(field, value.into());
    }
}

/// A value in text: strings in quotes with escapes, numbers as they are.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::String(text) => write!(f, "{text:?}"),
            other => write!(f, "{other}"),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    pub struct Written(pub Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Written {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    /// The output of `log`, without line numbers and process.
    fn written(change: impl FnOnce(&mut Form), colour: bool, log: impl FnOnce()) -> String {
        let world = World::simulated("2026-11-22T22:11:07.123456789Z".parse().expect("a time"), 1);
        let mut form = Form { world, zone: TimeZone::UTC, json: false, bare: false, located: false };
        change(&mut form);
        let to = Written::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_ansi(colour)
            .with_writer(to.clone())
            .event_format(form)
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = to.0.lock().clone();
        let text = String::from_utf8(bytes).expect("UTF-8");
        regex::Regex::new(r"line\.rs:\d+").expect("a pattern").replace_all(&text, "line.rs:N").into_owned()
    }

    fn not_ready() {
        tracing::warn!(cluster = "member1", reason = "ClusterNotReachable", "Cluster is not ready");
    }

    #[tokio::test(start_paused = true)]
    async fn text_reads_as_klogs() {
        let process = std::process::id();
        let expected = format!(
            "W1122 22:11:07.123456 {process:>7} line.rs:N] \"Cluster is not ready\" cluster=\"member1\" reason=\"ClusterNotReachable\"\n"
        );
        assert_eq!(written(|_| {}, false, not_ready), expected);
        let all = || {
            let (absent, none) = (Some(3), None::<u32>);
            let duration = std::time::Duration::from_millis(1500);
            tracing::info!(object = %"ns/name", count = 2_u64, ok = true, ?duration, absent, none, "All \"kinds\"");
            tracing::error!(err = "one\ntwo\u{1b}[31m \"three\"", "Bad");
            tracing::debug!(name: "v2", "Quiet");
        };
        let text = written(|form| form.bare = true, false, all);
        let expected = concat!(
            "\"All \\\"kinds\\\"\" object=\"ns/name\" count=2 ok=true duration=\"1.5s\" absent=3\n",
            "\"Bad\" err=\"one\\ntwo\\u{1b}[31m \\\"three\\\"\"\n",
            "\"Quiet\"\n",
        );
        assert_eq!(text, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_terminal_has_colour_and_a_directory_can_be_shown() {
        let text = written(|form| form.located = true, true, not_ready);
        assert!(text.starts_with("\u{1b}[33mW1122 22:11:07.123456\u{1b}[0m "), "{text:?}");
        assert!(text.contains(" karmada/logging/line.rs:N] "), "{text:?}");
        let text = written(|_| {}, true, || tracing::info!("Fine"));
        assert!(text.starts_with("I1122 "), "{text:?}");
        for (path, expected) in [
            ("crates/controllers/src/execution/pass.rs", "controllers/execution/pass.rs"),
            ("/home/me/karmada-rs/crates/pki/src/lib.rs", "pki/lib.rs"),
            ("/registry/h2-0.4.1/src/frame.rs", "/registry/h2-0.4.1/frame.rs"),
        ] {
            assert_eq!(located(path), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn json_has_upstreams_keys() {
        let lines = written(
            |form| form.json = true,
            true,
            || {
                not_ready();
                tracing::info!(msg = "shadowed", count = 2, "Fine");
                tracing::debug!(name: "v2", "Steady");
                tracing::debug!("Detail");
                tracing::error!(err = "no\nspace", "Bad");
            },
        );
        let expected = [
            r#"{"ts":1795385467123.456,"caller":"line.rs:N","msg":"Cluster is not ready","level":"warning","cluster":"member1","reason":"ClusterNotReachable"}"#,
            r#"{"ts":1795385467123.456,"caller":"line.rs:N","msg":"Fine","v":0,"count":2}"#,
            r#"{"ts":1795385467123.456,"caller":"line.rs:N","msg":"Steady","v":2}"#,
            r#"{"ts":1795385467123.456,"caller":"line.rs:N","msg":"Detail","v":4}"#,
            r#"{"ts":1795385467123.456,"caller":"line.rs:N","msg":"Bad","level":"error","err":"no\nspace"}"#,
        ];
        let read = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let found: Vec<Value> = lines.lines().map(read).collect();
        assert_eq!(found, expected.map(read));
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_cut() {
        let text = written(|form| form.bare = true, false, || tracing::error!(err = "é".repeat(5000), "Bad"));
        assert!(text.len() < 4200 && text.ends_with("é... (5904 bytes more)\"\n"), "{}", text.len());
    }
}

//! The log flags of upstream's components, as far as they apply to a program that logs to standard error alone.
//! [`line`] has the form of a line; docs/monitoring-and-logs.md describes both.
//!
//! `KARMADA_LOG` (targets and levels, as `tracing` reads them) takes precedence over all of them.
//!
//! tracing has five levels and klog has numbers. An event's number follows from its level: 0 for INFO and above, 4 for
//! DEBUG, 8 for TRACE. An event of level DEBUG called `v2` or `v6` has that number instead.

mod line;

use std::io::IsTerminal as _;

use anyhow::{Context as _, bail};
use jiff::tz::TimeZone;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt};
use world::World;

use line::Form;

/// The crates of this workspace, by the names in their events. Events of libraries are written from WARN on.
const OWN: &[&str] = &[
    "admission",
    "adoption",
    "aggregation",
    "apiextensions",
    "apimachinery",
    "apiserver",
    "audit",
    "authentication",
    "autoscaling",
    "bench",
    "cel",
    "client",
    "controller_runtime",
    "controllers",
    "encryption",
    "estimator",
    "etcd",
    "faults",
    "fleet_api",
    "fleet_metrics",
    "flow_control",
    "identity",
    "interpreter",
    "karmada",
    "karmada_api",
    "karmadactl",
    "kube_controllers",
    "kubernetes_api",
    "metrics",
    "metrics_adapter",
    "multicluster",
    "otlp",
    "packing",
    "pki",
    "propagation",
    "readings",
    "scheduler",
    "scheduling",
    "schema_attributes",
    "simulator",
    "storage",
    "trace",
    "transport",
    "tunnel",
    "world",
];
/// From this `--v` on all events of libraries are written.
const EVERYTHING: u32 = 9;
/// Fields of lines about a member or a binding.
const OF_MEMBERS: &[&str] = &["cluster", "binding"];

/// The settings of the log flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// `--v`.
    verbosity: u32,
    /// `--vmodule`: files by name or pattern, each with its verbosity.
    modules: Vec<(String, u32)>,
    /// `--logging-format=json`.
    json: bool,
    /// `--skip-headers`: without time, level and source.
    bare: bool,
    /// `--add-dir-header`: with the directory of the source file.
    located: bool,
    /// Without INFO, and without lines about members and bindings.
    quiet: bool,
}

impl Logging {
    /// Reads the flags; `text` returns a flag's text, empty if it is not set.
    pub fn read<'a>(text: impl Fn(&str) -> &'a str) -> anyhow::Result<Self> {
        let is_true = |name: &str| matches!(text(name), "true" | "1" | "t" | "T" | "TRUE" | "True");
        if !matches!(text("logtostderr"), "" | "true" | "1" | "t" | "T" | "TRUE" | "True") {
            bail!("--logtostderr=false: logs go to standard error; redirect that to a file instead");
        }
        let json = match text("logging-format") {
            "" | "text" => false,
            "json" => true,
            other => bail!("--logging-format: {other:?} is neither text nor json"),
        };
        Ok(Self {
            verbosity: verbosity("v", text("v"))?,
            modules: modules(text("vmodule"))?,
            json,
            bare: is_true("skip-headers"),
            located: is_true("add-dir-header"),
            quiet: false,
        })
    }

    /// For the demonstration, which prints clusters and bindings and stops clusters itself: only warnings and errors
    /// that do not concern them, unless `--v` is higher.
    #[must_use]
    pub fn quiet(self) -> Self {
        Self { quiet: self.verbosity == 0 && self.modules.is_empty(), ..self }
    }

    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        if self.quiet {
            let is_expected = OF_MEMBERS.iter().any(|name| metadata.fields().field(name).is_some());
            return *metadata.level() <= Level::WARN && !is_expected;
        }
        let verbosity = self.verbosity_of(metadata.file().unwrap_or_default());
        let crate_name = metadata.target().split("::").next().unwrap_or_default();
        if OWN.contains(&crate_name) {
            return needed(metadata) <= verbosity;
        }
        verbosity >= EVERYTHING || *metadata.level() <= Level::WARN
    }

    /// The last pattern that matches the file's name applies, as in klog.
    fn verbosity_of(&self, path: &str) -> u32 {
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = file.strip_suffix(".rs").unwrap_or(file);
        let own = self.modules.iter().find(|(pattern, _)| is_match(pattern, stem));
        own.map_or(self.verbosity, |(_, verbosity)| *verbosity)
    }

    /// No event below this level is written.
    fn least(&self) -> LevelFilter {
        match self.modules.iter().map(|(_, verbosity)| *verbosity).fold(self.verbosity, u32::max) {
            _ if self.quiet => LevelFilter::WARN,
            0 | 1 => LevelFilter::INFO,
            2..=7 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }
    }

    /// The subscriber. Each call site is enabled or disabled once.
    pub fn subscriber<W>(self, writer: W, colour: bool) -> impl Subscriber + Send + Sync
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let form = Form {
            world: World::system(),
            zone: TimeZone::system(),
            json: self.json,
            bare: self.bare,
            located: self.located,
        };
        let written = fmt::layer().with_writer(writer).with_ansi(colour && !self.json).event_format(form);
        let filter = match EnvFilter::try_from_env("KARMADA_LOG") {
            Ok(filter) => filter.boxed(),
            Err(_) => {
                let least = self.least();
                filter_fn(move |metadata| self.shows(metadata)).with_max_level_hint(least).boxed()
            }
        };
        tracing_subscriber::registry().with(filter).with(written)
    }

    /// Installs the subscriber, which writes to standard error.
    pub fn begin(self) {
        // The subscriber of a test is not replaced.
        let _ = self.subscriber(std::io::stderr, std::io::stderr().is_terminal()).try_init();
    }
}

/// The verbosity from which one of this project's events is written.
fn needed(metadata: &Metadata<'_>) -> u32 {
    match (*metadata.level(), metadata.name()) {
        (Level::ERROR | Level::WARN | Level::INFO, _) => 0,
        (Level::DEBUG, "v2") => 2,
        (Level::DEBUG, "v6") => 6,
        (Level::DEBUG, _) => 4,
        (Level::TRACE, _) => 8,
    }
}

fn verbosity(flag: &str, text: &str) -> anyhow::Result<u32> {
    if text.is_empty() {
        return Ok(0);
    }
    text.trim().parse().with_context(|| format!("--{flag}: {text:?} is no verbosity such as 4"))
}

fn modules(text: &str) -> anyhow::Result<Vec<(String, u32)>> {
    let entry = |entry: &str| -> anyhow::Result<(String, u32)> {
        let (pattern, own) = entry.split_once('=').with_context(|| format!("--vmodule: {entry:?} is no pattern=N"))?;
        Ok((pattern.trim().to_owned(), verbosity("vmodule", own)?))
    };
    text.split(',').filter(|it| !it.is_empty()).map(entry).collect()
}

/// `*` matches any characters, `?` one.
fn is_match(pattern: &str, text: &str) -> bool {
    let mut chars = pattern.chars();
    match chars.next() {
        None => text.is_empty(),
        Some('*') => {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            // A flag's text is short, so trying every end is cheap.
            ends.into_iter().any(|at| is_match(chars.as_str(), &text[at..]))
        }
        Some(pattern_char) => {
            let mut rest = text.chars();
            rest.next().is_some_and(|found| pattern_char == '?' || pattern_char == found)
                && is_match(chars.as_str(), rest.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::line::tests::Written;
    use super::*;

    fn read(values: &[(&str, &'static str)]) -> Result<Logging, String> {
        let text = |name: &str| values.iter().find(|(other, _)| *other == name).map_or("", |(_, text)| *text);
        Logging::read(text).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn settings_are_read_from_flags() {
        let all =
            read(&[("v", "4"), ("vmodule", "queue=8,est*=2"), ("logging-format", "json"), ("logtostderr", "true")]);
        let expected = Logging {
            verbosity: 4,
            modules: vec![("queue".to_owned(), 8), ("est*".to_owned(), 2)],
            json: true,
            ..Logging::default()
        };
        assert_eq!(all.as_ref(), Ok(&expected));
        for (path, verbosity) in [("a/queue.rs", 8), ("crates/b/estimates.rs", 2), ("pass.rs", 4), ("", 4)] {
            assert_eq!(expected.verbosity_of(path), verbosity, "{path}");
        }
        for (values, expected) in [
            (("v", "much"), "--v: \"much\" is no verbosity such as 4: invalid digit found in string"),
            (("vmodule", "queue"), "--vmodule: \"queue\" is no pattern=N"),
            (("logging-format", "xml"), "--logging-format: \"xml\" is neither text nor json"),
            (
                ("logtostderr", "false"),
                "--logtostderr=false: logs go to standard error; redirect that to a file instead",
            ),
        ] {
            assert_eq!(read(&[values]).unwrap_err(), expected);
        }
    }

    #[test]
    fn patterns() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("a?c*", "abcde", true),
            ("a?c", "ac", false),
            ("*ue", "queue", true),
            ("q", "queue", false),
        ] {
            assert_eq!(is_match(pattern, text), matches, "{pattern} {text}");
        }
    }

    /// The formatted lines of one event of each kind: ours by level, then a library's.
    fn shown(logging: Logging) -> String {
        let to = Written::default();
        tracing::subscriber::with_default(logging.subscriber(to.clone(), false), || {
            tracing::error!("E");
            tracing::warn!(cluster = "m1", "W");
            tracing::info!("0");
            tracing::debug!(name: "v2", "2");
            tracing::debug!("4");
            tracing::debug!(name: "v6", "6");
            tracing::trace!("8");
            tracing::warn!(target: "h2::frame", "hW");
            tracing::info!(target: "h2::frame", "hI");
            tracing::trace!(target: "hyper_util::client", "hT");
        });
        let bytes = to.0.lock().clone();
        String::from_utf8(bytes)
            .expect("UTF-8")
            .replace(" cluster=\"m1\"", "")
            .replace(['"', '\n'], " ")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn verbosity_selects_the_logged_lines() {
        for (flags, expected) in [
            (&[][..], "E W 0 hW"),
            (&[("v", "1")], "E W 0 hW"),
            (&[("v", "2")], "E W 0 2 hW"),
            (&[("v", "4")], "E W 0 2 4 hW"),
            (&[("v", "6")], "E W 0 2 4 6 hW"),
            (&[("v", "8")], "E W 0 2 4 6 8 hW"),
            (&[("v", "9")], "E W 0 2 4 6 8 hW hI hT"),
            (&[("vmodule", "mod=6")], "E W 0 2 4 6 hW"),
            (&[("vmodule", "queue=6")], "E W 0 hW"),
        ] {
            let flags = [flags, &[("skip-headers", "true")]].concat();
            assert_eq!(shown(read(&flags).expect("flags")), expected, "{flags:?}");
        }
        let bare = || read(&[("skip-headers", "true")]).expect("flags");
        assert_eq!(shown(bare().quiet()), "E hW", "nothing about members");
        assert_eq!(shown(Logging { verbosity: 2, ..bare() }.quiet()), "E W 0 2 hW");
    }

    #[test]
    fn every_crate_of_the_workspace_is_our_own() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let entries = std::fs::read_dir(crates).expect("the crates").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().replace('-', "_")).collect();
        names.sort();
        assert_eq!(names, OWN);
    }
}

//! Where log lines go and which are written: the log flags of upstream's components, carried out as far as they make sense
//! for a program that writes to standard error alone.
//!
//! `KARMADA_LOG` (targets and levels, as `tracing` reads them) goes before all of them.

use std::io::IsTerminal as _;

use anyhow::{Context as _, bail};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// Libraries that tell of every frame: not below information, unless all is asked for.
const TALKATIVE: &[&str] = &["h2", "hyper", "hyper_util", "rustls", "tokio_rustls", "tower", "tonic", "kube_client"];
/// From this `--v` on even those.
const EVERYTHING: u32 = 9;

/// What the log flags ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// `--v`.
    verbosity: u32,
    /// `--vmodule`: files by name or pattern, each with a verbosity of its own.
    modules: Vec<(String, u32)>,
    /// `--logging-format=json`.
    json: bool,
    /// `--skip-headers`: without time and level.
    bare: bool,
    /// `--add-dir-header`: with file and line.
    located: bool,
    /// Whatever the verbosity, errors alone.
    errors_only: bool,
}

impl Logging {
    /// Reads the flags; `text` gives a flag's text, empty when it has none.
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
            errors_only: false,
        })
    }

    /// For a command whose output other log lines would disturb.
    #[must_use]
    pub fn errors_only(self) -> Self {
        Self { errors_only: true, ..self }
    }

    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        let crate_name = metadata.target().split("::").next().unwrap_or_default();
        let own = self.verbosity_of(metadata.file().unwrap_or_default());
        let least = if own < EVERYTHING && TALKATIVE.contains(&crate_name) { Level::INFO } else { Level::TRACE };
        *metadata.level() <= self.level(own) && *metadata.level() <= least
    }

    fn level(&self, verbosity: u32) -> LevelFilter {
        if self.errors_only { LevelFilter::ERROR } else { level(verbosity) }
    }

    /// The last pattern that matches the file's name counts, as klog has it.
    fn verbosity_of(&self, path: &str) -> u32 {
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = file.strip_suffix(".rs").unwrap_or(file);
        let own = self.modules.iter().find(|(pattern, _)| is_match(pattern, stem));
        own.map_or(self.verbosity, |(_, verbosity)| *verbosity)
    }

    /// From now on log lines are written.
    pub fn begin(self) {
        let plain = fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .with_file(self.located)
            .with_line_number(self.located);
        let written = match (self.json, self.bare) {
            (true, _) => plain.json().boxed(),
            (false, true) => plain.without_time().with_level(false).with_target(false).boxed(),
            (false, false) => plain.boxed(),
        };
        let filter = match EnvFilter::try_from_env("KARMADA_LOG") {
            Ok(filter) => filter.boxed(),
            Err(_) => {
                let most = self.modules.iter().map(|(_, verbosity)| *verbosity).fold(self.verbosity, u32::max);
                let hint = self.level(most);
                filter_fn(move |metadata| self.shows(metadata)).with_max_level_hint(hint).boxed()
            }
        };
        // Somebody else's subscriber, in a test, stays.
        let _ = tracing_subscriber::registry().with(filter).with(written).try_init();
    }
}

/// klog's numbers: 0 and 1 for what an operator must see, 2 and 3 for what happens, 4 for how.
fn level(verbosity: u32) -> LevelFilter {
    match verbosity {
        0 | 1 => LevelFilter::WARN,
        2 | 3 => LevelFilter::INFO,
        4..=7 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
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

/// `*` stands for any characters, `?` for one.
fn is_match(pattern: &str, text: &str) -> bool {
    let mut chars = pattern.chars();
    match chars.next() {
        None => text.is_empty(),
        Some('*') => {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            // A flag's text is short, so that trying every end costs nothing.
            ends.into_iter().any(|at| is_match(chars.as_str(), &text[at..]))
        }
        Some(wanted) => {
            let mut rest = text.chars();
            rest.next().is_some_and(|found| wanted == '?' || wanted == found) && is_match(chars.as_str(), rest.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &'static str)]) -> Result<Logging, String> {
        let text = |name: &str| given.iter().find(|(other, _)| *other == name).map_or("", |(_, text)| *text);
        Logging::read(text).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn what_is_asked_for() {
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
        for (given, expected) in [
            (("v", "much"), "--v: \"much\" is no verbosity such as 4: invalid digit found in string"),
            (("vmodule", "queue"), "--vmodule: \"queue\" is no pattern=N"),
            (("logging-format", "xml"), "--logging-format: \"xml\" is neither text nor json"),
            (
                ("logtostderr", "false"),
                "--logtostderr=false: logs go to standard error; redirect that to a file instead",
            ),
        ] {
            assert_eq!(read(&[given]).unwrap_err(), expected);
        }
    }

    #[test]
    fn errors_alone() {
        let quiet = read(&[("v", "4")]).unwrap().errors_only();
        assert_eq!([quiet.level(0), quiet.level(4), quiet.level(9)], [LevelFilter::ERROR; 3]);
    }

    #[test]
    fn levels_and_patterns() {
        let levels = [0, 2, 4, 8].map(level);
        assert_eq!(levels, [LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG, LevelFilter::TRACE]);
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
}

//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::Kind;
use crate::family::{Cells, Family};

/// The families are sorted by name. Families with one name, whose numbers are partly counted here and partly collected,
/// share a description. Families without series are omitted, as in Prometheus' own clients.
pub(crate) fn write(families: &[Arc<Family>]) -> String {
    let mut out = String::new();
    for parts in families.chunk_by(|one, other| one.description.name == other.description.name) {
        let mut body = String::new();
        for family in parts {
            let bounds: Vec<String> =
                family.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]).collect();
            let mut lines = Lines { out: &mut body, name: family.description.name, labels: String::new() };
            family.for_each(|series| {
                lines.begin(family.description.labels.iter().copied().zip(series.labels.iter().map(|it| &**it)));
                one(&mut lines, family, &bounds, &series.value);
            });
        }
        if let (Some(family), false) = (parts.first(), body.is_empty()) {
            let (name, help) = (family.description.name, family.description.help);
            // Writing to a String cannot fail.
            let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {}\n{body}", family.description.type_name());
        }
    }
    out
}

fn one(lines: &mut Lines<'_>, family: &Family, bounds: &[String], cells: &Cells) {
    let main = cells.main.load(Ordering::Relaxed);
    match family.description.kind {
        Kind::Counter => lines.line("", None, main),
        Kind::Gauge | Kind::Sum => lines.line("", None, f64::from_bits(main)),
        Kind::Histogram(_) => {
            let mut count = 0;
            for (bucket, bound) in cells.buckets.iter().zip(bounds) {
                count += bucket.load(Ordering::Relaxed);
                lines.line("_bucket", Some(bound), count);
            }
            lines.line("_sum", None, f64::from_bits(main));
            lines.line("_count", None, count);
        }
    }
}

/// The lines of a family.
struct Lines<'o> {
    out: &'o mut String,
    name: &'static str,
    /// The labels of the series, in text.
    labels: String,
}

impl Lines<'_> {
    /// Begins a series.
    fn begin<'s>(&mut self, labels: impl Iterator<Item = (&'s str, &'s str)>) {
        self.labels.clear();
        for (label, value) in labels {
            if !self.labels.is_empty() {
                self.labels.push(',');
            }
            self.labels.push_str(label);
            self.labels.push_str("=\"");
            escape(&mut self.labels, value);
            self.labels.push('"');
        }
    }

    /// One number of the series; `bound` is that of a bucket.
    fn line(&mut self, suffix: &str, bound: Option<&str>, value: impl Display) {
        let Self { out, name, labels } = self;
        out.push_str(name);
        out.push_str(suffix);
        if !labels.is_empty() || bound.is_some() {
            out.push('{');
            out.push_str(labels);
            if let Some(bound) = bound {
                out.push_str(if labels.is_empty() { "le=\"" } else { ",le=\"" });
                out.push_str(bound);
                out.push('"');
            }
            out.push('}');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(out, " {value}");
    }
}

fn escape(out: &mut String, value: &str) {
    if !value.contains(['\\', '"', '\n']) {
        return out.push_str(value);
    }
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

//! Prometheus' text format, version 0.0.4.

use std::fmt::Write as _;
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
            family.for_each(|series| {
                let labels: Vec<(&str, &str)> =
                    family.description.labels.iter().copied().zip(series.labels.iter().map(|it| &**it)).collect();
                one(&mut body, family, &labels, &series.value);
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

fn one(out: &mut String, family: &Family, labels: &[(&str, &str)], cells: &Cells) {
    let name = family.description.name;
    let main = cells.main.load(Ordering::Relaxed);
    match family.description.kind {
        Kind::Counter => line(out, name, "", labels, None, &main.to_string()),
        Kind::Gauge | Kind::Sum => line(out, name, "", labels, None, &f64::from_bits(main).to_string()),
        Kind::Histogram(_) => {
            let mut count = 0;
            let bounds = family.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
            for (bucket, bound) in cells.buckets.iter().zip(bounds) {
                count += bucket.load(Ordering::Relaxed);
                line(out, name, "_bucket", labels, Some(&bound), &count.to_string());
            }
            line(out, name, "_sum", labels, None, &f64::from_bits(main).to_string());
            line(out, name, "_count", labels, None, &count.to_string());
        }
    }
}

fn line(out: &mut String, name: &str, suffix: &str, labels: &[(&str, &str)], bound: Option<&str>, value: &str) {
    out.push_str(name);
    out.push_str(suffix);
    let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
    let mut before = '{';
    for (label, value) in all {
        let _ = write!(out, "{before}{label}=\"");
        escape(out, value);
        out.push('"');
        before = ',';
    }
    if before == ',' {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

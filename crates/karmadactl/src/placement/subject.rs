//! The arguments of `explain-placement`, and names like one that was not found.

use karmada_api::work::v1alpha2::ObjectReference;

use crate::error::Error;

/// The workload that the arguments name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// As typed: a plural, singular, short name or kind, with or without its group. Without it any workload, or
    /// binding, of the name is meant.
    pub type_: Option<String>,
    pub name: String,
}

/// `TYPE NAME`, `TYPE/NAME` or `NAME`; for a name alone, the type may be set with `--kind`.
pub fn parse(args: &[String], kind: Option<&str>) -> Result<Option<Subject>, Error> {
    let subject =
        |type_: Option<&str>, name: &str| Ok(Some(Subject { type_: type_.map(str::to_owned), name: name.to_owned() }));
    match args {
        [] => Ok(None),
        [one] => match one.split_once('/') {
            None => subject(kind, one),
            Some((type_, name)) if !type_.is_empty() && !name.is_empty() && !name.contains('/') => {
                subject(Some(type_), name)
            }
            Some(_) => Err(Error::message(format!(
                "arguments in resource/name form must have a single resource and name: {one}"
            ))),
        },
        [type_, name] if type_.contains('/') || name.contains('/') => Err(Error::message(format!(
            "there is no need to specify a resource type as a separate argument when passing arguments in resource/name \
             form (e.g. 'explain-placement deployment/web' instead of 'explain-placement {type_} {name}')"
        ))),
        [type_, _] if type_.contains(',') => Err(Error::message("you may only specify a single resource type")),
        [type_, name] => subject(Some(type_), name),
        [type_, names @ ..] => Err(Error::message(format!(
            "one workload is explained at a time, {} are named: {}; name the first with: explain-placement {type_} {}",
            names.len(),
            names.join(", "),
            names[0]
        ))),
    }
}

impl Subject {
    /// Whether a binding is about it, as far as that is known without a server.
    pub fn means(&self, binding: &str, resource: &ObjectReference) -> bool {
        let is_kind = |type_: &str| {
            let typed = type_.split('.').next().unwrap_or_default().to_lowercase();
            let kind = resource.kind.to_lowercase();
            typed == kind || typed == format!("{kind}s") || typed == format!("{kind}es")
        };
        match &self.type_ {
            Some(type_) => is_kind(type_) && resource.name == self.name,
            None => binding == self.name || resource.name == self.name,
        }
    }
}

/// At most this many names are suggested.
const SUGGESTED: usize = 5;

/// Similar names to `searched`, the nearest first.
pub fn near<'a>(searched: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let searched = searched.to_lowercase();
    let distance = |name: &str| {
        let name = name.to_lowercase();
        match () {
            () if name.starts_with(&searched) => Some(0),
            () if searched.len() > 2 && (name.contains(&searched) || searched.starts_with(&name)) => Some(1),
            () => Some(edits(&searched, &name)).filter(|edits| *edits <= 1 + searched.len() / 5).map(|edits| 1 + edits),
        }
    };
    let mut found: Vec<(usize, &str)> = names.into_iter().filter_map(|name| Some((distance(name)?, name))).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|(_, name)| name).take(SUGGESTED).collect()
}

/// How many letters have to be added, dropped or replaced. Names have at most 253 letters.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, a) in one.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], line + 1);
        for (column, b) in other.iter().enumerate() {
            let replaced = corner + usize::from(a != *b);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_as_by_kubectl() {
        for (args, kind, expected) in [
            ("", None, Ok(None)),
            ("web", None, Ok(Some((None, "web")))),
            ("web", Some("Deployment"), Ok(Some((Some("Deployment"), "web")))),
            ("deploy web", None, Ok(Some((Some("deploy"), "web")))),
            ("deployments.apps web", None, Ok(Some((Some("deployments.apps"), "web")))),
            ("deployment/web", None, Ok(Some((Some("deployment"), "web")))),
            ("deployment/", None, Err("single resource and name")),
            ("deployment deployment/web", None, Err("there is no need to specify a resource type")),
            ("deploy,sts web", None, Err("single resource type")),
            ("deploy a b", None, Err("2 are named: a, b")),
        ] {
            let words: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
            match (parse(&words, kind), expected) {
                (Ok(found), Ok(expected)) => {
                    let expected = expected
                        .map(|(type_, name)| Subject { type_: type_.map(str::to_owned), name: name.to_owned() });
                    assert_eq!(found, expected, "{args}");
                }
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{args}: {error}"),
                (found, _) => panic!("{args}: {found:?}"),
            }
        }
    }

    #[test]
    fn similar_names_are_suggested() {
        let names = ["nginx", "network", "web", "web-canary", "frontend"];
        for (searched, expected) in [
            ("ne", &["network"][..]),
            ("ngnix", &["nginx"]),
            ("nginx2", &["nginx"]),
            ("web", &["web", "web-canary"]),
            ("canary", &["web-canary"]),
            ("database", &[]),
        ] {
            assert_eq!(near(searched, names), expected, "{searched}");
        }
    }
}

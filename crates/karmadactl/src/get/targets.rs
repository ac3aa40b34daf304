//! The arguments of `get`: `TYPE[,TYPE] [NAME...]` or `TYPE/NAME ...`, and the resources of a type on a server.

use client::DiscoveredResource;

use crate::error::Error;

/// One type with its names; no names means all objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As typed: a plural, singular, short name, kind or category, optionally with `.VERSION.GROUP` or `.GROUP`.
    pub type_: String,
    pub names: Vec<String>,
}

/// Splits the arguments of `get`, whose refusal names the control plane.
///
/// # Errors
/// Without a target, or with mixed forms.
pub fn parse(args: &[String]) -> Result<Vec<Target>, Error> {
    if args.is_empty() {
        return Err(Error::arguments(format!("cluster(Karmada): {MISSING}")));
    }
    split(args)
}

pub const MISSING: &str = "You must provide one or more resources by argument or filename.\n\
                       Example resource specifications include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   \
                       '<resource> <name>'\n   '<resource>'";

/// Splits the arguments as kubectl does: `TYPE NAME...`, `TYPE,TYPE`, `TYPE,TYPE NAME...` for the name in each type, or
/// `TYPE/NAME...`.
///
/// # Errors
/// Without a target, or with mixed forms.
pub fn split(args: &[String]) -> Result<Vec<Target>, Error> {
    let Some((first, rest)) = args.split_first() else { return Err(Error::message(MISSING)) };
    if args.iter().any(|arg| arg.contains('/')) {
        let mut targets: Vec<Target> = Vec::new();
        if !args.iter().all(|arg| arg.contains('/')) {
            return Err(Error::message(
                "there is no need to specify a resource type as a separate argument when passing arguments in \
                 resource/name form (e.g. 'karmadactl get resource/<resource_name>' instead of 'karmadactl get resource \
                 resource/<resource_name>'",
            ));
        }
        for arg in args {
            let (type_, name) = arg.split_once('/').unwrap_or((arg, ""));
            if name.contains('/') {
                return Err(Error::message("arguments in resource/name form may not have more than one slash"));
            }
            if type_.is_empty() || name.is_empty() || type_.contains(',') {
                return Err(Error::message("arguments in resource/name form must have a single resource and name"));
            }
            match targets.iter_mut().find(|target| target.type_ == type_) {
                Some(target) => target.names.push(name.to_owned()),
                None => targets.push(Target { type_: type_.to_owned(), names: vec![name.to_owned()] }),
            }
        }
        return Ok(targets);
    }
    let mut types: Vec<&str> = Vec::new();
    for type_ in first.split(',') {
        if !types.contains(&type_) {
            types.push(type_);
        }
    }
    Ok(types.into_iter().map(|type_| Target { type_: type_.to_owned(), names: rest.to_vec() }).collect())
}

/// The resources of a type on a server: one, or all members of a category. Empty if the server serves none.
pub fn resolve<'a>(type_: &str, served: &'a [DiscoveredResource]) -> Vec<&'a DiscoveredResource> {
    let listable = |r: &&DiscoveredResource| r.verbs.iter().any(|verb| verb == "list" || verb == "get");
    let (name, qualifier) = type_.split_once('.').map_or((type_, None), |(name, rest)| (name, Some(rest)));
    let qualified = |r: &DiscoveredResource| match qualifier {
        None => true,
        Some(q) => q == r.resource.group || q == format!("{}.{}", r.resource.version, r.resource.group),
    };
    let lower = name.to_ascii_lowercase();
    let named = |r: &DiscoveredResource| {
        r.resource.plural == lower
            || r.singular == lower
            || r.short_names.contains(&lower)
            || r.resource.kind.eq_ignore_ascii_case(name)
    };
    // A plural wins over a short name of another group, as in kubectl's mapper.
    let exact = served.iter().find(|r| listable(r) && qualified(r) && r.resource.plural == lower);
    if let Some(one) = exact.or_else(|| served.iter().find(|r| listable(r) && qualified(r) && named(r))) {
        return vec![one];
    }
    if qualifier.is_some() {
        return Vec::new();
    }
    served.iter().filter(|r| r.verbs.iter().any(|v| v == "list") && r.categories.contains(&lower)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[&str], expected: &[(&str, &[&str])]) {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let targets: Vec<(String, Vec<String>)> =
            parse(&args).expect("valid arguments").into_iter().map(|t| (t.type_, t.names)).collect();
        let expected: Vec<(String, Vec<String>)> = expected
            .iter()
            .map(|(type_, names)| ((*type_).to_owned(), names.iter().map(|n| (*n).to_owned()).collect()))
            .collect();
        assert_eq!(targets, expected);
    }

    #[test]
    fn arguments_split_as_kubectl_splits_them() {
        check(&["deploy"], &[("deploy", &[])]);
        check(&["deploy", "a", "b"], &[("deploy", &["a", "b"])]);
        check(&["deploy,svc"], &[("deploy", &[]), ("svc", &[])]);
        check(&["deploy,deploy,"], &[("deploy", &[]), ("", &[])]);
        check(&["deploy,svc", "a", "b"], &[("deploy", &["a", "b"]), ("svc", &["a", "b"])]);
        for (word, why) in [
            ("svc/", "must have a single resource and name"),
            ("a/b/c", "may not have more than one slash"),
            ("a,b/c", "must have a single resource and name"),
        ] {
            let refused = parse(&[word.to_owned()]).expect_err(word).to_string();
            assert_eq!(refused, format!("arguments in resource/name form {why}"));
        }
        check(&["deploy/a", "svc/b", "deploy/c"], &[("deploy", &["a", "c"]), ("svc", &["b"])]);
        assert!(parse(&[]).is_err());
        assert!(parse(&["deploy".into(), "svc/b".into()]).is_err());
    }
}

//! URLs in fields: taken apart as far as rules look at them.

/// The parts of a URL, as far as they are checked.
pub(crate) struct Url<'a> {
    pub scheme: &'a str,
    /// Absent without `//`.
    pub authority: Option<&'a str>,
    pub has_query: bool,
    pub has_fragment: bool,
}

/// Takes a URL apart. The complaint is the one of Go's `net/url`.
pub(crate) fn parse(text: &str) -> Result<Url<'_>, String> {
    let fail = |why: &str| Err(format!("parse {text:?}: {why}"));
    if text.chars().any(|c| c.is_ascii_control()) {
        return fail("net/url: invalid control character in URL");
    }
    let (rest, has_fragment) =
        text.split_once('#').map_or((text, false), |(rest, fragment)| (rest, !fragment.is_empty()));
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, tail)) if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(word) => {
            (scheme, tail)
        }
        Some(("", _)) => return fail("missing protocol scheme"),
        Some((first, _)) if !first.contains('/') => return fail("first path segment in URL cannot contain colon"),
        _ => ("", rest),
    };
    let (rest, has_query) = rest.split_once('?').map_or((rest, false), |(rest, _)| (rest, true));
    let authority = rest.strip_prefix("//").map(|rest| rest.split('/').next().unwrap_or_default());
    if let Some(host) = authority
        && host.contains([' ', '<', '>', '"'])
    {
        return fail("invalid character in host name");
    }
    Ok(Url { scheme, authority, has_query, has_fragment })
}

//! URLs: parsing of those in fields, as far as the rules need it, and escapes of segments and queries.

mod query;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

use crate::field::go_quoted;

pub use query::Query;

/// What a value in a query must escape: all but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What a segment of a path must escape: what RFC 3986 permits there stays as it is, except `%`.
const OUTSIDE_SEGMENTS: &AsciiSet = &RESERVED
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// A segment of a path.
pub fn segment(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, OUTSIDE_SEGMENTS)
}

/// A value in a query.
pub fn query_value(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

/// The parts of a URL that rules check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// The scheme, such as `https`.
    pub scheme: &'a str,
    /// Host and port; empty without `//`.
    pub host: &'a str,
    /// The part before `@`, if there is an `@`.
    pub user: Option<&'a str>,
    /// Without `?`; empty if absent.
    pub query: &'a str,
    /// Without `#`; empty if absent.
    pub fragment: &'a str,
}

impl<'a> Url<'a> {
    /// The parts that the URL of a server must not have, each with Kubernetes' message about it.
    pub fn beyond_server(&self) -> impl Iterator<Item = (&'a str, &'static str)> {
        let present = |part: &'a str| (!part.is_empty()).then_some(part);
        [
            (self.user, "user information is not permitted in the URL"),
            (present(self.fragment), "fragments are not permitted in the URL"),
            (present(self.query), "query parameters are not permitted in the URL"),
        ]
        .into_iter()
        .filter_map(|(part, message)| Some((part?, message)))
    }
}

/// Parses a URL.
///
/// # Errors
/// The message of Go's `net/url`.
pub fn parse(text: &str) -> Result<Url<'_>, String> {
    let fail = |why: &str| Err(format!("parse {}: {why}", go_quoted(text)));
    if text.chars().any(|c| c.is_ascii_control()) {
        return fail("net/url: invalid control character in URL");
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, tail)) if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(word) => {
            (scheme, tail)
        }
        Some(("", _)) => return fail("missing protocol scheme"),
        Some((first, _)) if !first.contains('/') => return fail("first path segment in URL cannot contain colon"),
        _ => ("", rest),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.strip_prefix("//").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if let Some(wrong) = host.chars().find(|c| matches!(c, ' ' | '<' | '>' | '"')) {
        return fail(&format!("invalid character {} in host name", go_quoted(&wrong.to_string())));
    }
    let port = if host.ends_with(']') { None } else { host.rsplit_once(':').map(|(_, port)| port) };
    if let Some(port) = port.filter(|port| !port.bytes().all(|c| c.is_ascii_digit())) {
        return fail(&format!("invalid port {} after host", go_quoted(&format!(":{port}"))));
    }
    Ok(Url { scheme, host, user, query, fragment })
}

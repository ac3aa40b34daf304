//! Absolute URLs, as far as Go's `url.ParseRequestURI` and the getters of Kubernetes' library are concerned.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    pub scheme: String,
    /// Includes the port.
    pub host: String,
    pub path: String,
    /// The part after the scheme that does not begin with a slash.
    opaque: String,
    query: String,
}

impl Url {
    /// Parses an absolute URL (`scheme://host/path?query`, `mailto:a@b`) or a path (`/path?query`).
    ///
    /// As upstream, a text is valid if it is one with its fragment, and its parts are those without.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.chars().any(|c| c.is_control()) {
            return None;
        }
        parts(text, true)?;
        parts(text.split('#').next().unwrap_or(text), false)
    }

    /// The bytes of all parts.
    pub fn size(&self) -> usize {
        self.scheme.len() + self.host.len() + self.path.len() + self.opaque.len() + self.query.len()
    }

    pub fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => self.host.split(':').next().unwrap_or_default(),
        }
    }

    pub fn port(&self) -> &str {
        let after = self.host.rsplit(']').next().unwrap_or_default();
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// Keys with their values in the order of the text.
    pub fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescape_query(key), unescape_query(value)) {
                out.entry(key).or_default().push(value);
            }
        }
        out
    }
}

/// Whether Go's `url.ParseRequestURI` accepts the text.
pub fn is_request_uri(text: &str) -> bool {
    !text.is_empty() && !text.bytes().any(|byte| byte.is_ascii_control()) && parts(text, true).is_some()
}

/// `strict` texts have a host only after a scheme.
fn parts(text: &str, strict: bool) -> Option<Url> {
    let part = str::to_owned;
    if text == "*" {
        return Some(Url { path: part("*"), ..Url::default() });
    }
    let (scheme, rest) = match text.find([':', '/', '?', '#']) {
        Some(at) if text.as_bytes()[at] == b':' => (&text[..at], &text[at + 1..]),
        _ => ("", text),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if !scheme.chars().all(legal) || (scheme.is_empty() && text.starts_with(':')) {
        return None;
    }
    if !scheme.is_empty() && !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (query, scheme) = (part(query), scheme.to_ascii_lowercase());
    if !rest.starts_with('/') {
        // Go does not look into such a part. Relative references are refused.
        return (!scheme.is_empty()).then(|| Url { scheme, opaque: part(rest), query, ..Url::default() });
    }
    let (host, path) = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || (!strict && !after.starts_with('/')) => {
            after.split_at(after.find('/').unwrap_or(after.len()))
        }
        _ => ("", rest),
    };
    let (user, host) = host.rsplit_once('@').unwrap_or(("", host));
    let is_valid = user_is_valid(user) && host_is_valid(&scheme, host) && escapes_are_valid(path);
    is_valid.then(|| Url { scheme, host: part(host), path: escape_path(path).to_string(), query, ..Url::default() })
}

fn user_is_valid(user: &str) -> bool {
    user.chars().all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c)) && escapes_are_valid(user)
}

fn host_is_valid(scheme: &str, host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((address, after)) = rest.rsplit_once(']') else { return false };
            let (ip, zone) = address.split_once("%25").unwrap_or((address, "-"));
            if zone.is_empty() || ip.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            match after {
                "" => (address, ""),
                after => match after.strip_prefix(':') {
                    Some(port) => (address, port),
                    None => return false,
                },
            }
        }
        None if host.contains('[') => return false,
        None => {
            let parts = if matches!(scheme, "http" | "https") { host.split_once(':') } else { host.rsplit_once(':') };
            parts.unwrap_or((host, ""))
        }
    };
    let plain = |c: char| !matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' | '#');
    port.bytes().all(|b| b.is_ascii_digit()) && name.chars().all(plain) && escapes_are_valid(name)
}

fn escapes_are_valid(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    (0..bytes.len()).filter(|at| bytes[*at] == b'%').all(|at| hex(at + 1) && hex(at + 2))
}

/// What Go escapes in a path.
const OUTSIDE_PATHS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@')
    .remove(b'%')
    .remove(b'!')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'[')
    .remove(b']');

fn escape_path(path: &str) -> PercentEncode<'_> {
    utf8_percent_encode(path, OUTSIDE_PATHS)
}

fn unescape_query(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    escapes_are_valid(text).then(|| percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

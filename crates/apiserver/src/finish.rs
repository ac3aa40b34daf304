//! The last step of a reply: indentation and compression, for clients that ask for either.

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, USER_AGENT, VARY};
use http_body::Body as _;
use http_body_util::BodyExt;
use transport::{Response, full};

use crate::request::Query;

/// Smaller replies go as they are: kube-apiserver's bound, in bytes.
const WORTH_COMPRESSING: u64 = 128 * 1024;

/// What a request says about the looks of its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    indent: bool,
    gzip: bool,
}

impl Wishes {
    pub fn of(headers: &http::HeaderMap, query: &Query) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // People with these in front of them read the reply themselves.
        let by_hand = || ["curl", "Wget", "Mozilla/5.0"].iter().any(|agent| text(USER_AGENT).starts_with(agent));
        let indent = if query.get("pretty").is_some() { query.flag("pretty") } else { by_hand() };
        let gzip = text(ACCEPT_ENCODING).split(',').any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            parts.next() == Some("gzip") && parts.next() != Some("q=0")
        });
        Self { indent, gzip }
    }
}

/// Applies the wishes to a reply that is complete; streams pass untouched.
pub async fn finish(response: Response, wishes: Wishes) -> Response {
    let Some(size) = response.body().size_hint().exact().filter(|size| *size > 0) else { return response };
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    let indented = wishes.indent && is_json;
    let gzip = wishes.gzip && size >= WORTH_COMPRESSING && !response.headers().contains_key(CONTENT_ENCODING);
    if !indented && !gzip {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(whole) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
        return crate::respond::failure(&apimachinery::Status::internal("the reply could not be read"));
    };
    parts.headers.remove(CONTENT_LENGTH);
    let bytes = if indented { Bytes::from(indent(&whole)) } else { whole };
    if !gzip {
        return Response::from_parts(parts, full(bytes));
    }
    // Megabytes take milliseconds, in which other requests want to go on.
    let original = bytes.clone();
    let Ok(Ok(packed)) = tokio::task::spawn_blocking(move || compress(&original)).await else {
        return Response::from_parts(parts, full(bytes));
    };
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, full(packed))
}

fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    use std::io::Write;
    // Lists shrink to about a tenth.
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// JSON with two spaces per level, as Go indents it. The order of members stays.
fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut escaped, mut opened) = (0usize, false, false, false);
    for byte in json.iter().copied() {
        if in_text {
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        let closes = matches!(byte, b'}' | b']');
        if byte.is_ascii_whitespace() {
            continue;
        }
        // Empty containers stay on one line.
        if std::mem::take(&mut opened) && !closes {
            depth += 1;
            line(&mut out, depth);
        } else if closes && !out.ends_with(b"{") && !out.ends_with(b"[") {
            depth = depth.saturating_sub(1);
            line(&mut out, depth);
        }
        out.push(byte);
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => opened = true,
            b',' => line(&mut out, depth),
            b':' => out.push(b' '),
            _ => {}
        }
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b"  ", depth).flatten());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_keeps_order_texts_and_empty_containers() {
        let compact = br#"{"b":{},"a":[1,{"x":"{\"q\\"}],"c":[],"d":null}"#;
        let expected = "{\n  \"b\": {},\n  \"a\": [\n    1,\n    {\n      \"x\": \"{\\\"q\\\\\"\n    }\n  ],\n  \"c\": [],\n  \
                        \"d\": null\n}";
        assert_eq!(String::from_utf8_lossy(&indent(compact)), expected);
    }

    #[test]
    fn wishes_come_from_the_query_and_the_headers() {
        let check = |query: &str, agent: &'static str, coding: &'static str, indent: bool, gzip: bool| {
            let mut headers = http::HeaderMap::new();
            headers.insert(USER_AGENT, HeaderValue::from_static(agent));
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(coding));
            assert_eq!(Wishes::of(&headers, &Query::parse(query)), Wishes { indent, gzip }, "{query} {agent} {coding}");
        };
        check("", "kubectl/v1.33", "gzip", false, true);
        check("", "curl/8", "identity", true, false);
        check("pretty=false", "curl/8", "gzip;q=0", false, false);
        check("pretty", "kubectl/v1.33", "br, gzip;q=0.5", true, true);
    }
}

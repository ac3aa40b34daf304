//! The last step of a response: indentation and compression, for clients that request them.

use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, USER_AGENT, VARY,
};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use transport::{Body, Response, full};

use crate::limits::budget::{PassedOn, Produced};
use crate::request::Query;

/// Smaller replies go as they are: kube-apiserver's bound, in bytes.
pub(crate) const WORTH_COMPRESSING: usize = 128 * 1024;
/// Bytes of memory that compressing takes.
const ENCODER: usize = 320 << 10;

/// The requested presentation of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    indent: bool,
    gzip: bool,
}

impl Preferences {
    pub fn of(headers: &http::HeaderMap, query: &Query) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // People with these in front of them read the reply themselves.
        let by_hand = || ["curl", "Wget", "Mozilla/5.0"].iter().any(|agent| text(USER_AGENT).starts_with(agent));
        let by_type = || text(ACCEPT).split([',', ';']).any(|part| part.trim() == "pretty=1");
        let indent = match query.text("pretty") {
            Some(requested) => matches!(requested, "1" | "t" | "T" | "true" | "TRUE" | "True"),
            None => by_hand(),
        };
        let gzip = takes_gzip(headers);
        Self { indent: indent || by_type(), gzip }
    }
}

/// Whether a client accepts compressed replies.
pub(crate) fn takes_gzip(headers: &http::HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && parts.next() != Some("q=0")
    })
}

/// Applies the preferences to a complete response; streams pass unchanged.
pub async fn finish(response: Response, preferences: Preferences) -> Response {
    let produced = response.extensions().get::<Produced>().cloned();
    // A list of unknown length is a large one.
    let unknown = || produced.as_ref().map(|_| u64::MAX);
    let size = response.body().size_hint().exact().or_else(unknown);
    let Some(size) = size.filter(|size| *size > 0) else { return response };
    // A document cached in compressed form is sent unchanged.
    if response.headers().contains_key(CONTENT_ENCODING) || response.extensions().get::<PassedOn>().is_some() {
        return response;
    }
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    let gzip = preferences.gzip && size >= WORTH_COMPRESSING as u64;
    let (mut parts, mut body) = response.into_parts();
    if preferences.indent && is_json {
        let Ok(whole) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
            return crate::wire::respond::failure(&apimachinery::Status::internal("the reply could not be read"));
        };
        parts.headers.remove(CONTENT_LENGTH);
        parts.extensions.remove::<Produced>();
        body = full(indent(&whole));
    }
    if gzip {
        parts.headers.remove(CONTENT_LENGTH);
        parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
        // Without a mark, the plain body is in memory as a whole.
        let whole = || Produced { held: usize::try_from(size).unwrap_or(0), shared: false, to_begin: 0 };
        let plain = parts.extensions.remove::<Produced>().unwrap_or_else(whole);
        // Compressed bytes are not shared with other responses.
        parts.extensions.insert(Produced { shared: false, to_begin: ENCODER, ..plain });
        body = Gzip::new(body).boxed_unsync();
    }
    Response::from_parts(parts, body)
}

/// Bytes compressed in one turn, a fraction of a millisecond, so that other requests can continue.
const TURN: usize = 64 << 10;
/// Compressed bytes of a frame, about: half a TLS record, so that small pieces do not cost a record each.
const FRAME: usize = 8 << 10;

/// A body compressed while it is sent, so that it is never in memory as a whole.
struct Gzip {
    plain: Body,
    turn: Bytes,
    /// Created when the body is first read: the encoder is larger than most pieces.
    encoder: Option<GzEncoder<Vec<u8>>>,
    ended: bool,
}

impl Gzip {
    fn new(plain: Body) -> Self {
        Self { plain, turn: Bytes::new(), encoder: None, ended: false }
    }
}

impl http_body::Body for Gzip {
    type Data = Bytes;
    type Error = transport::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        // Lists shrink to about a tenth already so; more would cost several times the processor time.
        let fresh = || GzEncoder::new(Vec::with_capacity(FRAME), Compression::fast());
        let encoder = this.encoder.get_or_insert_with(fresh);
        if this.turn.is_empty() {
            match ready!(Pin::new(&mut this.plain).poll_frame(context)?) {
                Some(frame) => this.turn = frame.into_data().unwrap_or_default(),
                None => {
                    this.ended = true;
                    let last = this.encoder.take().map(GzEncoder::finish).transpose()?.unwrap_or_default();
                    return Poll::Ready(Some(Ok(Frame::data(last.into()))));
                }
            }
        }
        encoder.write_all(&this.turn.split_to(TURN.min(this.turn.len())))?;
        if encoder.get_ref().len() < FRAME {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let frame = std::mem::replace(encoder.get_mut(), Vec::with_capacity(2 * FRAME));
        Poll::Ready(Some(Ok(Frame::data(frame.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
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

    #[tokio::test]
    async fn a_compressed_response_round_trips() {
        use std::io::Read as _;
        let plain: Vec<u8> = (0..400_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let packed = Gzip::new(full(plain.clone())).collect().await.unwrap().to_bytes();
        assert!(packed.len() < plain.len() / 2);
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain);
    }

    #[tokio::test]
    async fn a_compressed_response_is_not_compressed_again() {
        let packed = vec![b'{'; 2 * WORTH_COMPRESSING];
        let mut response = http::Response::new(full(packed.clone()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let finished = finish(response, Preferences { indent: true, gzip: true }).await;
        assert_eq!(finished.into_body().collect().await.unwrap().to_bytes(), packed);
    }

    #[test]
    fn indentation_keeps_order_texts_and_empty_containers() {
        let compact = br#"{"b":{},"a":[1,{"x":"{\"q\\"}],"c":[],"d":null}"#;
        let expected = "{\n  \"b\": {},\n  \"a\": [\n    1,\n    {\n      \"x\": \"{\\\"q\\\\\"\n    }\n  ],\n  \"c\": [],\n  \
                        \"d\": null\n}";
        assert_eq!(String::from_utf8_lossy(&indent(compact)), expected);
    }

    #[test]
    fn preferences_are_read_from_query_and_headers() {
        let check = |query: &str, agent: &'static str, coding: &'static str, indent: bool, gzip: bool| {
            let mut headers = http::HeaderMap::new();
            headers.insert(USER_AGENT, HeaderValue::from_static(agent));
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(coding));
            assert_eq!(
                Preferences::of(&headers, &Query::parse(query)),
                Preferences { indent, gzip },
                "{query} {agent} {coding}"
            );
        };
        check("", "kubectl/v1.33", "gzip", false, true);
        check("", "curl/8", "identity", true, false);
        check("pretty=false", "curl/8", "gzip;q=0", false, false);
        check("pretty", "kubectl/v1.33", "br, gzip;q=0.5", false, true);
        check("pretty=1", "kubectl/v1.33", "br", true, false);
        check("pretty=yes", "curl/8", "br", false, false);
    }
}

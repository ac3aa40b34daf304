//! A cached rendered document: compressed, as nearly every client accepts it. Uncompressed, the documents of a server
//! are four times as large.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use transport::Response;

use crate::documents::discovery::negotiated;
use crate::wire::finish::{WORTH_COMPRESSING, takes_gzip};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Rendered {
    /// Too small to be sent compressed.
    Plain(Bytes),
    Gzip(Bytes),
}

impl Rendered {
    pub fn new(document: Vec<u8>) -> Self {
        if document.len() < WORTH_COMPRESSING {
            return Self::Plain(document.into());
        }
        let mut encoder = GzEncoder::new(Vec::with_capacity(document.len() / 8), Compression::fast());
        // Writing to memory does not fail; if it did, the document would be stored uncompressed.
        match encoder.write_all(&document).and_then(|()| encoder.finish()) {
            Ok(mut packed) => {
                packed.shrink_to_fit();
                Self::Gzip(packed.into())
            }
            Err(_) => Self::Plain(document.into()),
        }
    }

    /// The document for a client with these headers.
    pub fn response(&self, content_type: &str, headers: &HeaderMap) -> Response {
        match self {
            Self::Plain(body) => negotiated(StatusCode::OK, content_type, body.clone()),
            Self::Gzip(body) if takes_gzip(headers) => {
                let mut response = negotiated(StatusCode::OK, content_type, body.clone());
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
                response
            }
            Self::Gzip(_) => match self.plain() {
                Ok(plain) => negotiated(StatusCode::OK, content_type, plain),
                Err(error) => crate::wire::respond::failure(&apimachinery::Status::internal(format!(
                    "the OpenAPI document cannot be decompressed: {error}"
                ))),
            },
        }
    }

    /// The document itself.
    pub fn plain(&self) -> std::io::Result<Bytes> {
        match self {
            Self::Plain(body) => Ok(body.clone()),
            Self::Gzip(body) => {
                let mut plain = Vec::new();
                GzDecoder::new(&body[..]).read_to_end(&mut plain)?;
                Ok(plain.into())
            }
        }
    }
}

//! Which form of a reply the client accepts.

use apimachinery::{Status, StatusReason};
use http::HeaderMap;
use http::header::ACCEPT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The object itself.
    Whole,
    Table,
    /// `PartialObjectMetadata`, or its list.
    Metadata,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub encoding: Encoding,
    pub shape: Shape,
}

/// Picks the first alternative we can serve. `list` tells whether the reply is a list, which decides between
/// PartialObjectMetadata and its list form.
pub fn accepted(headers: &HeaderMap, list: bool) -> Result<Accepted, Status> {
    let text = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",");
    if text.trim().is_empty() {
        return Ok(Accepted { encoding: Encoding::Json, shape: Shape::Whole });
    }
    text.split(',').find_map(|alternative| alternative_of(alternative, list)).ok_or_else(|| {
        Status::failure(
            StatusReason::NotAcceptable,
            "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )
    })
}

fn alternative_of(text: &str, list: bool) -> Option<Accepted> {
    let mut parts = text.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "application/*" | "*/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        _ => return None,
    };
    let (mut kind, mut group) = ("", "");
    for parameter in parts {
        match parameter.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("g", value)) => group = value,
            _ => {}
        }
    }
    let shape = match (kind, group) {
        ("", _) => Shape::Whole,
        ("Table", "meta.k8s.io") => Shape::Table,
        ("PartialObjectMetadata", "meta.k8s.io") if !list => Shape::Metadata,
        ("PartialObjectMetadataList", "meta.k8s.io") if list => Shape::Metadata,
        _ => return None,
    };
    Some(Accepted { encoding, shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, list: bool, expected: Option<(Encoding, Shape)>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().expect("a header value"));
        let found = accepted(&headers, list).ok().map(|a| (a.encoding, a.shape));
        assert_eq!(found, expected, "{accept}");
    }

    #[test]
    fn the_first_form_we_know_wins() {
        check("application/json", false, Some((Encoding::Json, Shape::Whole)));
        check("application/vnd.kubernetes.protobuf,application/json", false, Some((Encoding::Json, Shape::Whole)));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            true,
            Some((Encoding::Json, Shape::Table)),
        );
        check("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", true, None);
        check("text/html", false, None);
        check("*/*", true, Some((Encoding::Json, Shape::Whole)));
    }
}

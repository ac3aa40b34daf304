//! Which form of a reply the client accepts.

use apimachinery::status::StatusDetails;
use apimachinery::{Status, StatusReason};
use http::HeaderMap;
use http::header::ACCEPT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
    /// Only for clients that take nothing else: what is stored is JSON.
    Protobuf,
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

/// What is asked about, as far as its forms depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The reply is a list, which decides between PartialObjectMetadata and its list form.
    pub list: bool,
    /// A custom resource; kube-apiserver has other words for it.
    pub custom: bool,
    pub group: &'a str,
    pub kind: &'a str,
}

const TEXTS: &str = "application/json, application/yaml";
const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Picks the alternative the client likes best among those that can be served.
///
/// # Errors
/// 406.
pub fn accepted(headers: &HeaderMap, subject: Subject<'_>) -> Result<Accepted, Status> {
    let mut values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let plain = Accepted { encoding: Encoding::Json, shape: Shape::Whole };
    let text = match (values.next(), values.next()) {
        (None, _) => return Ok(plain),
        (Some(one), None) if one == "application/json" || one.trim().is_empty() => return Ok(plain),
        (Some(one), None) => one.to_owned(),
        (Some(one), Some(two)) => [one, two].into_iter().chain(values).collect::<Vec<_>>().join(","),
    };
    let mut alternatives: Vec<Alternative<'_>> = text.split(',').map(Alternative::parse).collect();
    // Stable: of equally liked ones the first counts.
    alternatives.sort_by_key(|alternative| std::cmp::Reverse(alternative.quality));
    let known = alternatives.iter().any(|alternative| alternative.encoding.is_some());
    if !known && !subject.custom {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {KNOWN}");
        return Err(Status::failure(StatusReason::NotAcceptable, message).with_details(StatusDetails::default()));
    }
    let forms = || alternatives.iter().filter_map(|alternative| alternative.form());
    let text = forms().find(|(encoding, _)| *encoding != Encoding::Protobuf);
    match text.or_else(|| forms().next()) {
        Some((Encoding::Protobuf, Wanted::Whole)) if subject.custom => {
            Err(refused(format!("only the following media types are accepted: {TEXTS}")))
        }
        Some((encoding, wanted)) => Ok(Accepted { encoding, shape: wanted.shape(subject)? }),
        None => Err(refused(format!("only the following media types are accepted: {KNOWN}"))),
    }
}

/// How to tell the client of an error.
pub fn error_encoding(headers: &HeaderMap) -> Encoding {
    let Some(text) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else { return Encoding::Json };
    let encodings = || text.split(',').map(Alternative::parse).filter_map(|alternative| alternative.encoding);
    let text = encodings().find(|encoding| *encoding != Encoding::Protobuf);
    text.or_else(|| encodings().next()).unwrap_or(Encoding::Json)
}

fn refused(message: String) -> Status {
    Status::failure(StatusReason::NotAcceptable, message)
}

/// How Go's package of a group's types is called; it appears in messages.
pub fn go_package(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) }
}

/// One of the comma-separated parts of the header.
struct Alternative<'a> {
    /// `None` for what cannot be served.
    encoding: Option<Encoding>,
    kind: &'a str,
    group: &'a str,
    version: &'a str,
    /// Thousandths.
    quality: u32,
}

/// What an alternative asks to see.
enum Wanted {
    Whole,
    Table,
    Metadata,
    MetadataList,
}

impl<'a> Alternative<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let encoding = match media_type {
            "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
            "application/yaml" => Some(Encoding::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Encoding::Protobuf),
            _ => None,
        };
        let mut found = Self { encoding, kind: "", group: "", version: "", quality: 1000 };
        for parameter in parts {
            match parameter.split_once('=') {
                Some(("as", value)) => found.kind = value,
                Some(("g", value)) => found.group = value,
                Some(("v", value)) => found.version = value,
                Some(("q", value)) => found.quality = value.parse().map_or(0, |q: f32| (q * 1000.0) as u32),
                _ => {}
            }
        }
        found
    }

    fn form(&self) -> Option<(Encoding, Wanted)> {
        let encoding = self.encoding.filter(|_| self.quality > 0)?;
        if self.kind.is_empty() {
            return Some((encoding, Wanted::Whole));
        }
        if self.group != "meta.k8s.io" || !matches!(self.version, "v1" | "v1beta1" | "") {
            return None;
        }
        let wanted = match self.kind {
            "Table" => Wanted::Table,
            "PartialObjectMetadata" => Wanted::Metadata,
            "PartialObjectMetadataList" => Wanted::MetadataList,
            _ => return None,
        };
        Some((encoding, wanted))
    }
}

impl Wanted {
    fn shape(&self, subject: Subject<'_>) -> Result<Shape, Status> {
        let go_type = || match subject.custom {
            true => "unstructured.Unstructured".to_owned(),
            false => format!("{}.{}", go_package(subject.group), subject.kind),
        };
        match (self, subject.list) {
            (Self::Whole, _) => Ok(Shape::Whole),
            (Self::Table, _) => Ok(Shape::Table),
            (Self::Metadata, false) | (Self::MetadataList, true) => Ok(Shape::Metadata),
            (Self::Metadata, true) => Err(refused(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
                go_type()
            ))),
            (Self::MetadataList, false) => Err(refused(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                go_type()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, list: bool, expected: &str) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().expect("a header value"));
        let found = match accepted(&headers, Subject { list, custom: false, group: "", kind: "ConfigMap" }) {
            Ok(form) => format!("{:?} {:?}", form.encoding, form.shape),
            Err(status) => status.message,
        };
        assert_eq!(found, expected, "{accept}");
    }

    #[test]
    fn the_best_form_that_can_be_served_wins() {
        const RESTFUL: &str = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                               application/vnd.kubernetes.protobuf";
        const NONE: &str = "only the following media types are accepted: application/json, application/yaml, \
                            application/vnd.kubernetes.protobuf";
        check("application/json", false, "Json Whole");
        check("application/vnd.kubernetes.protobuf,application/json", false, "Json Whole");
        check("application/vnd.kubernetes.protobuf", false, "Protobuf Whole");
        check("application/json;q=0.5,application/yaml", false, "Yaml Whole");
        check("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", true, "Json Table");
        check("application/json;as=Table;v=v7;g=meta.k8s.io,application/json", true, "Json Whole");
        check("application/json;as=Row;v=v1;g=meta.k8s.io", true, NONE);
        check(
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            true,
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
        );
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            false,
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)",
        );
        check("text/html", false, RESTFUL);
        check("*/*", true, "Json Whole");
    }
}

//! Content negotiation.

use apimachinery::status::StatusDetails;
use apimachinery::{Status, StatusReason};
use http::HeaderMap;
use http::header::ACCEPT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
    /// Only for clients that accept nothing else: objects are stored as JSON.
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
    /// The API version of tables and of `PartialObjectMetadata`.
    pub meta: &'static str,
}

/// The requested resource, as far as the media types depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The reply is a list, which decides between PartialObjectMetadata and its list form.
    pub list: bool,
    /// The reply is a stream of events.
    pub watch: bool,
    /// A custom resource; kube-apiserver has other words for it.
    pub custom: bool,
    /// The path has a route of its own upstream, which refuses unknown media types in other words.
    pub routed: bool,
    /// The reply can be a table.
    pub tables: bool,
    pub group: &'a str,
    pub kind: &'a str,
}

const META_V1: &str = "meta.k8s.io/v1";
const META_V1BETA1: &str = "meta.k8s.io/v1beta1";

const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The media types of paths that also stream.
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Picks the alternative the client likes best among those that can be served.
///
/// # Errors
/// 406.
pub fn accepted(headers: &HeaderMap, subject: Subject<'_>) -> Result<Accepted, Status> {
    let mut values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let plain = Accepted { encoding: Encoding::Json, shape: Shape::Whole, meta: META_V1 };
    let text = match (values.next(), values.next()) {
        (None, _) => return Ok(plain),
        (Some(one), None) if one == "application/json" || one.trim().is_empty() => return Ok(plain),
        (Some(one), None) => one.to_owned(),
        (Some(one), Some(two)) => [one, two].into_iter().chain(values).collect::<Vec<_>>().join(","),
    };
    let mut alternatives: Vec<Alternative<'_>> = text.split(',').map(Alternative::parse).collect();
    // Stable: of equally liked ones the first counts.
    alternatives.sort_by_key(Alternative::preference);
    let known = alternatives.iter().any(|alternative| alternative.encoding.is_some());
    if !known && subject.routed {
        let more = if subject.list || subject.watch { format!(", {STREAMS}") } else { String::new() };
        let message = format!("406: Not Acceptable\n\nAvailable representations: {KNOWN}{more}");
        return Err(Status::failure(StatusReason::NotAcceptable, message).with_details(StatusDetails::default()));
    }
    let servable = |requested: &RequestedForm| subject.tables || !matches!(requested, RequestedForm::Table);
    let forms = || alternatives.iter().filter_map(Alternative::form).filter(|(_, requested, _)| servable(requested));
    let text = forms().find(|(encoding, ..)| *encoding != Encoding::Protobuf);
    match text.or_else(|| forms().next()) {
        Some((Encoding::Protobuf, RequestedForm::Whole, _)) if subject.custom => {
            Err(refused(format!("only the following media types are accepted: {KNOWN}")))
        }
        Some((Encoding::Yaml, ..)) if subject.watch => {
            Err(refused(format!("only the following media types are accepted: {STREAMS}")))
        }
        Some((encoding, requested, meta)) => Ok(Accepted { encoding, shape: requested.shape(subject)?, meta }),
        None => Err(refused(format!("only the following media types are accepted: {KNOWN}"))),
    }
}

/// The encoding of an error.
pub fn error_encoding(headers: &HeaderMap) -> Encoding {
    let Some(text) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else { return Encoding::Json };
    if text == "application/json" {
        return Encoding::Json;
    }
    // A refusal is not shown as a Table; a client that accepts nothing else gets it as JSON.
    let plain = |alternative: &Alternative<'_>| [alternative.kind, alternative.group, alternative.version] == [""; 3];
    let mut alternatives: Vec<Alternative<'_>> = text.split(',').map(Alternative::parse).filter(plain).collect();
    alternatives.sort_by_key(Alternative::preference);
    let encodings = || alternatives.iter().filter_map(|one| one.encoding);
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
    /// `None` for an unsupported encoding.
    encoding: Option<Encoding>,
    /// Named with a `*`, and so liked less than a type that is named in full.
    wild: bool,
    kind: &'a str,
    group: &'a str,
    version: &'a str,
    stream: &'a str,
    /// Thousandths.
    quality: u32,
}

/// The requested representation of an alternative.
enum RequestedForm {
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
        let wild = media_type.ends_with("/*");
        let mut found = Self { encoding, wild, kind: "", group: "", version: "", stream: "", quality: 1000 };
        for parameter in parts {
            match parameter.split_once('=') {
                Some(("as", value)) => found.kind = value,
                Some(("g", value)) => found.group = value,
                Some(("v", value)) => found.version = value,
                Some(("stream", value)) => found.stream = value,
                Some(("q", value)) => found.quality = value.parse().map_or(0, |q: f32| (q * 1000.0) as u32),
                _ => {}
            }
        }
        found
    }

    /// The most preferred alternative is the least.
    fn preference(&self) -> std::cmp::Reverse<(u32, bool)> {
        std::cmp::Reverse((self.quality, !self.wild))
    }

    /// The encoding, the shape, and the version of `meta.k8s.io` of the response.
    fn form(&self) -> Option<(Encoding, RequestedForm, &'static str)> {
        let encoding = self.encoding.filter(|_| self.quality > 0)?;
        let streams = self.stream.is_empty() || (self.stream == "watch" && encoding != Encoding::Yaml);
        if !streams {
            return None;
        }
        if self.kind.is_empty() && self.group.is_empty() && self.version.is_empty() {
            return Some((encoding, RequestedForm::Whole, META_V1));
        }
        let meta = match (self.group, self.version) {
            ("meta.k8s.io", "v1") => META_V1,
            ("meta.k8s.io", "v1beta1") => META_V1BETA1,
            _ => return None,
        };
        let requested = match self.kind {
            // Cells are of any type, which protobuf has no field for.
            "Table" if encoding != Encoding::Protobuf => RequestedForm::Table,
            "PartialObjectMetadata" => RequestedForm::Metadata,
            "PartialObjectMetadataList" => RequestedForm::MetadataList,
            _ => return None,
        };
        Some((encoding, requested, meta))
    }
}

impl RequestedForm {
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
        let subject =
            Subject { list, watch: false, custom: false, routed: true, tables: true, group: "", kind: "ConfigMap" };
        let found = match accepted(&headers, subject) {
            Ok(form) if form.meta == META_V1 => format!("{:?} {:?}", form.encoding, form.shape),
            Ok(form) => format!("{:?} {:?} {}", form.encoding, form.shape, form.meta),
            Err(status) => status.message,
        };
        assert_eq!(found, expected, "{accept}");
    }

    #[test]
    fn the_preferred_servable_form_is_chosen() {
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
        check("text/html", true, &format!("{RESTFUL}, {STREAMS}"));
        check("application/json;as=Table;v=v1beta1;g=meta.k8s.io", true, "Json Table meta.k8s.io/v1beta1");
        check("application/json;as=Table;g=meta.k8s.io", true, NONE);
        check("application/json;v=v1", false, NONE);
        check("application/json;stream=watch", true, "Json Whole");
        check("application/json;stream=other", true, NONE);
        check("application/yaml;stream=watch,application/json", true, "Json Whole");
        check("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", true, NONE);
        check("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/yaml", true, "Yaml Whole");
        check("*/*,application/yaml", false, "Yaml Whole");
        check("*/*", true, "Json Whole");
    }
}

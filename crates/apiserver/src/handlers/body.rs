//! The object of a request: decoded along the schema of its resource, with the findings about its fields.

use std::borrow::Cow;

use apimachinery::{Status, strict};
use serde_json::Value;
use transport::{Body, Draft};

use super::Call;
use super::type_meta::{ObjectMismatch, kindless};
use crate::request::options::FieldValidation;
use crate::wire::body::{
    JSON, MAGIC, PROTOBUF, YAML, decode, first_document, json_error, object_type, read, summary, yaml_findings,
};

impl Call<'_> {
    /// The object of a create or update, and the warnings about its fields.
    pub(super) async fn object(&self, body: Body, validation: FieldValidation) -> Result<(Value, Vec<String>), Status> {
        let ((object, other_kind), findings) = match self.draft.and_then(Draft::take) {
            Some(mut draft) => {
                let findings = strict::adopt(&mut draft, &self.resource.info.schema)
                    .map_err(|why| self.unreadable(draft.to_string(), &why.to_string()))?;
                (self.fitting(draft, None, validation)?, findings)
            }
            None => {
                let bytes = read(body).await?;
                let (object, findings) = self.decoded(&bytes, validation)?;
                (self.fitting(object, Some(&bytes), validation)?, findings)
            }
        };
        let findings = self.field_findings(findings, validation)?;
        other_kind.map_or(Ok((object, findings)), Err)
    }

    fn unreadable(&self, document: impl AsRef<[u8]>, why: &str) -> Status {
        let (kind, summary) = (&self.resource.info.resource.kind, summary(document.as_ref()));
        Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})"))
    }

    /// The tree of a body, along the schema.
    fn decoded(&self, bytes: &[u8], validation: FieldValidation) -> Result<(Value, Vec<String>), Status> {
        match object_type(self.headers) {
            Some(JSON) => self.strictly(bytes).map_err(|error| {
                let why = json_error(bytes, &error);
                self.unreadable(bytes, &format!("couldn't get version/kind; json parse error: {why}"))
            }),
            Some(PROTOBUF) if !bytes.starts_with(MAGIC) => {
                let magic = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
                Err(self.unreadable(bytes, magic))
            }
            Some(YAML) => {
                let read = apimachinery::yaml::to_json_value_warned(first_document(bytes));
                let (mut tree, twice) = read.map_err(|e| Status::bad_request(e.to_string()))?;
                let unknown = self.pruned(&mut tree);
                Ok((tree, yaml_findings(twice, unknown, validation)))
            }
            _ => {
                // Unknown fields of a protobuf message are not reported.
                let mut tree = decode(self.headers, bytes)?;
                strict::prune(&mut tree, &self.resource.info.schema);
                Ok((tree, Vec::new()))
            }
        }
    }

    /// The object with its kind and version, once it is known to be of this resource and to have values of the right
    /// types. `body` is its document, which some errors print; a draft has none. The error of a custom resource of another
    /// kind is one of validation, which follows the findings about its fields.
    fn fitting(
        &self,
        mut object: Value,
        body: Option<&[u8]>,
        validation: FieldValidation,
    ) -> Result<(Value, Option<Status>), Status> {
        let kind = self.resource.info.resource.kind.as_str();
        let unusable = |sent: &str, version: &str, why: &str| {
            Status::bad_request(format!("{sent} in version {version:?} cannot be handled as a {kind}: {why}"))
        };
        let document = || body.map_or_else(|| object.to_string().into_bytes().into(), Cow::Borrowed);
        let other_kind = match self.mismatch(&object) {
            None => None,
            Some(ObjectMismatch::OtherKind(status)) => Some(status),
            Some(ObjectMismatch::Unreadable(why)) => return Err(self.unreadable(document(), &why)),
            Some(ObjectMismatch::Kindless) if validation == FieldValidation::Ignore => {
                return Err(unusable(kind, &self.info.version, &kindless(&document())));
            }
            Some(ObjectMismatch::Kindless) => return Err(self.unreadable(document(), &kindless(&document()))),
            Some(ObjectMismatch::Unusable { kind, version, why }) => return Err(unusable(&kind, &version, &why)),
            Some(ObjectMismatch::OtherVersion(sent)) => return Err(self.other_version(&sent)),
        };
        self.stamp(&mut object);
        match self.mistyped(&mut object) {
            Some(wrong) => Err(unusable(kind, &self.info.version, &wrong.decoder)),
            None => Ok((object, other_kind)),
        }
    }

    /// Decodes JSON along the schema. Upstream reads a custom resource as an untyped document first, and only then
    /// checks it against its schema, so duplicate fields are reported first, at any depth.
    fn strictly(&self, bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
        let schema = &self.resource.info.schema;
        let (object, findings) = strict::decode(bytes, schema)?;
        if findings.is_empty() || !self.resource.info.custom {
            return Ok((object, findings));
        }
        let (mut untyped, mut findings) = strict::decode_reporting_duplicates(bytes)?;
        findings.extend(self.pruned(&mut untyped));
        Ok((object, findings))
    }

    /// Removes unknown fields. Upstream reads the metadata of a custom resource before it prunes the object.
    pub(super) fn pruned(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = strict::prune(object, &self.resource.info.schema);
        if self.resource.info.custom {
            unknown.sort_by_key(|finding| !finding.starts_with("unknown field \"metadata."));
        }
        unknown
    }

    /// The first value of a built-in kind, or of the metadata of a custom one, with the wrong type. If there is none,
    /// nulls in lists and maps become zero values, as in Go's decoder.
    pub(super) fn mistyped(&self, object: &mut Value) -> Option<super::types::Mismatch> {
        let info = &self.resource.info;
        if info.custom {
            return super::types::metadata_mismatch(object, &info.schema);
        }
        super::types::mismatch(&info.resource.kind, object, &info.schema)
    }

    /// Applies the field validation: ignores, warns of, or refuses unknown and duplicate fields.
    pub(super) fn field_findings(
        &self,
        findings: Vec<String>,
        validation: FieldValidation,
    ) -> Result<Vec<String>, Status> {
        match validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Strict if !findings.is_empty() => {
                let kind = self.resource.info.resource.kind.as_str();
                Err(Status::bad_request(format!(
                    "{kind} in version {:?} cannot be handled as a {kind}: {}",
                    self.info.version,
                    strict::error_text(&findings)
                )))
            }
            FieldValidation::Warn | FieldValidation::Strict => {
                self.notes.set_findings(&findings);
                Ok(findings)
            }
        }
    }
}

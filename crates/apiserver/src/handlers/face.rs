//! Objects in the form for users' admission programs: the kind of the request, with the fields that exist at their
//! stage; and the conversion back after a change.

use apimachinery::object::ObjectTree as _;
use apimachinery::{GroupVersionKind, Object, Status, field, strict};
use serde_json::Value;

use super::Call;
use crate::admit::{Face, Operation};
use crate::errors;

/// The server sets these after mutation, also when a program has written them.
const SERVER_OWNED: [&str; 3] = ["uid", "creationTimestamp", "generation"];

impl Face for Call<'_> {
    fn kind(&self) -> GroupVersionKind {
        if self.has_scale_face() { Self::scale_kind() } else { self.resource.info.resource.gvk() }
    }

    fn show(&self, object: &Value) -> Result<Value, Status> {
        if self.has_scale_face() {
            return self.scale_of(&Object::from_value(object).map_err(errors::document)?);
        }
        Ok(object.clone())
    }

    fn replace(&self, operation: Operation, mut shown: Value, object: &mut Value) -> Result<(), Status> {
        if self.has_scale_face() {
            return self.put_replicas(&shown, object);
        }
        self.check_identity(&shown, object)?;
        strict::prune(&mut shown, &self.resource.info.schema);
        self.stamp(&mut shown);
        if let Some(wrong) = self.mistyped(&mut shown) {
            return Err(Status::internal(wrong.decoder));
        }
        let (Some(was), Some(is)) = (object.metadata_mut(), shown.metadata_mut()) else {
            return Err(Status::internal("admission removed the metadata of the object"));
        };
        // The name and the namespace are those of the request.
        let kept = ["name", "namespace"].into_iter();
        for field in kept.chain(SERVER_OWNED.into_iter().filter(|_| operation == Operation::Create)) {
            match was.remove(field) {
                Some(value) => drop(is.insert(field.to_owned(), value)),
                None => drop(is.remove(field)),
            }
        }
        self.resource.strategy.default(&mut shown)?;
        *object = shown;
        Ok(())
    }
}

impl Call<'_> {
    /// Refuses a document of another kind or namespace, as kube-apiserver does.
    fn check_identity(&self, shown: &Value, object: &Value) -> Result<(), Status> {
        let named = &self.resource.info.resource;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match shown["kind"].as_str().unwrap_or_default() {
            "" => return Err(Status::internal(format!("Object 'Kind' is missing in '{shown}'"))),
            kind if kind != named.kind => {
                let error = field::Error::invalid(&field::Path::new("kind"), kind, format!("must be {}", named.kind));
                return Err(Status::invalid(&named.group, kind, name, &[error]));
            }
            _ => {}
        }
        let namespace = |document: &Value| document["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        match namespace(shown) {
            changed if !changed.is_empty() && changed != namespace(object) => Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            )),
            _ => Ok(()),
        }
    }

    fn has_scale_face(&self) -> bool {
        self.info.subresource == "scale"
    }
}

//! How large an object may become while a request is handled. A body is bounded, and the store refuses a large object at
//! last; between the two, defaults, policies and webhooks add to it, each as much as all before, so a few bytes could
//! become all memory.

use serde_json::Value;

use crate::{Status, StatusReason};

/// Bytes of the largest object that a store accepts, encoded.
pub const MAX_OBJECT: usize = 4 << 20;

/// A document is larger than any object that can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Request entity too large: the object takes more than {MAX_OBJECT} bytes")]
pub struct TooLarge;

impl From<TooLarge> for Status {
    fn from(error: TooLarge) -> Self {
        Self::failure(StatusReason::RequestEntityTooLarge, error.to_string())
    }
}

/// The bytes that a document may still grow by.
#[derive(Clone, Debug)]
pub struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(MAX_OBJECT)
    }
}

impl Budget {
    /// Reserves so many bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn take(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.0 = self.0.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    /// Reserves the bytes of a value's encoding, without escapes; ends at the first byte too many.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn take_value(&mut self, value: &Value) -> Result<(), TooLarge> {
        match value {
            Value::Null | Value::Bool(_) => self.take(4),
            // The digits of most are few, and an inexact bound suffices.
            Value::Number(_) => self.take(1),
            Value::String(text) => self.take(text.len() + 2),
            Value::Array(items) => {
                self.take(items.len() + 1)?;
                items.iter().try_for_each(|item| self.take_value(item))
            }
            Value::Object(map) => {
                self.take(map.len() + 1)?;
                map.iter().try_for_each(|(name, value)| {
                    self.take(name.len() + 3)?;
                    self.take_value(value)
                })
            }
        }
    }
}

/// Checks a document that a program of a user has changed.
///
/// # Errors
/// If no store accepts it.
pub fn check(document: &Value) -> Result<(), TooLarge> {
    Budget::default().take_value(document)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_take_no_more_than_their_encoding() {
        for value in [
            json!(null),
            json!(true),
            json!(7),
            json!("ab"),
            json!([]),
            json!([[], {}, 1, "x"]),
            json!({"a": {"b": [1, 2], "c": null}, "d": "e"}),
        ] {
            let taken = |bytes: usize| Budget(bytes).take_value(&value).is_ok();
            let (size, least) = (value.to_string().len(), (0..).find(|bytes| taken(*bytes)).expect("a size"));
            assert!(least <= size && least * 2 >= size, "{value}: {least} of {size}");
        }
    }

    #[test]
    fn the_largest_object_fits() {
        let of = |bytes: usize| json!("a".repeat(bytes - 2));
        assert_eq!(check(&of(MAX_OBJECT)), Ok(()));
        assert_eq!(check(&of(MAX_OBJECT + 1)), Err(TooLarge));
        assert_eq!(Status::from(TooLarge).code, 413);
    }
}

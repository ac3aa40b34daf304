//! Protection against deletion.

use serde_json::Value;

use super::Denied;
use crate::constants::labels::{DELETION_PROTECTED, DELETION_PROTECTED_ALWAYS};

pub(super) fn validate(object: &Value) -> Result<(), Denied> {
    if object["metadata"]["labels"][DELETION_PROTECTED] != DELETION_PROTECTED_ALWAYS {
        return Ok(());
    }
    Err(Denied::Rule(format!("This resource is protected, please make sure to remove the label: {DELETION_PROTECTED}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_exact_value_protects() {
        for (value, denied) in [("Always", true), ("always", false), ("", false)] {
            let object = json!({"metadata": {"labels": {DELETION_PROTECTED: value}}});
            assert_eq!(validate(&object).is_err(), denied, "{value}");
        }
        assert!(validate(&json!({})).is_ok());
    }
}

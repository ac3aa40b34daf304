//! Validates ClusterTaintPolicies.

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::{Denied, Request, decode};
use crate::constants::taints::NO_EXECUTE;
use crate::policy::v1alpha1::ClusterTaintPolicy;

pub(super) fn validate(request: &Request<'_>, object: &Value) -> Result<(), Denied> {
    let policy: ClusterTaintPolicy = decode(object)?;
    let taints = &policy.spec.taints;
    let mut errors = ErrorList::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = Path::new("spec").child("taints").index(index);
        if taint.effect == NO_EXECUTE && !request.options.allow_no_execute_taint_policy {
            let detail = "Configuring taint with NoExecute effect is not allowed, this capability must be explicitly \
                          enabled by administrators through command-line flags";
            errors.push(Error::forbidden(&path, detail));
        }
        if taints[index + 1..].iter().any(|later| later.key == taint.key && later.effect == taint.effect) {
            let (key, effect) = (&taint.key, &taint.effect);
            let text = format!("Duplicate taint with the same key({key}) and effect({effect}) is not allowed");
            errors.push(Error::duplicate(&path, text));
        }
    }
    Denied::unless_empty(errors)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Operation, Options};
    use super::*;

    #[test]
    fn rules() {
        let taint = |effect: &str| json!({"key": "k", "effect": effect});
        for (taints, allow, errors) in [
            (json!([taint("NoSchedule")]), false, 0),
            (json!([taint("NoExecute")]), false, 1),
            (json!([taint("NoExecute")]), true, 0),
            (json!([taint("NoSchedule"), taint("NoSchedule")]), false, 1),
        ] {
            let request = Request {
                operation: Operation::Create,
                group: "policy.karmada.io",
                kind: "ClusterTaintPolicy",
                namespace: "",
                old: None,
                uuid: "",
                customizations: &[],
                options: Options { allow_no_execute_taint_policy: allow, ..Options::default() },
            };
            let found = match validate(&request, &json!({"spec": {"taints": taints}})) {
                Ok(()) => 0,
                Err(Denied::Fields(errors)) => errors.len(),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(found, errors, "{taints}");
        }
    }
}

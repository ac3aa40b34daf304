//! Validation of access reviews.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use serde_json::{Value, json};

use super::reviews::text;

/// The errors of a SubjectAccessReview.
pub(super) fn of_subject(review: &Value) -> ErrorList {
    let mut errors = of_spec(&review["spec"], true);
    errors.extend(of_metadata(&review["metadata"], &[], "must be empty"));
    errors
}

/// The errors of a SelfSubjectAccessReview.
pub(super) fn of_self(review: &Value) -> ErrorList {
    let mut errors = of_spec(&review["spec"], false);
    errors.extend(of_metadata(&review["metadata"], &[], "must be empty"));
    errors
}

/// The errors of a LocalSubjectAccessReview in a namespace.
pub(super) fn of_local(review: &Value, namespace: &str) -> ErrorList {
    let (spec, at) = (&review["spec"], Path::new("spec"));
    let mut errors = of_spec(spec, true);
    errors.extend(of_metadata(&review["metadata"], &["namespace"], "must be empty except for namespace"));
    let requested = text(&spec["resourceAttributes"], "namespace");
    if spec["resourceAttributes"].is_object() && requested != namespace {
        let path = at.child("resourceAttributes").child("namespace");
        errors.push(Error::invalid(&path, requested, "must match metadata.namespace"));
    }
    if spec["nonResourceAttributes"].is_object() {
        let shown = shown_path(&spec["nonResourceAttributes"]);
        errors.push(Error::invalid(&at.child("nonResourceAttributes"), shown, "disallowed on this kind of request"));
    }
    errors
}

/// Exactly one of the two kinds of attributes must be there, and a subject unless the review is about its author.
fn of_spec(spec: &Value, names_subject: bool) -> ErrorList {
    let (at, mut errors) = (Path::new("spec"), ErrorList::new());
    match (spec["resourceAttributes"].is_object(), spec["nonResourceAttributes"].is_object()) {
        (true, true) => errors.push(Error::invalid(
            &at.child("nonResourceAttributes"),
            shown_path(&spec["nonResourceAttributes"]),
            "cannot be specified in combination with resourceAttributes",
        )),
        (false, false) => errors.push(Error::invalid(
            &at.child("resourceAttributes"),
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    if names_subject && text(spec, "user").is_empty() && list(&spec["groups"]).is_empty() {
        errors.push(Error::invalid(&at.child("user"), "", "at least one of user or group must be specified"));
    }
    let resource = &spec["resourceAttributes"];
    for (name, is_of_labels) in [("fieldSelector", false), ("labelSelector", true)] {
        if resource[name].is_object() {
            of_selector(&resource[name], is_of_labels, &at.child("resourceAttributes").child(name), &mut errors);
        }
    }
    errors
}

fn of_selector(selector: &Value, is_of_labels: bool, at: &Path, errors: &mut ErrorList) {
    let (raw, requirements) = (text(selector, "rawSelector"), list(&selector["requirements"]));
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        errors.push(Error::invalid(&at.child("rawSelector"), raw, why));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {at} is specified, requirements or rawSelector is required");
        errors.push(Error::required(&at.child("requirements"), why));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        of_requirement(requirement, is_of_labels, &at.child("requirements").index(index), errors);
    }
}

/// Unknown operators are allowed: newer clients may know more.
fn of_requirement(requirement: &Value, is_of_labels: bool, at: &Path, errors: &mut ErrorList) {
    let (key, values) = (text(requirement, "key"), list(&requirement["values"]));
    if !is_of_labels && key.is_empty() {
        errors.push(Error::required(&at.child("key"), "must be specified"));
    }
    let at_values = at.child("values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(Error::required(&at_values, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&at_values, why));
        }
        _ => {}
    }
    if !is_of_labels {
        return;
    }
    let why = names::is_qualified_name(key);
    errors.extend(why.into_iter().map(|why| Error::invalid(&at.child("key"), key, why)));
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        let why = names::is_label_value(value);
        errors.extend(why.into_iter().map(|why| Error::invalid(&at_values.index(index), value, why)));
    }
}

/// The metadata that a review may not have. The server fills in owners, and ignores its other own fields.
fn of_metadata(metadata: &Value, allowed: &[&str], why: &'static str) -> Option<Error> {
    const OWN: [&str; 6] =
        ["managedFields", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Bool(_) => true,
    };
    let mut members = metadata.as_object().into_iter().flatten();
    members
        .any(|(name, value)| is_set(value) && !OWN.contains(&name.as_str()) && !allowed.contains(&name.as_str()))
        .then(|| Error::invalid(&Path::new("metadata"), metadata.clone(), why))
}

fn shown_path(path: &Value) -> Value {
    json!({"Path": text(path, "path"), "Verb": text(path, "verb")})
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(errors: &ErrorList, expected: &[&str]) {
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn selectors_have_one_form() {
        let of = |selectors: Value| {
            let mut attributes = selectors;
            attributes["verb"] = "list".into();
            of_subject(&json!({"metadata": {"managedFields": [{}], "creationTimestamp": null},
                "spec": {"user": "u", "resourceAttributes": attributes}}))
        };
        let at = "spec.resourceAttributes";
        let one = json!([{"key": "a", "operator": "In", "values": ["b"]}]);
        check(&of(json!({"fieldSelector": {"rawSelector": "a=b"}, "labelSelector": {"requirements": one}})), &[]);
        check(
            &of(json!({"fieldSelector": {"rawSelector": "a", "requirements": one}, "labelSelector": {}})),
            &[
                &format!(
                    "{at}.fieldSelector.rawSelector: Invalid value: \"a\": may not specified at the same time as requirements"
                ),
                &format!(
                    "{at}.labelSelector.requirements: Required value: when {at}.labelSelector is specified, requirements or rawSelector is required"
                ),
            ],
        );
        let wrong = json!({"requirements": [{"operator": "In"}, {"key": "k", "operator": "Exists", "values": ["v"]},
            {"key": "k", "operator": "New"}]});
        check(
            &of(json!({"fieldSelector": wrong})),
            &[
                &format!("{at}.fieldSelector.requirements[0].key: Required value: must be specified"),
                &format!(
                    "{at}.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
                ),
                &format!(
                    "{at}.fieldSelector.requirements[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                ),
            ],
        );
        let shaped = of(json!({"labelSelector": {"requirements": [{"key": "-", "operator": "In", "values": ["_"]}]}}));
        let paths: Vec<&str> = shaped.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, [".key", ".values[0]"].map(|end| format!("{at}.labelSelector.requirements[0]{end}")));
    }

    #[test]
    fn reviews_have_no_metadata() {
        let review = |metadata: Value, spec: Value| json!({"metadata": metadata, "spec": spec});
        let spec = json!({"user": "u", "resourceAttributes": {"namespace": "n"}});
        check(
            &of_self(&review(json!({"name": "x"}), spec.clone())),
            &[r#"metadata: Invalid value: {"name":"x"}: must be empty"#],
        );
        check(&of_local(&review(json!({"namespace": "n"}), spec.clone()), "n"), &[]);
        check(
            &of_local(&review(json!({"namespace": "m", "labels": {"a": "b"}}), spec), "m"),
            &[
                r#"metadata: Invalid value: {"labels":{"a":"b"},"namespace":"m"}: must be empty except for namespace"#,
                r#"spec.resourceAttributes.namespace: Invalid value: "n": must match metadata.namespace"#,
            ],
        );
        check(
            &of_local(&review(json!({}), json!({"nonResourceAttributes": {"path": "/"}})), "n"),
            &[
                r#"spec.user: Invalid value: "": at least one of user or group must be specified"#,
                r#"spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":""}: disallowed on this kind of request"#,
            ],
        );
    }
}

//! `--for`: the awaited condition, and whether a state of the object satisfies it. Pure.

use serde_json::Value;

use apimachinery::jsonpath::{self, JsonPath};

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    Create,
    Delete,
    /// Every cluster of the binding holds the newest generation and reports it healthy.
    Propagated,
    /// A status condition, by its type and status.
    Status {
        type_: String,
        status: String,
    },
    /// A field: its value, or any value.
    Path {
        path: JsonPath,
        value: Option<String>,
    },
}

impl Condition {
    /// # Errors
    /// In kubectl's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lower = text.to_lowercase();
        match lower.as_str() {
            "create" => return Ok(Self::Create),
            "delete" => return Ok(Self::Delete),
            "propagated" => return Ok(Self::Propagated),
            _ => {}
        }
        match text.split_once('=') {
            Some(("condition", rest)) => {
                let (type_, status) = rest.split_once('=').unwrap_or((rest, "true"));
                Ok(Self::Status { type_: type_.to_owned(), status: status.to_owned() })
            }
            Some(("jsonpath", rest)) => path(rest),
            _ => Err(format!(
                "unrecognized condition: {text:?}; it is create, delete, propagated, condition=NAME[=VALUE] or \
                 jsonpath={{PATH}}[=VALUE]"
            )),
        }
    }

    /// Whether a state fulfils it. `uid` is that of the object which the command found.
    ///
    /// # Errors
    /// When the JSONPath leads to something that has no value to compare.
    pub fn is_met(&self, state: Option<&Value>, uid: Option<&str>) -> Result<bool, String> {
        match (self, state) {
            (Self::Create, state) => Ok(state.is_some()),
            (Self::Delete, None) => Ok(true),
            // Another object took the name.
            (Self::Delete, Some(object)) => Ok(uid.is_some_and(|uid| object["metadata"]["uid"] != uid)),
            (Self::Propagated, _) | (_, None) => Ok(false),
            (Self::Status { type_, status }, Some(object)) => Ok(has(object, type_, status)),
            (Self::Path { path, value }, Some(object)) => leads_to(path, value.as_deref(), object),
        }
    }
}

/// `{.status.phase}=Running`: an equals sign inside the braces belongs to the expression.
fn path(text: &str) -> Result<Condition, String> {
    if text.is_empty() {
        return Err("jsonpath expression cannot be empty".to_owned());
    }
    let end = text.rfind('}').map_or_else(|| text.find('=').unwrap_or(text.len()), |at| at + 1);
    let (expression, rest) = text.split_at(end);
    // Quotes that a shell did not take away.
    let (expression, rest) = (expression.trim_start_matches('\''), rest.trim_start_matches('\''));
    let value = match rest.strip_prefix('=') {
        None if rest.is_empty() => None,
        Some("") => {
            return Err("jsonpath wait has to have a value after equal sign, like \
                        --for=jsonpath='{.status.readyReplicas}'=3"
                .to_owned());
        }
        Some(value) if !value.contains('=') => Some(value.trim_matches(['\'', '"']).to_owned()),
        _ => {
            return Err("jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or \
                        --for=jsonpath='{.status.readyReplicas}'"
                .to_owned());
        }
    };
    Ok(Condition::Path { path: JsonPath::parse_relaxed(expression).map_err(|e| e.to_string())?, value })
}

/// Conditions of an older generation do not count.
fn has(object: &Value, type_: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let same = |value: &Value, text: &str| value.as_str().is_some_and(|it| it.to_lowercase() == text.to_lowercase());
    let Some(condition) = conditions.iter().find(|it| same(&it["type"], type_)) else { return false };
    let observed = [&condition["observedGeneration"], &object["status"]["observedGeneration"]];
    let observed = observed.into_iter().find_map(Value::as_i64);
    let generation = object["metadata"]["generation"].as_i64();
    let is_old = observed.zip(generation).is_some_and(|(observed, generation)| observed < generation);
    !is_old && same(&condition["status"], status)
}

fn leads_to(path: &JsonPath, value: Option<&str>, object: &Value) -> Result<bool, String> {
    let found = path.find_checked(object)?;
    match (found.as_slice(), value) {
        ([], _) => Ok(false),
        (_, None) => Ok(true),
        ([Value::Object(_) | Value::Array(_)], _) => {
            Err("jsonpath leads to a nested object or list which is not supported".to_owned())
        }
        ([one], Some(value)) => Ok(jsonpath::shown(one) == value),
        _ => Err("given jsonpath expression matches more than one value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, object: Option<Value>, expected: &str) {
        let met = Condition::parse(text).and_then(|it| it.is_met(object.as_ref(), Some("u")));
        let shown = met.map_or_else(|why| why, |met| met.to_string());
        assert_eq!(shown, expected, "{text} {object:?}");
    }

    #[test]
    fn conditions_are_met_as_by_kubectl() {
        let pod = || {
            let conditions = json!([{"type": "Ready", "status": "True"}, {"type": "Old", "status": "True", "observedGeneration": 1}]);
            Some(json!({"metadata": {"uid": "u", "generation": 2}, "spec": {"replicas": 3},
                "status": {"phase": "Running", "conditions": conditions}}))
        };
        check("condition=Ready", pod(), "true");
        check("condition=ready=TRUE", pod(), "true");
        check("condition=Ready=false", pod(), "false");
        check("condition=Old", pod(), "false");
        check("condition=None", pod(), "false");
        check("condition=Ready", None, "false");
        check("create", pod(), "true");
        check("create", None, "false");
        check("delete", pod(), "false");
        check("delete", None, "true");
        check("delete", Some(json!({"metadata": {"uid": "another"}})), "true");
        check("jsonpath={.status.phase}=Running", pod(), "true");
        check("jsonpath='{.status.phase}'=Running", pod(), "true");
        check("jsonpath={.spec.replicas}=3", pod(), "true");
        check("jsonpath=.spec.replicas=2", pod(), "false");
        check("jsonpath={.status.none}", pod(), "false");
        check("jsonpath={.status.phase}", pod(), "true");
        check(r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}=True"#, pod(), "true");
        check("jsonpath={.status}=x", pod(), "jsonpath leads to a nested object or list which is not supported");
        check(
            "jsonpath={.status.conditions[*].type}=x",
            pod(),
            "given jsonpath expression matches more than one value",
        );
    }

    #[test]
    fn malformed_conditions_are_refused() {
        let forms = "it is create, delete, propagated, condition=NAME[=VALUE] or jsonpath={PATH}[=VALUE]";
        check("", None, &format!("unrecognized condition: \"\"; {forms}"));
        check("condition", None, &format!("unrecognized condition: \"condition\"; {forms}"));
        check("jsonpath=", None, "jsonpath expression cannot be empty");
        let after =
            "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3";
        check("jsonpath={.a}=", None, after);
        let form = "jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or --for=jsonpath='{.status.readyReplicas}'";
        check("jsonpath={.a}=1=2", None, form);
    }
}

//! The review kinds: requests as objects, answered at once and never stored.
//!
//! Each function takes the decoded body and returns the object for the response with 201.

use apimachinery::Status;
use apimachinery::field::Error as FieldError;
use apimachinery::meta::Time;
use apimachinery::selector::{FieldSelector, Selector};
use serde_json::{Map, Value, json};
use transport::Identity;

use super::review_validation;
use crate::auth::authn::Authentication;
use crate::auth::authz::{self, Attributes, Authorizer, Decision, PolicyRule, ResourceAttributes, Selectors};

const AUTHORIZATION: &str = "authorization.k8s.io";

/// `subjectaccessreviews`: may the user of the spec do it?
///
/// # Errors
/// 422 for an invalid spec.
pub async fn subject_access_review(authorizer: &dyn Authorizer, mut review: Value) -> Result<Value, Status> {
    invalid(&review_validation::of_subject(&review))?;
    let spec = &review["spec"];
    let user = subject(spec);
    let decision = authz::decide(authorizer, &user, &attributes(spec)).await;
    answer(&mut review, "SubjectAccessReview", &decision);
    Ok(review)
}

/// `localsubjectaccessreviews` of a namespace.
///
/// # Errors
/// 422 for an invalid spec.
pub async fn local_subject_access_review(
    authorizer: &dyn Authorizer,
    namespace: &str,
    mut review: Value,
) -> Result<Value, Status> {
    invalid(&review_validation::of_local(&review, namespace))?;
    let spec = &review["spec"];
    let decision = authz::decide(authorizer, &subject(spec), &attributes(spec)).await;
    answer(&mut review, "LocalSubjectAccessReview", &decision);
    Ok(review)
}

/// `selfsubjectaccessreviews`: may I do it?
///
/// # Errors
/// 422 for an invalid spec.
pub async fn self_subject_access_review(
    authorizer: &dyn Authorizer,
    user: &Identity,
    mut review: Value,
) -> Result<Value, Status> {
    invalid(&review_validation::of_self(&review))?;
    let decision = authz::decide(authorizer, user, &attributes(&review["spec"])).await;
    answer(&mut review, "SelfSubjectAccessReview", &decision);
    Ok(review)
}

/// `selfsubjectrulesreviews`: the user's rules in a namespace.
///
/// # Errors
/// 400 without a namespace.
pub fn self_subject_rules_review(
    authorizer: &dyn Authorizer,
    user: &Identity,
    mut review: Value,
) -> Result<Value, Status> {
    let namespace = text(&review["spec"], "namespace").to_owned();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let rules = authorizer.rules_for(user, &namespace);
    let incomplete = rules.is_none();
    let rules = rules.unwrap_or_default();
    let (paths, resources): (Vec<&PolicyRule>, Vec<&PolicyRule>) =
        rules.iter().partition(|rule| !rule.non_resource_urls.is_empty());
    stamp(&mut review, "authorization.k8s.io/v1", "SelfSubjectRulesReview");
    // The response omits the metadata of the request.
    review["metadata"] = json!({});
    review["spec"] = json!({});
    review["status"] = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": incomplete});
    Ok(review)
}

/// `selfsubjectreviews` (`kubectl auth whoami`).
pub fn self_subject_review(user: &Identity, mut review: Value, now: Time) -> Value {
    stamp(&mut review, "authentication.k8s.io/v1", "SelfSubjectReview");
    review["metadata"]["creationTimestamp"] = json!(now);
    review["status"] = json!({"userInfo": user_info(user)});
    review
}

/// `tokenreviews`. `seconds` is now, since the epoch.
///
/// # Errors
/// 400 without a token; 500 when the store cannot be read.
pub async fn token_review(authentication: &Authentication, mut review: Value, seconds: i64) -> Result<Value, Status> {
    let token = text(&review["spec"], "token").to_owned();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = strings(&review["spec"]["audiences"]);
    let requested = if audiences.is_empty() { authentication.audiences() } else { audiences.as_slice() };
    let requested = (!requested.is_empty()).then_some(requested);
    let status = match authentication.token(&token, requested, seconds).await? {
        Some((user, audiences)) => {
            let mut status = json!({"authenticated": true, "user": user_info(&user)});
            if !audiences.is_empty() {
                status["audiences"] = json!(audiences);
            }
            status
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    };
    stamp(&mut review, "authentication.k8s.io/v1", "TokenReview");
    review["status"] = status;
    Ok(review)
}

/// `authentication.k8s.io/v1.UserInfo`, also used by webhooks and certificate signing requests.
pub fn user_info(user: &Identity) -> Value {
    let mut info = Map::new();
    info.insert("username".into(), user.user.clone().into());
    if !user.uid.is_empty() {
        info.insert("uid".into(), user.uid.clone().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        let extra: Map<String, Value> = user.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
        info.insert("extra".into(), extra.into());
    }
    info.into()
}

fn stamp(review: &mut Value, api_version: &str, kind: &str) {
    review["kind"] = kind.into();
    review["apiVersion"] = api_version.into();
    if review["metadata"].is_null() {
        review["metadata"] = json!({});
    }
}

fn answer(review: &mut Value, kind: &str, decision: &Decision) {
    stamp(review, "authorization.k8s.io/v1", kind);
    review["status"] = json!({"allowed": decision.is_allowed()});
    if let Decision::Deny(_) = decision {
        review["status"]["denied"] = true.into();
    }
    if !decision.reason().is_empty() {
        review["status"]["reason"] = decision.reason().into();
    }
    let omissions = selectors(&review["spec"]["resourceAttributes"]).map(|selector| selector.omission());
    let omissions: Vec<String> = omissions.into_iter().flatten().collect();
    if !omissions.is_empty() {
        review["status"]["evaluationError"] = omissions.join("; ").into();
    }
}

/// kube-apiserver refuses reviews without naming their kind.
fn invalid(errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(AUTHORIZATION, "", "", errors)) }
}

fn attributes(spec: &Value) -> Attributes {
    let resource = &spec["resourceAttributes"];
    if !resource.is_object() {
        let path = &spec["nonResourceAttributes"];
        return Attributes::Path { verb: text(path, "verb").into(), path: text(path, "path").into() };
    }
    Attributes::Resource(ResourceAttributes {
        verb: text(resource, "verb").into(),
        group: text(resource, "group").into(),
        version: text(resource, "version").into(),
        resource: text(resource, "resource").into(),
        subresource: text(resource, "subresource").into(),
        namespace: text(resource, "namespace").into(),
        name: text(resource, "name").into(),
        selectors: {
            let [field, label] = selectors(resource);
            Selectors::of(&field.written(), &label.written())
        },
    })
}

/// One of the two selectors of a review.
struct Reading<'a> {
    name: &'static str,
    selector: &'a Value,
    is_readable: fn(&str) -> bool,
    /// A requirement in URL form, if it has one.
    term: fn(&Value) -> Option<String>,
}

impl Reading<'_> {
    fn requirements(&self) -> impl Iterator<Item = &Value> {
        self.selector["requirements"].as_array().into_iter().flatten()
    }

    /// The selector in URL form. Parts that cannot be read are omitted, which widens the check.
    fn written(&self) -> String {
        match text(self.selector, "rawSelector") {
            "" => self.requirements().filter_map(self.term).collect::<Vec<_>>().join(","),
            raw if (self.is_readable)(raw) => raw.to_owned(),
            _ => String::new(),
        }
    }

    fn omission(&self) -> Option<String> {
        let raw = text(self.selector, "rawSelector");
        let is_whole =
            (raw.is_empty() || (self.is_readable)(raw)) && self.requirements().all(|it| (self.term)(it).is_some());
        (!is_whole).then(|| {
            let how = if self.written().is_empty() { "" } else { "partially " };
            format!("spec.resourceAttributes.{} {how}ignored due to parse error", self.name)
        })
    }
}

fn selectors(resource: &Value) -> [Reading<'_>; 2] {
    [
        Reading {
            name: "fieldSelector",
            selector: &resource["fieldSelector"],
            is_readable: |text| FieldSelector::parse(text).is_ok(),
            term: field_term,
        },
        Reading {
            name: "labelSelector",
            selector: &resource["labelSelector"],
            is_readable: |text| Selector::parse(text).is_ok(),
            term: label_term,
        },
    ]
}

fn field_term(requirement: &Value) -> Option<String> {
    let (key, values) = (text(requirement, "key"), strings(&requirement["values"]));
    let value = values.first().filter(|_| values.len() == 1)?;
    match text(requirement, "operator") {
        "In" => Some(format!("{key}={value}")),
        "NotIn" => Some(format!("{key}!={value}")),
        _ => None,
    }
}

fn label_term(requirement: &Value) -> Option<String> {
    let (key, values) = (text(requirement, "key"), strings(&requirement["values"]).join(","));
    match text(requirement, "operator") {
        "In" => Some(format!("{key} in ({values})")),
        "NotIn" => Some(format!("{key} notin ({values})")),
        "Exists" => Some(key.to_owned()),
        "DoesNotExist" => Some(format!("!{key}")),
        _ => None,
    }
}

fn subject(spec: &Value) -> Identity {
    let extra = spec["extra"].as_object().into_iter().flatten();
    Identity {
        user: text(spec, "user").into(),
        uid: text(spec, "uid").into(),
        groups: strings(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.to_lowercase(), strings(values))).collect(),
    }
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

//! Issuing service account tokens (`POST serviceaccounts/NAME/token`), and the documents by which others verify them.

use std::sync::Arc;

use apimachinery::field::{Error as FieldError, Path};
use apimachinery::managed_fields::{self, ManagerContext, NO_FIELDS, ONE_VERSION};
use apimachinery::meta::Time;
use apimachinery::{GroupVersionKind, Object, Status};
use pki::token::{Bound, Reference};
use pki::{Claims, Signers};
use serde_json::{Value, json};
use world::World;

/// An hour, when the request names no lifetime.
const DEFAULT_SECONDS: i64 = 3600;
const MINIMUM_SECONDS: i64 = 600;
const MAXIMUM_SECONDS: i64 = 1 << 32;
/// The lifetime that kubelets request on behalf of pods; such tokens are extended for old clients that never reload
/// theirs.
const EXTENDABLE_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// How tokens are issued.
#[derive(Debug)]
pub struct Issuer {
    /// The signing keys.
    pub signer: Arc<Signers>,
    /// `iss`, a URL.
    pub url: String,
    /// The server's own audiences, the default of a request.
    pub audiences: Vec<String>,
    /// `--service-account-extend-token-expiration`.
    pub extend: bool,
    /// `--service-account-max-token-expiration`, in seconds: longer lifetimes are shortened, with a warning.
    pub longest: Option<i64>,
}

impl Issuer {
    /// Shortens the requested lifetime to the longest one. Returns the text of a warning about it.
    pub fn shorten(&self, request: &mut Value) -> Option<String> {
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
        let longest = self.longest.filter(|longest| seconds > *longest)?;
        request["spec"]["expirationSeconds"] = longest.into();
        Some(format!("requested expiration of {seconds} seconds shortened to {longest} seconds"))
    }

    /// Issues a token for an account. `bound_to` is the Secret, Pod or Node in the request, as read by the caller
    /// (`None` without a reference).
    ///
    /// # Errors
    /// 422 for an invalid request, 500 when signing fails.
    pub fn issue(
        &self,
        account: &Object,
        bound_to: Option<&Object>,
        mut request: Value,
        world: &World,
    ) -> Result<Value, Status> {
        check_names(&request, account)?;
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
        validate(&request, account, bound_to, seconds)?;
        let mut audiences: Vec<String> = request["spec"]["audiences"]
            .as_array()
            .map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        if audiences.is_empty() {
            audiences.clone_from(&self.audiences);
        }
        let extended = self.extend && seconds == EXTENDABLE_SECONDS && audiences == self.audiences && is_pod(bound_to);
        let now = world.now();
        let lifetime = if extended { self.longest.unwrap_or(EXTENDED_SECONDS).min(EXTENDED_SECONDS) } else { seconds };
        let expires = now.as_second().saturating_add(lifetime);
        let warn_after = extended.then(|| now.as_second().saturating_add(seconds));
        let claims = Claims {
            aud: audiences.clone(),
            exp: Some(expires),
            iat: Some(now.as_second()),
            nbf: Some(now.as_second()),
            iss: self.url.clone(),
            jti: world.uuid(),
            bound: Some(bound(account, bound_to, warn_after)),
            sub: format!("system:serviceaccount:{}:{}", account.namespace().unwrap_or_default(), account.name()),
            ..Claims::default()
        };
        let token = self.signer.current().sign(&claims).map_err(Status::internal)?;
        // The reply has the requested expiry, so that clients renew as if the token had not been extended.
        let reported =
            jiff::Timestamp::from_second(now.as_second().saturating_add(seconds)).map_err(Status::internal)?;
        request["kind"] = "TokenRequest".into();
        request["apiVersion"] = "authentication.k8s.io/v1".into();
        let mut metadata = json!({
            "name": account.name(),
            "namespace": account.namespace(),
            "uid": world.uuid(),
            "creationTimestamp": Time::new(now),
        });
        if let Some(owners) = request["metadata"].get_mut("managedFields") {
            metadata["managedFields"] = owners.take();
        }
        request["metadata"] = metadata;
        request["spec"]["audiences"] = json!(audiences);
        if let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) {
            // Clients see that the token is not bound.
            spec.entry("boundObjectRef").or_insert(Value::Null);
        }
        request["spec"]["expirationSeconds"] = seconds.into();
        request["status"] = json!({"token": token, "expirationTimestamp": Time::new(reported)});
        Ok(request)
    }
}

/// Sets the default lifetime of a request, and records its author as the owner of its fields.
pub(crate) fn complete(request: &mut Value, manager: &str, now: Time) {
    if !request.is_object() {
        return;
    }
    let spec = &mut request["spec"];
    if spec["expirationSeconds"].is_null() {
        spec["expirationSeconds"] = DEFAULT_SECONDS.into();
    }
    let kind =
        GroupVersionKind { group: "authentication.k8s.io".into(), version: "v1".into(), kind: "TokenRequest".into() };
    let Some(type_) = kubernetes_api::schema_for(&kind) else { return };
    let context = ManagerContext {
        manager,
        api_version: "authentication.k8s.io/v1",
        subresource: "token",
        now,
        reset_fields: &NO_FIELDS,
        versions: ONE_VERSION,
    };
    managed_fields::track(None, request, &context, &type_).put(request);
}

fn is_pod(bound_to: Option<&Object>) -> bool {
    bound_to.is_some_and(|object| object.kind() == "Pod")
}

/// A request that names another account, or another namespace, is refused.
fn check_names(request: &Value, account: &Object) -> Result<(), Status> {
    let metadata = &request["metadata"];
    for (field, required) in [("name", account.name()), ("namespace", account.namespace().unwrap_or_default())] {
        let specified = text(metadata, field);
        if !specified.is_empty() && specified != required {
            let why = format!("must match the service account {field} if specified");
            let error = FieldError::invalid(&Path::new("metadata").child(field), specified, why);
            return Err(Status::invalid("authentication.k8s.io", "TokenRequest", account.name(), &[error]));
        }
    }
    Ok(())
}

fn validate(request: &Value, account: &Object, bound_to: Option<&Object>, seconds: i64) -> Result<(), Status> {
    let path = Path::new("spec").child("expirationSeconds");
    let mut errors = Vec::new();
    if seconds < MINIMUM_SECONDS {
        errors.push(FieldError::invalid(&path, seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > MAXIMUM_SECONDS {
        errors.push(FieldError::invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds"));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", &errors));
    }
    let reference = &request["spec"]["boundObjectRef"];
    if reference.is_null() {
        return Ok(());
    }
    let (kind, name) = (text(reference, "kind"), text(reference, "name"));
    let resource = match kind {
        "Pod" => "pods",
        "Secret" => "secrets",
        "Node" => "nodes",
        other => {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to object of type {other}",
                account.name()
            )));
        }
    };
    let Some(found) = bound_to.filter(|object| object.kind() == kind && object.name() == name) else {
        return Err(Status::not_found("", resource, name));
    };
    let uid = text(reference, "uid");
    if !uid.is_empty() && uid != found.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict("", resource, name, &why));
    }
    Ok(())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn bound(account: &Object, bound_to: Option<&Object>, warnafter: Option<i64>) -> Bound {
    let reference = |object: &Object| Reference { name: object.name().into(), uid: object.uid().into() };
    let of_kind = |kind: &str| bound_to.filter(|object| object.kind() == kind).map(reference);
    Bound {
        namespace: account.namespace().unwrap_or_default().into(),
        node: of_kind("Node"),
        pod: of_kind("Pod"),
        secret: of_kind("Secret"),
        serviceaccount: reference(account),
        warnafter,
    }
}

/// `/.well-known/openid-configuration`.
pub fn discovery(issuer: &str, jwks_uri: &str, verifier: &pki::Verifier) -> Value {
    json!({
        "issuer": issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": verifier.algorithms(),
    })
}

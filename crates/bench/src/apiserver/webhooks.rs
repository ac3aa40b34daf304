//! Creates with admission by others: a webhook for another kind, one that accepts, one that patches, and a policy. The
//! webhooks run in this process, so that their own cost is not the server's.

use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pki::{Authority, ServerNames};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use world::World;

use super::connection::{Call, JSON};
use super::load::Load;
use super::objects::config_map;
use super::{config_maps, namespace};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
/// A configuration becomes effective within this time.
const SETTLED: std::time::Duration = std::time::Duration::from_secs(1);

pub async fn run(load: &Load, count: usize) -> anyhow::Result<()> {
    let hooks = Hooks::start().await?;
    for (at, (scenario, objects)) in hooks.scenarios().into_iter().enumerate() {
        for (path, object) in &objects {
            load.connection.call(Call::send(Method::POST, format!("{GROUP}/{path}"), JSON, object.to_string())).await?;
        }
        tokio::time::sleep(SETTLED).await;
        for at_once in [1, 16] {
            let ns = format!("bench-admission-{at}-{at_once}");
            namespace(&load.connection, &ns).await?;
            let path = config_maps(&ns);
            let create = |n| Call::send(Method::POST, path.clone(), JSON, config_map(n, "all"));
            load.phase(&format!("create, {scenario}, C={at_once}"), count, at_once, create).await?;
        }
        for (path, object) in &objects {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let delete = Call { method: Method::DELETE, ..Call::get(format!("{GROUP}/{path}/{name}")) };
            load.connection.call(delete).await?;
        }
    }
    Ok(())
}

/// Objects to create, each with its resource.
type Objects = Vec<(&'static str, Value)>;

struct Hooks {
    address: String,
    /// PEM in base64.
    authority: String,
}

impl Hooks {
    async fn start() -> anyhow::Result<Self> {
        let world = World::system();
        let (authority, _) = Authority::generate("bench-webhooks", &world)?;
        let pair = authority.issue_server(&ServerNames::api_server("bench-webhooks", &[]), &world)?;
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
        let mut tls =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(chain, key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listening for reviews")?;
        let address = listener.local_addr()?.to_string();
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls))));
        Ok(Self { address, authority: STANDARD.encode(authority.certificate()) })
    }

    fn configuration(&self, kind: &str, path: &str, resource: &str) -> Value {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "bench"}, "webhooks": [{
            "name": "bench.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}],
            "clientConfig": {"url": format!("https://{}/{path}", self.address), "caBundle": self.authority}}]})
    }

    fn scenarios(&self) -> Vec<(&'static str, Objects)> {
        let (validating, mutating) = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations");
        let hook = |kind: &str, path: &str, resource: &str| self.configuration(kind, path, resource);
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "bench"}, "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""],
                "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
                "validations": [{"expression": "object.metadata.labels['app'] == 'bench'"}]}});
        let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "bench"}, "spec": {"policyName": "bench", "validationActions": ["Deny"]}});
        vec![
            ("no webhook", Vec::new()),
            ("webhook of another kind", vec![(validating, hook("ValidatingWebhookConfiguration", "allow", "secrets"))]),
            ("webhook accepts", vec![(validating, hook("ValidatingWebhookConfiguration", "allow", "configmaps"))]),
            ("webhook patches", vec![(mutating, hook("MutatingWebhookConfiguration", "patch", "configmaps"))]),
            (
                "policy accepts",
                vec![("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)],
            ),
        ]
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // The API server closes connections when it ends.
            let _ = server.serve_connection(TokioIo::new(stream), hyper::service::service_fn(review)).await;
        });
    }
}

async fn review(request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
    let patches = request.uri().path() == "/patch";
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body)?;
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    if patches {
        response["patchType"] = json!("JSONPatch");
        response["patch"] =
            json!(STANDARD.encode(r#"[{"op":"add","path":"/metadata/labels/bench","value":"patched"}]"#));
    }
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    Ok(Response::new(Full::from(answer.to_string())))
}

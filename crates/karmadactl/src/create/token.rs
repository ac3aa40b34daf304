//! `create token SERVICE_ACCOUNT_NAME`

use std::io::IsTerminal as _;

use apimachinery::ObjectKey;
use clap::Args;
use futures::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};

use super::kinds::{only_name, refused};
use crate::error::Error;
use crate::objects::flags::{DryRun, Printing};
use crate::printing::Printer;
use crate::{Context, requests, resources};

#[derive(Args)]
pub struct TokenArgs {
    names: Vec<String>,
    #[command(flatten)]
    printing: Printing,
    /// Audience of the token; the API server when empty.
    #[arg(long)]
    audience: Vec<String>,
    /// Kind of the object to which the token is bound: Node, Pod or Secret.
    #[arg(long, default_value = "")]
    bound_object_kind: String,
    /// Name of the object to which the token is bound; the token expires when the object is deleted.
    #[arg(long, default_value = "")]
    bound_object_name: String,
    /// UID of the object to which the token is bound; that of the existing object when empty.
    #[arg(long, default_value = "")]
    bound_object_uid: String,
    /// Requested lifetime; the server's when 0. The server may issue a token with another one.
    #[arg(long, default_value = "0s")]
    duration: String,
    /// Namespace of the service account; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
}

impl TokenArgs {
    /// The request.
    fn spec(&self) -> Result<Value, Error> {
        let refuse = |text: &str| Err(Error::message(text));
        let duration: apimachinery::duration::Duration = self.duration.parse().map_err(|error| {
            Error::Flag(format!("invalid argument {:?} for \"--duration\" flag: {error}", self.duration))
        })?;
        let Some(lifetime) = duration.to_std() else {
            return refuse("--duration must be greater than or equal to 0");
        };
        if lifetime.subsec_nanos() != 0 {
            return refuse("--duration cannot be expressed in units less than seconds");
        }
        if self.audience.iter().any(String::is_empty) {
            return refuse("--audience must not be an empty string");
        }
        let mut spec = json!({"audiences": self.audience});
        if !lifetime.is_zero() {
            spec["expirationSeconds"] = lifetime.as_secs().into();
        }
        let (kind, name, uid) = (&self.bound_object_kind, &self.bound_object_name, &self.bound_object_uid);
        match (kind.as_str(), name.is_empty(), uid.is_empty()) {
            ("", false, _) => refuse("--bound-object-name can only be set if --bound-object-kind is provided"),
            ("", _, false) => refuse("--bound-object-uid can only be set if --bound-object-kind is provided"),
            ("", ..) => Ok(spec),
            ("Node" | "Pod" | "Secret", true, _) => {
                refuse("--bound-object-name is required if --bound-object-kind is provided")
            }
            ("Node" | "Pod" | "Secret", ..) => {
                spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": kind, "name": name});
                if !uid.is_empty() {
                    spec["boundObjectRef"]["uid"] = uid.as_str().into();
                }
                Ok(spec)
            }
            _ => refuse("supported --bound-object-kind values are Node, Pod, Secret"),
        }
    }
}

pub fn run<'a>(context: &'a Context, args: &'a TokenArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let name = only_name(&args.names)?;
        let spec = args.spec()?;
        let mut printer = Printer::new(&args.printing, DryRun::None)?;
        let namespace = args.namespace.clone().unwrap_or_else(|| context.namespace());
        let key = ObjectKey::namespaced(namespace, name);
        let client = context.control_plane().await?;
        let path = client::path_of(&resources::SERVICE_ACCOUNT, &key, Some("token")).map_err(Error::client("token"))?;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let body = Some((requests::JSON, request.to_string().into_bytes()));
        let answer = requests::send(context, &client, Method::POST, &path, body).await;
        let answer = answer.map_err(|error| refused("failed to create token: ", error))?;
        let Some(token) = answer["status"]["token"].as_str().filter(|token| !token.is_empty()) else {
            return Err(Error::message("failed to create token: no token in server response"));
        };
        if !args.printing.output.is_empty() {
            return printer.done(context, &format!("tokenrequest.authentication.k8s.io/{name}"), "created", &answer);
        }
        // For a person with a newline, for a script without.
        let end = if std::io::stdout().is_terminal() { "\n" } else { "" };
        context.print(&format!("{token}{end}"));
        Ok(())
    })
}

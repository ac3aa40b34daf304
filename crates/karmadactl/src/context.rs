//! Where a command finds its clusters, and where it writes.

use std::io::Write as _;
use std::path::PathBuf;

use client::Client;
use serde_json::Value;

use crate::error::Error;
use crate::join::Member;

/// What every command takes: which control plane.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub kubeconfig: Option<PathBuf>,
    pub karmada_context: Option<String>,
    /// Whom to act as there, if not as oneself.
    pub act_as: Option<ActAs>,
}

/// `--karmada-as` and its companions.
#[derive(Clone, Debug, Default)]
pub struct ActAs {
    pub user: String,
    pub groups: Vec<String>,
    pub uid: String,
}

impl Context {
    /// `--kubeconfig`, else `$KUBECONFIG`, else `~/.kube/config`.
    pub async fn control_plane(&self) -> Result<Client, Error> {
        let path = locate(self.kubeconfig.clone(), "control plane")?;
        let failed = |e: client::Error| {
            let context = self.karmada_context.as_deref().unwrap_or_default();
            let file = path.display();
            let what = "failed to get control plane rest config";
            Error::message(format!("{what}. context: {context}, kube-config: {file}, error: {e}"))
        };
        let client = Client::from_kubeconfig(&path, self.karmada_context.as_deref()).await.map_err(failed)?;
        match &self.act_as {
            Some(other) => client.acting_as(&other.user, &other.groups, &other.uid).map_err(failed),
            None => Ok(client),
        }
    }

    /// The namespace of the kubeconfig's context, else `default`.
    pub fn namespace(&self) -> String {
        let read = || {
            let text = std::fs::read_to_string(locate(self.kubeconfig.clone(), "control plane").ok()?).ok()?;
            let document: Value = serde_saphyr::from_str(&text).ok()?;
            let context = context_of(&document, self.karmada_context.as_deref())?;
            context["namespace"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)
        };
        // A kubeconfig that cannot be read is reported where the client is made from it.
        read().unwrap_or_else(|| "default".to_owned())
    }

    /// A member by its own kubeconfig; the context defaults to the current one. `doing` is what it is wanted for.
    pub async fn member(&self, kubeconfig: Option<&str>, context: Option<&str>, doing: &str) -> Result<Member, Error> {
        let path = locate(kubeconfig.map(PathBuf::from), &format!("{doing} cluster"))?;
        let failed = |why: String| Error::message(format!("failed to get {doing} cluster config. error: {why}"));
        let text = std::fs::read_to_string(&path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
        let facts = cluster_of(&text, context).ok_or_else(|| match context {
            Some(name) => failed(format!("context {name:?} does not exist")),
            None => failed(format!("{} has no current context with a cluster", path.display())),
        })?;
        let client = Client::from_kubeconfig_text(&text, context).await.map_err(|e| failed(e.to_string()))?;
        let field = |name: &str| facts[name].as_str().map(str::to_owned);
        Ok(Member {
            client,
            endpoint: field("server").unwrap_or_default(),
            insecure_skip_tls_verify: facts["insecure-skip-tls-verify"] == true,
            proxy_url: field("proxy-url"),
        })
    }

    pub fn print(&self, text: &str) {
        // A reader that went away ends the output, not the command.
        let _ = std::io::stdout().write_all(text.as_bytes());
    }

    pub fn log(&self, text: &str) {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

/// The kubeconfig to use, or what to do to have one.
fn locate(given: Option<PathBuf>, side: &str) -> Result<PathBuf, Error> {
    let from_environment = || std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
    let from_home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".kube/config"));
    let path = given.or_else(from_environment).or_else(from_home);
    path.filter(|path| path.is_file()).ok_or_else(|| {
        Error::message(format!(
            "failed to get {side} config. error: Missing or incomplete configuration info.  Please point to an existing, \
             complete config file:\n  1. Via the command-line flag --kubeconfig\n  2. Via the KUBECONFIG environment \
             variable\n  3. In your home directory as ~/.kube/config"
        ))
    })
}

fn named<'a>(document: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    document[list].as_array()?.iter().find(|entry| entry["name"] == name)
}

/// The context of that name, or the current one.
fn context_of<'a>(document: &'a Value, name: Option<&str>) -> Option<&'a Value> {
    let name = name.or(document["current-context"].as_str())?;
    Some(&named(document, "contexts", name)?["context"])
}

/// The `cluster` entry that a context of a kubeconfig names.
pub(crate) fn cluster_of(kubeconfig: &str, context: Option<&str>) -> Option<Value> {
    let document: Value = serde_saphyr::from_str(kubeconfig).ok()?;
    let cluster = context_of(&document, context)?["cluster"].as_str()?;
    Some(named(&document, "clusters", cluster)?["cluster"].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_of_a_context_is_found() {
        let text = "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n\
                    clusters: [{name: c, cluster: {server: 'https://x:1', insecure-skip-tls-verify: true}}]\n";
        let cluster = cluster_of(text, None).expect("the current context");
        assert_eq!(
            (cluster["server"].as_str(), &cluster["insecure-skip-tls-verify"]),
            (Some("https://x:1"), &true.into())
        );
        assert!(cluster_of(text, Some("b")).is_none());
    }
}

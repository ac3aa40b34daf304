//! The file of `--karmada-kubeconfig` while the agent renews its certificate: the file takes the new certificate, and a
//! start uses the newer one of the file and the Secret in the member.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use client::Client;
use pki::files::{self, Access};
use world::Level;

/// A member that does not answer does not delay the start of its agent: the certificate of the file may be valid.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// The kubeconfig of the control plane.
#[derive(Clone)]
pub(super) struct AgentKubeconfig {
    pub path: PathBuf,
    /// `None` for the current one.
    pub context: Option<String>,
    /// The namespace of the Secret in the member.
    pub namespace: String,
}

impl AgentKubeconfig {
    /// The kubeconfig with the certificate from the member's Secret, if that was issued later than the file's.
    pub async fn newer(&self, member: &Client) -> Option<Arc<str>> {
        let stored = controllers::stored_kubeconfig(member, &self.namespace);
        let stored = tokio::time::timeout(ANSWERED_WITHIN, stored).await;
        let stored = stored.unwrap_or_else(|_| Err("the member cluster does not answer".to_owned()));
        let stored = stored.inspect_err(|err| tracing::debug!(err, "The newest certificate of the agent is unknown"));
        let file = files::read(&self.path).ok().flatten()?;
        let newer = controllers::with_newer_certificate(&file, self.context.as_deref(), &stored.ok()?);
        let newer = newer.ok().flatten()?;
        let (file, secret) = (self.path.display().to_string(), self.secret());
        tracing::info!(file, secret, "Secret of the agent has a newer certificate than the kubeconfig; it is used");
        Some(newer.into())
    }

    fn secret(&self) -> String {
        format!("{}/karmada-kubeconfig", self.namespace)
    }

    /// Writes each rotated certificate to the file, until the process ends.
    pub fn follow(self, rotated: Arc<Level<Option<Arc<str>>>>) {
        tokio::spawn(async move {
            let mut last = None;
            loop {
                last = rotated.wait_for(|now| *now != last).await;
                if let Some(newest) = &last {
                    self.take(newest);
                }
            }
        });
    }

    fn take(&self, newest: &str) {
        let file = self.path.display().to_string();
        match self.replace(newest) {
            Ok(true) => tracing::info!(file, "Kubeconfig has the newest certificate of the agent"),
            Ok(false) => {}
            Err(error) => {
                let (err, secret) = (format!("{error:#}"), self.secret());
                tracing::warn!(
                    file,
                    secret,
                    err,
                    "Kubeconfig cannot be updated; the Secret in the cluster has the newest certificate, and a restart uses it"
                );
            }
        }
    }

    /// Replaces the file, or the file that a symbolic link names. Returns whether it changed.
    fn replace(&self, newest: &str) -> anyhow::Result<bool> {
        let path = std::fs::canonicalize(&self.path).context("finding the file")?;
        // The kubelet updates the files of a Secret's volume; its directories begin with two dots.
        let is_kubelets = |part: Component<'_>| matches!(part, Component::Normal(name) if starts_with_dots(name));
        if path.components().any(is_kubelets) {
            return Ok(false);
        }
        let file = files::read(&path)?.context("the file does not exist")?;
        let changed = controllers::with_newer_certificate(&file, self.context.as_deref(), newest);
        match changed.map_err(anyhow::Error::msg)? {
            Some(changed) => {
                files::replace(&path, changed.as_bytes(), Access::Private).map(|()| true).map_err(Into::into)
            }
            None => Ok(false),
        }
    }
}

fn starts_with_dots(name: &std::ffi::OsStr) -> bool {
    Path::new(name).to_string_lossy().starts_with("..")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use pki::kubeconfig::User;
    use pki::{Authority, Kubeconfig};
    use world::World;

    use super::*;

    fn kubeconfigs() -> [String; 2] {
        let world = |time: &str| World::simulated(time.parse().expect("a time"), 7);
        let (first, later) = (world("2026-11-23T00:00:00Z"), world("2026-11-23T01:00:00Z"));
        let (authority, _) = Authority::generate("ca", &first).expect("an authority");
        [first, later].map(|world| {
            let pair = authority.issue_client_for("agent", &[], 2 * Duration::from_secs(3600), &world).expect("issued");
            let user = User::with_certificate(&pair);
            Kubeconfig::new("a", "https://a", authority.certificate(), "m1", user).to_yaml().expect("YAML")
        })
    }

    fn of(path: &Path) -> AgentKubeconfig {
        AgentKubeconfig { path: path.to_owned(), context: None, namespace: "karmada-system".into() }
    }

    #[tokio::test]
    async fn the_file_is_replaced_once_and_by_newer_certificates_only() {
        let [old, new] = kubeconfigs();
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("agent.config");
        std::fs::write(&file, &old).expect("written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(of(&file).replace(&new).expect("replaced"));
        assert_eq!(std::fs::metadata(&file).expect("a file").mode() & 0o777, 0o600);
        let content = std::fs::read_to_string(&file).expect("a file");
        let user = |text: &str| apimachinery::yaml::to_json_value(text.as_bytes()).expect("YAML")["users"].clone();
        assert_eq!(user(&content), user(&new));
        assert!(!of(&file).replace(&new).expect("the same") && !of(&file).replace(&old).expect("older"));
        assert_eq!(std::fs::read_dir(directory.path()).expect("listed").count(), 1, "no temporary file is left");
    }

    #[tokio::test]
    async fn a_link_stays_and_volumes_of_the_kubelet_are_left_to_it() {
        let [old, new] = kubeconfigs();
        let directory = tempfile::tempdir().expect("a directory");
        let (link, volume) = (directory.path().join("link"), directory.path().join("..2026_11_23"));
        std::fs::write(directory.path().join("target"), &old).expect("written");
        symlink("target", &link).expect("a link");
        assert!(of(&link).replace(&new).expect("replaced"));
        assert!(std::fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert_ne!(std::fs::read_to_string(directory.path().join("target")).expect("a file"), old);
        std::fs::create_dir(&volume).expect("a directory");
        std::fs::write(volume.join("karmada-kubeconfig"), &old).expect("written");
        symlink(volume.join("karmada-kubeconfig"), directory.path().join("mounted")).expect("a link");
        assert!(!of(&directory.path().join("mounted")).replace(&new).expect("left"));
        assert_eq!(std::fs::read_to_string(volume.join("karmada-kubeconfig")).expect("a file"), old);
        let missing = of(&directory.path().join("missing")).replace(&new).expect_err("missing");
        assert!(format!("{missing:#}").starts_with("finding the file: "), "{missing:#}");
    }
}

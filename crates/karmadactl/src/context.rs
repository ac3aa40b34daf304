//! Where a command finds its clusters, and where it writes.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use client::Client;
use client::kubeconfig::{Connection, Places};

use crate::error::Error;
use crate::join::Member;
use crate::table::printable;
use crate::{requests, verbosity};

/// The control plane, for every command.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub kubeconfig: Option<PathBuf>,
    pub karmada_context: Option<String>,
    /// `-v`
    pub verbosity: i32,
    /// The user to impersonate there.
    pub act_as: Option<ActAs>,
    pub opened: Arc<Opened>,
}

/// The connections of a command, for the explanation of its failure.
#[derive(Debug, Default)]
pub struct Opened {
    pub control_plane: OnceLock<Connection>,
    pub member: OnceLock<Connection>,
    /// The warnings that are printed already.
    warned: Mutex<BTreeSet<String>>,
}

/// `--karmada-as` and its companions.
#[derive(Clone, Debug, Default)]
pub struct ActAs {
    pub user: String,
    pub groups: Vec<String>,
    pub uid: String,
}

impl Context {
    fn places(&self) -> Places {
        Places::of_user("--kubeconfig", self.kubeconfig.clone())
    }

    /// Uses `--kubeconfig`, `$KUBECONFIG`, `~/.kube/config` or the service account of the pod, in this order.
    pub async fn control_plane(&self) -> Result<Client, Error> {
        let failed = |error: client::Error| Error::message(error.to_string());
        let connection = self.places().connect(self.karmada_context.as_deref()).await.map_err(failed)?;
        for file in &connection.missing {
            self.log(&format!("Warning: kubeconfig {} of $KUBECONFIG does not exist\n", file.display()));
        }
        let client = self.shown(connection.client.clone());
        // The first one stays; a command opens one.
        let _ = self.opened.control_plane.set(connection);
        match &self.act_as {
            Some(other) => client.acting_as(&other.user, &other.groups, &other.uid).map_err(failed),
            None => Ok(client),
        }
    }

    /// The client, which waits as long as a busy server requires, prints warnings, and logs its requests if `-v`
    /// requires that.
    pub fn shown(&self, client: Client) -> Client {
        self.observed(&client, |context, warnings| {
            warnings.iter().filter_map(|value| requests::warning_text(value)).for_each(|it| context.warn(&it));
        })
    }

    /// As [`Self::shown`], without warnings: a scan of every kind is warned about each deprecated one.
    pub fn scanning(&self, client: &Client) -> Client {
        self.observed(client, |_, _| {})
    }

    fn observed(&self, client: &Client, warned: fn(&Self, &[String])) -> Client {
        let context = self.clone();
        let observer = move |exchange: &client::Exchange| {
            warned(&context, &exchange.warnings);
            if context.verbosity >= verbosity::REQUESTS {
                context.log(&verbosity::line(exchange));
            }
        };
        client.repeating().observed_by(Arc::new(observer))
    }

    /// Prints a server's warning, once in a command.
    pub fn warn(&self, text: &str) {
        let mut warned = self.opened.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(text.to_owned()) {
            self.log(&format!("Warning: {}\n", printable(text)));
        }
    }

    /// The namespace of the kubeconfig's context, or `default`.
    pub fn namespace(&self) -> String {
        // An unreadable kubeconfig is reported when the client is created.
        let found = self.places().read().ok().flatten();
        let facts = found.and_then(|kubeconfig| kubeconfig.facts(self.karmada_context.as_deref()).ok());
        facts.and_then(|facts| facts.namespace).unwrap_or_else(|| "default".to_owned())
    }

    /// The names of the kubeconfig's contexts.
    pub fn contexts(&self) -> Vec<String> {
        let found = self.places().read().ok().flatten();
        found.and_then(|kubeconfig| kubeconfig.facts(None).ok()).map(|facts| facts.contexts).unwrap_or_default()
    }

    /// A client of a member by its kubeconfig; the context defaults to the current one. `doing` is the purpose, for
    /// errors.
    pub async fn member(&self, kubeconfig: Option<&str>, context: Option<&str>, doing: &str) -> Result<Member, Error> {
        self.member_of("--cluster-kubeconfig", kubeconfig, context, doing).await
    }

    /// As [`Self::member`], with the kubeconfig of another flag.
    pub async fn member_of(
        &self,
        flag: &'static str,
        kubeconfig: Option<&str>,
        context: Option<&str>,
        doing: &str,
    ) -> Result<Member, Error> {
        let failed =
            |error: client::Error| Error::message(format!("failed to get {doing} cluster config. error: {error}"));
        let places = Places::of_user(flag, kubeconfig.map(PathBuf::from));
        let connection = places.connect(context).await.map_err(failed)?;
        let facts = &connection.facts;
        let member = Member {
            client: self.shown(connection.client.clone()),
            endpoint: facts.server().to_owned(),
            insecure_skip_tls_verify: facts.skips_verification(),
            authority: facts.authority(),
            proxy_url: facts.proxy_url().map(str::to_owned),
        };
        // The first one stays; a command opens one.
        let _ = self.opened.member.set(connection);
        Ok(member)
    }

    /// The characters in a line of the terminal that the standard output is; `None` for a pipe or a file, whose readers
    /// get whole tables.
    pub fn columns(&self) -> Option<usize> {
        let stdout = std::io::stdout();
        let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
        (size.ws_col > 0).then(|| usize::from(size.ws_col))
    }

    pub fn print(&self, text: &str) {
        // A closed pipe ends the output, not the command.
        let _ = std::io::stdout().write_all(text.as_bytes());
    }

    pub fn log(&self, text: &str) {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

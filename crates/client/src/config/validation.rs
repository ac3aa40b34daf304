//! What client-go refuses in a cluster and a user of a kubeconfig before any connection, with its texts.

use super::document::{Cluster, Exec, InteractiveMode, User};

/// The names of a context's cluster and user.
pub(crate) struct Names<'a> {
    pub cluster: &'a str,
    pub user: &'a str,
}

/// # Errors
/// All that is wrong.
pub(super) fn validate(cluster: &Cluster, user: &User, names: &Names<'_>) -> Result<(), String> {
    let mut wrong = Vec::new();
    of_cluster(cluster, names.cluster, &mut wrong);
    of_user(user, names.user, &mut wrong);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn is_set(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| !text.is_empty())
}

fn of_cluster(cluster: &Cluster, name: &str, wrong: &mut Vec<String>) {
    if is_set(&cluster.certificate_authority) && is_set(&cluster.certificate_authority_data) {
        wrong.push(format!(
            "certificate-authority-data and certificate-authority are both specified for {name}. \
             certificate-authority-data will override."
        ));
    }
    readable("certificate-authority", &cluster.certificate_authority, name, wrong);
}

fn readable(what: &str, file: &Option<String>, name: &str, wrong: &mut Vec<String>) {
    if let Some(file) = file.as_deref().filter(|file| !file.is_empty())
        && let Err(error) = std::fs::File::open(file)
    {
        wrong.push(format!("unable to read {what} {file} for {name}: {error}"));
    }
}

fn of_user(user: &User, name: &str, wrong: &mut Vec<String>) {
    let secret = |text: &Option<super::document::Secret>| text.as_ref().is_some_and(|secret| !secret.0.is_empty());
    if is_set(&user.client_certificate) || is_set(&user.client_certificate_data) {
        if is_set(&user.client_certificate) && is_set(&user.client_certificate_data) {
            wrong.push(format!(
                "client-cert-data and client-cert are both specified for {name}. client-cert-data will override."
            ));
        }
        match (is_set(&user.client_key), secret(&user.client_key_data)) {
            (true, true) => wrong.push(format!(
                "client-key-data and client-key are both specified for {name}; client-key-data will override"
            )),
            (false, false) => wrong.push(format!(
                "client-key-data or client-key must be specified for {name} to use the clientCert authentication method."
            )),
            _ => {}
        }
        readable("client-cert", &user.client_certificate, name, wrong);
        readable("client-key", &user.client_key, name, wrong);
    }
    if let Some(exec) = &user.exec {
        if user.auth_provider.is_some() {
            wrong.push(format!("authProvider cannot be provided in combination with an exec plugin for {name}"));
        }
        of_program(exec, name, wrong);
    }
    if secret(&user.token) && (is_set(&user.username) || secret(&user.password)) {
        wrong.push(format!(
            "more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
        ));
    }
    let others = !user.impersonate_groups.is_empty() || !user.impersonate_extra.is_empty();
    if !is_set(&user.impersonate) && (others || is_set(&user.impersonate_uid)) {
        wrong.push(format!("requesting uid, groups or user-extra for {name} without impersonating a user"));
    }
}

fn of_program(exec: &Exec, name: &str, wrong: &mut Vec<String>) {
    let mut missing =
        |what: &str| wrong.push(format!("{what} must be specified for {name} to use exec authentication plugin"));
    if !is_set(&exec.command) {
        missing("command");
    }
    if !is_set(&exec.api_version) {
        missing("apiVersion");
    }
    if exec.env.iter().any(|variable| variable.name.is_empty()) {
        missing("env variable name");
    }
    // Older versions have a default.
    let has_default = exec.api_version.as_deref().is_some_and(|version| version.ends_with("beta1"));
    if exec.interactive_mode.is_none_or(|mode| mode == InteractiveMode::Unset) && !has_default {
        missing("interactiveMode");
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn ambiguous_and_incomplete_users_are_refused() {
        let check = |user: Value, expected: &str| {
            let user = User::deserialize(&user).expect("a user");
            let names = Names { cluster: "k", user: "u" };
            assert_eq!(validate(&Cluster::default(), &user, &names).err().unwrap_or_default(), expected);
        };
        check(json!({"token": "t", "tokenFile": "/nonexistent"}), "");
        check(
            json!({"token": "t", "username": "a"}),
            "more than one authentication method found for u; found [token basicAuth], only one is allowed",
        );
        check(json!({"client-key": "/nonexistent"}), "");
        check(
            json!({"client-certificate-data": "YQ=="}),
            "client-key-data or client-key must be specified for u to use the clientCert authentication method.",
        );
        check(
            json!({"client-certificate-data": "YQ==", "client-certificate": "/dev/null", "client-key": "/dev/null"}),
            "client-cert-data and client-cert are both specified for u. client-cert-data will override.",
        );
        let alone = "requesting uid, groups or user-extra for u without impersonating a user";
        check(json!({"as-groups": ["a"]}), alone);
        check(json!({"as-uid": "1"}), alone);
        check(json!({"as-user-extra": {"a": ["b"]}}), alone);
        check(json!({"as": "a", "as-uid": "1", "as-groups": ["a"]}), "");
    }

    #[test]
    fn programs_of_v1_have_an_interactive_mode() {
        let check = |exec: Value, expected: &[&str]| {
            let user = User::deserialize(&json!({"exec": exec})).expect("a user");
            let found = validate(&Cluster::default(), &user, &Names { cluster: "k", user: "u" }).err();
            let missing = |what| format!("{what} must be specified for u to use exec authentication plugin");
            let expected: Vec<String> = expected.iter().map(missing).collect();
            assert_eq!(found.unwrap_or_default(), expected.join("; "), "{exec}");
        };
        let (v1, beta) = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1");
        check(json!({"apiVersion": v1, "command": "c", "interactiveMode": "Never"}), &[]);
        check(json!({"apiVersion": v1, "command": "c"}), &["interactiveMode"]);
        check(json!({"apiVersion": beta, "command": "c", "interactiveMode": ""}), &[]);
        check(json!({"env": [{"value": "v"}]}), &["command", "apiVersion", "env variable name", "interactiveMode"]);
    }

    #[test]
    fn a_bundle_is_in_a_file_or_in_the_kubeconfig() {
        let mut cluster = Cluster { certificate_authority: Some("/nonexistent/ca".into()), ..Cluster::default() };
        let names = Names { cluster: "k", user: "u" };
        let found = |cluster: &Cluster| validate(cluster, &User::default(), &names).err().unwrap_or_default();
        assert!(found(&cluster).starts_with("unable to read certificate-authority /nonexistent/ca for k: "));
        cluster.certificate_authority = Some("/dev/null".into());
        cluster.certificate_authority_data = Some("YQ==".into());
        assert!(found(&cluster).starts_with("certificate-authority-data and certificate-authority are both specified"));
    }
}

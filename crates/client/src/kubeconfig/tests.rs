use super::*;

const FIRST: &str = "\
current-context: ''
contexts:
- name: shared
  context: {cluster: c, user: u, namespace: web}
clusters:
- name: c
  cluster: {server: 'https://first:1', certificate-authority: ca.crt}
users:
- name: u
  user: {token: first}
";
const SECOND: &str = "\
current-context: own
contexts:
- name: shared
  context: {cluster: other, user: other}
- name: own
  context: {cluster: c, user: v}
- name: broken
  context: {cluster: gone, user: v}
clusters:
- name: c
  cluster: {server: 'https://second:2', insecure-skip-tls-verify: true}
";

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("a directory"));
        std::fs::create_dir_all(files.0.path().join(".kube")).expect("a directory");
        for (name, text) in
            [("first", FIRST), ("second", SECOND), ("malformed", "contexts:\n- name: [a\n"), ("empty", "")]
        {
            files.write(name, text);
        }
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("written");
    }

    /// The chosen context and its server, or the error; `D` is the directory.
    fn check(&self, flag: &str, variables: &[(&str, &str)], context: &str, expected: &str) {
        let here = |text: &str| text.replace("D/", &format!("{}/", self.0.path().display()));
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(here(value)))
        };
        let file = (!flag.is_empty()).then(|| PathBuf::from(here(flag)));
        let places = Places::from_environment("--kubeconfig", file, variable);
        let chosen = places.read().and_then(|found| match found {
            None => Ok("pod".to_owned()),
            Some(found) => {
                let facts = found.facts((!context.is_empty()).then_some(context))?;
                let namespace = facts.namespace.as_deref().unwrap_or("-");
                let missing = named(&found.missing);
                Ok(format!("{} {} {} {namespace} [{missing}]", facts.context, facts.user, facts.server()))
            }
        });
        let chosen = chosen.unwrap_or_else(|error| error.to_string());
        assert_eq!(chosen.replace(&*self.0.path().to_string_lossy(), "D"), expected, "{flag} {variables:?} {context}");
    }
}

#[test]
fn the_kubeconfig_is_found_by_client_gos_rules() {
    let files = Files::new();
    let both = [("KUBECONFIG", "D/first:D/second")];
    // For each name the first file that defines it counts; an empty current context counts as absent.
    files.check("", &both, "", "own v https://first:1 - []");
    files.check("", &both, "shared", "shared u https://first:1 web []");
    files.check(
        "",
        &[("KUBECONFIG", "D/second:D/first")],
        "shared",
        "context \"shared\" of kubeconfig D/second, D/first names cluster \"other\", which does not exist",
    );
    files.check("", &[("KUBECONFIG", ":D/nosuch::D/second:")], "", "own v https://second:2 - [D/nosuch]");
    files.check("", &[("KUBECONFIG", "D/nosuch")], "", "kubeconfig D/nosuch of $KUBECONFIG does not exist");
    files.check("", &[("KUBECONFIG", "D/a:D/b:D/a")], "", "kubeconfig D/a, D/b of $KUBECONFIG do not exist");
    // The flag selects one file and overrides the environment.
    files.check("D/second", &[("KUBECONFIG", "D/first")], "", "own v https://second:2 - []");
    files.check("D/a:D/second", &both, "", "kubeconfig D/a:D/second of --kubeconfig does not exist");
    files.check("D/.kube", &[], "", "kubeconfig D/.kube of --kubeconfig cannot be read: Is a directory (os error 21)");
    files.check(
        "D/malformed",
        &[],
        "",
        "kubeconfig D/malformed of --kubeconfig is malformed: error converting YAML to JSON: yaml: line 2: unclosed bracket '['",
    );
    files.check("D/empty", &[], "", "kubeconfig D/empty has no current context; it has no contexts");
    files.check("D/first", &[], "", "kubeconfig D/first has no current context; its contexts: shared");
    files.check(
        "D/second",
        &[],
        "nope",
        "context \"nope\" does not exist in kubeconfig D/second; its contexts: shared, own, broken",
    );
    files.check(
        "D/second",
        &[],
        "broken",
        "context \"broken\" of kubeconfig D/second names cluster \"gone\", which does not exist",
    );
}

#[test]
fn home_and_in_cluster_configurations_are_read_last() {
    let files = Files::new();
    let pod = [("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("KUBERNETES_SERVICE_PORT", "443")];
    files.check("", &[("HOME", "D/x")], "", INCOMPLETE);
    files.check("", &[], "", INCOMPLETE);
    files.check("", &pod, "", "pod");
    files.check("", &pod[..1], "", INCOMPLETE);
    files.check("", &[pod[0], pod[1], ("KUBECONFIG", "D/nosuch")], "", "pod");
    files.write(".kube/config", SECOND);
    let home = "own v https://second:2 - []";
    files.check("", &[("HOME", "D/")], "", home);
    files.check("", &[pod[0], pod[1], ("HOME", "D/")], "", home);
    files.check("", &[("HOME", "D/"), ("KUBECONFIG", ":")], "", INCOMPLETE);
    files.check("", &[("HOME", "D/"), ("KUBECONFIG", "D/first")], "shared", "shared u https://first:1 web []");
}

#[test]
fn certificates_of_the_context_are_followed() {
    let files = Files::new();
    let text = "current-context: own\ncontexts: [{name: own, context: {cluster: c, user: u}}]\n\
        clusters: [{name: c, cluster: {certificate-authority: ca}}, {name: d, cluster: {certificate-authority: other}}]\n\
        users: [{name: u, user: {client-certificate: crt, client-key: /k, tokenFile: token}}]\n";
    files.write("own", text);
    let here = |name: &str| files.0.path().join(name);
    let places = Places::of_component("--kubeconfig", Some(here("own")));
    assert_eq!(places.followed(None), [here("own"), here("ca"), here("crt"), PathBuf::from("/k")]);
    assert_eq!(places.followed(Some("nope")), [here("own")]);
}

//! Completion candidates at the cursor of a command line: commands, flags, their values, and the names of live objects.
//!
//! The kind of candidate is a pure function of the words ([`question_of`]); the servers are only read for names.

use std::time::Duration;

use client::Client;
use futures::future::BoxFuture;
use http::Method;

use super::{help, log_flags};
use crate::get::targets;
use crate::scope::OperationScope;
use crate::{Context, requests, resources, servers};

/// The time limit of a completion; without an answer from the server there are no candidates.
const PATIENCE: Duration = Duration::from_secs(3);
/// More names than that help no person.
const MAX_NAMES: usize = 500;

/// The type of completion at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CompletionKind {
    /// Words with their meaning.
    Words(Vec<(String, String)>),
    Files,
    Clusters,
    Namespaces,
    Contexts,
    /// Types of the server.
    Types,
    /// Names of this type.
    Names(String),
    Nothing,
}

/// The question at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Completion {
    kind: CompletionKind,
    /// Printed before each candidate, such as `--cluster=` or `deployments/`.
    before: String,
    /// The prefix of candidates.
    prefix: String,
    kubeconfig: Option<String>,
    context: Option<String>,
    namespace: Option<String>,
    /// The member whose objects are named.
    cluster: Option<String>,
}

/// The candidates as lines: the word, and its meaning after a tab.
pub fn lines(tree: &clap::Command, words: Vec<String>) -> BoxFuture<'static, String> {
    let completion = question_of(tree, words);
    Box::pin(async move {
        let found = tokio::time::timeout(PATIENCE, answer(&completion)).await.unwrap_or_default();
        let mut text = String::new();
        for (word, meaning) in found.into_iter().filter(|(word, _)| word.starts_with(&completion.prefix)) {
            let gap = if meaning.is_empty() { "" } else { "\t" };
            text.push_str(&format!("{}{word}{gap}{meaning}\n", completion.before));
        }
        if completion.kind == CompletionKind::Files {
            text.push_str(":files\n");
        }
        text
    })
}

/// The words before the cursor, the last one being completed.
fn question_of(tree: &clap::Command, words: Vec<String>) -> Completion {
    let (mut words, bash) = joined(words);
    let current = words.pop().unwrap_or_default();
    let mut read =
        Read { tree, command: tree, path: Vec::new(), arguments: Vec::new(), flags: Vec::new(), pending: None };
    words.iter().for_each(|word| read.word(word));
    let flag = |name: &str| read.flags.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let mut completion = Completion {
        kind: CompletionKind::Nothing,
        before: String::new(),
        prefix: current.clone(),
        kubeconfig: flag("kubeconfig"),
        context: flag("karmada-context"),
        namespace: flag("namespace"),
        cluster: flag("cluster").or_else(|| flag("clusters")).filter(|_| {
            flag("operation-scope").is_some_and(|scope| scope == "members")
                || read.path == ["logs"]
                || read.path == ["promote"]
        }),
    };
    let assigned = current.strip_prefix("--").and_then(|rest| rest.split_once('='));
    if let Some(name) = read.pending.clone() {
        completion.value(&read, &name, &current);
    } else if let Some((name, value)) = assigned {
        completion.value(&read, name, value);
        if !bash {
            completion.before = format!("--{name}={}", completion.before);
        }
    } else if current.starts_with('-') {
        completion.kind = CompletionKind::Words(read.flag_words());
    } else {
        read.argument(&mut completion, &current);
    }
    completion
}

/// Bash splits `--name=value` into three words.
fn joined(words: Vec<String>) -> (Vec<String>, bool) {
    let mut joined: Vec<String> = Vec::new();
    let mut bash = false;
    let mut after_sign = false;
    for word in words {
        match joined.last_mut() {
            Some(last) if word == "=" && last.starts_with("--") => {
                last.push('=');
                (after_sign, bash) = (true, true);
            }
            Some(last) if after_sign => {
                last.push_str(&word);
                after_sign = false;
            }
            _ => joined.push(word),
        }
    }
    (joined, bash)
}

/// The command line up to the cursor.
struct Read<'t> {
    tree: &'t clap::Command,
    command: &'t clap::Command,
    path: Vec<&'t str>,
    arguments: Vec<String>,
    flags: Vec<(String, String)>,
    /// A flag whose value is at the cursor.
    pending: Option<String>,
}

impl<'t> Read<'t> {
    fn word(&mut self, word: &str) {
        if let Some(name) = self.pending.take() {
            self.flags.push((name, word.to_owned()));
            return;
        }
        if let Some(rest) = word.strip_prefix("--") {
            match rest.split_once('=') {
                Some((name, value)) => self.flags.push((name.to_owned(), value.to_owned())),
                None if self.takes_value(|arg| arg.get_long() == Some(rest)) => self.pending = Some(rest.to_owned()),
                None => {}
            }
            return;
        }
        if let Some(letter) = word.strip_prefix('-').and_then(|rest| rest.chars().next()) {
            let name = self.find(|arg| arg.get_short() == Some(letter)).and_then(|arg| arg.get_long());
            let name = name.unwrap_or_default().to_owned();
            if word.len() == 2 && self.takes_value(|arg| arg.get_short() == Some(letter)) {
                self.pending = Some(name);
            } else if word.len() > 2 {
                self.flags.push((name, word[2..].trim_start_matches('=').to_owned()));
            }
            return;
        }
        match self
            .command
            .get_subcommands()
            .find(|it| it.get_name() == word || it.get_all_aliases().any(|it| it == word))
        {
            Some(command) if self.arguments.is_empty() => {
                self.command = command;
                self.path.push(command.get_name());
            }
            _ => self.arguments.push(word.to_owned()),
        }
    }

    fn find(&self, is: impl Fn(&clap::Arg) -> bool) -> Option<&'t clap::Arg> {
        self.command.get_arguments().find(|arg| is(arg))
    }

    /// An unknown flag is assumed to have a value.
    fn takes_value(&self, is: impl Fn(&clap::Arg) -> bool) -> bool {
        let known = self.find(&is).or_else(|| self.tree.get_arguments().find(|arg| is(arg)));
        known.is_none_or(|arg| !arg.is_require_equals_set() && arg.get_action().takes_values())
    }

    /// Flags without effect are not offered.
    fn flag_words(&self) -> Vec<(String, String)> {
        let has_effect = |arg: &&clap::Arg| arg.get_long().is_some_and(|name| !log_flags::is_one(name));
        let global = self.tree.get_arguments().filter(|arg| arg.is_global_set() && !arg.is_hide_set());
        let global = global.filter(has_effect);
        let own = help::own_flags(self.command).into_iter();
        own.chain(global).map(|arg| (format!("--{}", arg.get_long().unwrap_or_default()), help::meaning(arg))).collect()
    }

    /// The candidates for an argument.
    fn argument(&self, completion: &mut Completion, current: &str) {
        let subcommands: Vec<(String, String)> = self
            .command
            .get_subcommands()
            .filter(|it| !it.is_hide_set())
            .map(|it| (it.get_name().to_owned(), help::about(it)))
            .collect();
        if !subcommands.is_empty() {
            completion.kind = CompletionKind::Words(subcommands);
            return;
        }
        let words = |words: &[&str]| {
            CompletionKind::Words(words.iter().map(|word| ((*word).to_owned(), String::new())).collect())
        };
        let count = self.arguments.len();
        completion.kind = match (self.path.first().copied().unwrap_or_default(), count) {
            ("cordon" | "uncordon" | "unjoin" | "unregister", 0) | ("resume", _) => CompletionKind::Clusters,
            ("taint", 0) => words(&["cluster", "clusters"]),
            ("taint", _) => CompletionKind::Clusters,
            ("completion", 0) => words(&["bash", "zsh", "fish", "powershell"]),
            ("explain", 0) => CompletionKind::Types,
            ("logs" | "exec" | "attach", 0) => CompletionKind::Names("pods".into()),
            (
                "get" | "delete" | "describe" | "edit" | "patch" | "label" | "annotate" | "promote"
                | "explain-placement" | "wait" | "rollout" | "why" | "diff" | "tree",
                _,
            ) => self.object(completion, current),
            _ => CompletionKind::Nothing,
        };
    }

    /// `TYPE`, `TYPE NAME...` or `TYPE/NAME...`
    fn object(&self, completion: &mut Completion, current: &str) -> CompletionKind {
        if let Some((type_, name)) = current.split_once('/') {
            completion.before = format!("{type_}/");
            completion.prefix = name.to_owned();
            return CompletionKind::Names(type_.to_owned());
        }
        match self.arguments.first() {
            None => CompletionKind::Types,
            Some(first) if first.contains('/') => CompletionKind::Types,
            Some(type_) => CompletionKind::Names(type_.clone()),
        }
    }
}

impl Completion {
    /// The value of a flag.
    fn value(&mut self, read: &Read<'_>, name: &str, value: &str) {
        // The last item of a comma-separated list.
        let (done, part) = value.rsplit_once(',').map_or(("", value), |(done, part)| (&value[..=done.len()], part));
        (self.before, self.prefix) = (done.to_owned(), part.to_owned());
        let words = |words: &[&str]| {
            CompletionKind::Words(words.iter().map(|word| ((*word).to_owned(), String::new())).collect())
        };
        let known = read.find(|arg| arg.get_long() == Some(name));
        let known = known.or_else(|| read.tree.get_arguments().find(|arg| arg.get_long() == Some(name)));
        self.kind = match name {
            "cluster" | "clusters" | "without-cluster" => CompletionKind::Clusters,
            "namespace" => CompletionKind::Namespaces,
            "karmada-context" => CompletionKind::Contexts,
            "operation-scope" => words(match read.path.first() {
                Some(&"get" | &"wait" | &"rollout") => &["karmada", "members", "all"],
                _ => &["karmada", "members"],
            }),
            "for" => words(&["create", "delete", "propagated", "condition=", "jsonpath="]),
            "dry-run" => words(&["none", "client", "server"]),
            "cascade" => words(&["background", "foreground", "orphan"]),
            "validate" => words(&["strict", "warn", "ignore"]),
            "type" => words(&["strategic", "merge", "json"]),
            "output" => {
                words(&["json", "yaml", "kyaml", "name", "wide", "jsonpath=", "go-template=", "custom-columns="])
            }
            _ if known.is_some_and(names_file) => CompletionKind::Files,
            _ => CompletionKind::Nothing,
        };
    }
}

fn names_file(arg: &clap::Arg) -> bool {
    let name = arg.get_long().unwrap_or_default();
    matches!(name, "filename" | "kustomize") || name.ends_with("kubeconfig") || name.ends_with("-file")
}

/// The candidates; empty if the server is needed and does not respond.
fn answer(completion: &Completion) -> BoxFuture<'_, Vec<(String, String)>> {
    Box::pin(async move {
        let context = Context {
            kubeconfig: completion.kubeconfig.clone().map(Into::into),
            karmada_context: completion.context.clone(),
            ..Context::default()
        };
        match &completion.kind {
            CompletionKind::Words(words) => words.clone(),
            CompletionKind::Nothing | CompletionKind::Files => Vec::new(),
            CompletionKind::Contexts => contexts(&context).into_iter().map(plain).collect(),
            kind => live(&context, completion, kind).await.unwrap_or_default().into_iter().map(plain).collect(),
        }
    })
}

fn plain(word: String) -> (String, String) {
    (word, String::new())
}

fn contexts(context: &Context) -> Vec<String> {
    context.contexts()
}

async fn live(context: &Context, completion: &Completion, kind: &CompletionKind) -> Option<Vec<String>> {
    let control = context.control_plane().await.ok()?;
    let client = match completion.cluster.as_deref().and_then(|name| name.split(',').next()) {
        Some(cluster) if !matches!(kind, CompletionKind::Clusters) => {
            servers::one(&control, OperationScope::Members, cluster).await.ok()?
        }
        _ => control.clone(),
    };
    match kind {
        CompletionKind::Clusters => names(context, &control, &resources::CLUSTER, None).await,
        CompletionKind::Namespaces => names(context, &client, &resources::NAMESPACE, None).await,
        CompletionKind::Types => {
            let discovery = client.discovery().await.ok()?;
            let listed = discovery.preferred().into_iter().filter(|it| it.can("list"));
            let mut types: Vec<String> = listed.map(|it| type_name(&it.resource)).collect();
            types.sort();
            Some(types)
        }
        CompletionKind::Names(type_) => {
            let discovery = client.discovery().await.ok()?;
            let resource = targets::resolve(type_, &discovery.resources).first()?.resource.clone();
            let namespace = completion.namespace.clone().unwrap_or_else(|| context.namespace());
            names(context, &client, &resource, Some(&namespace)).await
        }
        _ => None,
    }
}

/// As kubectl's, with the group, because groups share names.
fn type_name(resource: &apimachinery::ApiResource) -> String {
    match resource.group.as_str() {
        "" => resource.plural.clone(),
        group => format!("{}.{group}", resource.plural),
    }
}

async fn names(
    context: &Context,
    client: &Client,
    resource: &apimachinery::ApiResource,
    namespace: Option<&str>,
) -> Option<Vec<String>> {
    let options = client::ListOptions { limit: MAX_NAMES, ..Default::default() };
    let path = options.path(resource, namespace.filter(|_| resource.namespaced));
    let list = requests::send(context, client, Method::GET, &path, None).await.ok()?;
    let items = list["items"].as_array()?;
    Some(items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let words = line.split(' ').map(str::to_owned).collect();
        let completion = question_of(&super::super::tree(), words);
        let kind = match completion.kind {
            CompletionKind::Words(words) => {
                let fitting =
                    words.iter().map(|(word, _)| word.as_str()).filter(|it| it.starts_with(&completion.prefix));
                fitting.take(3).collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        };
        let cluster = completion.cluster.map(|name| format!(" of {name}")).unwrap_or_default();
        assert_eq!(format!("{kind} {}|{}{cluster}", completion.before, completion.prefix), expected, "{line}");
    }

    #[test]
    fn the_cursor_is_understood() {
        check("cor", "cordon |cor");
        check("top ", "pod node |");
        check("cordon ", "Clusters |");
        check("rollout ", "status history restart |");
        check("rollout status dep", "Types |dep");
        check("rollout restart deployment/we", "Names(\"deployment\") deployment/|we");
        check("wait --for p", "propagated |p");
        check("wait deployment web -C m1,m", "Clusters m1,|m");
        check("get ", "Types |");
        check("get dep", "Types |dep");
        check("get deployments we", "Names(\"deployments\") |we");
        check("get deploy/we", "Names(\"deploy\") deploy/|we");
        check("get pods -s members -C m1 ", "Names(\"pods\") | of m1");
        check("get pods --operation-scope m", "members |m");
        check("get --operation-scope ", "karmada members all |");
        check("exec --operation-scope ", "karmada members |");
        check("--logtostderr get pods -n shop we", "Names(\"pods\") |we");
        check("get --skip-headers po", "Types |po");
        check("get --lo", " |--lo");
        check("get --clusters m1,m", "Clusters m1,|m");
        check("get --clusters=m1,m", "Clusters --clusters=m1,|m");
        check("get --clusters = m1,m", "Clusters m1,|m");
        check("get -n ", "Namespaces |");
        check("apply -f ", "Files |");
        check("apply --al", "--all --all-clusters --allow-missing-template-keys |--al");
        check("-n shop get pods ", "Names(\"pods\") |");
        check("logs -C m1 we", "Names(\"pods\") |we of m1");
        check("taint clusters ", "Clusters |");
        check("completion z", "zsh |z");
        check("get pods --karmada-context ", "Contexts |");
        check("version ", "Nothing |");
    }
}

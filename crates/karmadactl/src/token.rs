//! `token create|list|delete`: the bootstrap tokens with which clusters register themselves.

use apimachinery::age::human_duration;
use apimachinery::{Object, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use client::{Client, DeleteOptions, ListOptions};
use futures::future::BoxFuture;
use jiff::Timestamp;
use karmada_api::agents;
use pki::bootstrap::{SECRET_NAME_PREFIX, SECRET_NAMESPACE, SECRET_TYPE};
use serde_json::{Value, json};

use crate::answers::text;
use crate::error::Error;
use crate::register::{discovery, duration};
use crate::table::Layout;
use crate::{Context, resources};

const USAGE_PREFIX: &str = "usage-bootstrap-";
const USAGES: [&str; 2] = ["signing", "authentication"];
/// Upstream prints the pattern of an id twice; the second is meant as that of a whole token.
const ID_PATTERN: &str = r"\A([a-z0-9]{6})\z";

#[derive(Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Create a bootstrap token on the control plane.
    Create {
        #[command(flatten)]
        create: Box<CreateArgs>,
    },
    /// List the bootstrap tokens of the control plane.
    List { args: Vec<String> },
    /// Delete bootstrap tokens of the control plane.
    Delete {
        /// Tokens, or their ids
        args: Vec<String>,
        /// Print the tokens to delete without deleting them
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Args)]
struct CreateArgs {
    args: Vec<String>,
    /// Description of the token
    #[arg(long, default_value = "")]
    description: String,
    /// Extra groups of the user that the token authenticates; each must match
    /// system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]
    #[arg(long, value_delimiter = ',', default_value = agents::BOOTSTRAPPERS)]
    groups: Vec<String>,
    /// Print the command that registers a cluster with the token, instead of the token alone
    #[arg(long)]
    print_register_command: bool,
    /// Time until the token is deleted (e.g. 1s, 2m, 3h); 0 never deletes it
    #[arg(long, default_value = "24h0m0s")]
    ttl: String,
    /// Uses of the token. One or both of: (signing, authentication)
    #[arg(long, value_delimiter = ',', default_value = "signing,authentication")]
    usages: Vec<String>,
}

/// The command.
pub fn run<'a>(program: &'static str, context: &'a Context, args: &'a TokenArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let no_arguments = |command: &str, args: &[String]| match args.first() {
            Some(word) => Err(Error::message(format!("unknown command {word:?} for \"{program} token {command}\""))),
            None => Ok(()),
        };
        match &args.action {
            Some(Action::Create { create: args }) => {
                no_arguments("create", &args.args)?;
                create(program, context, args).await
            }
            Some(Action::List { args }) => {
                no_arguments("list", args)?;
                list(context).await
            }
            Some(Action::Delete { args, dry_run }) => delete(context, args, *dry_run).await,
            // The help is printed instead.
            None => Ok(()),
        }
    })
}

async fn create(program: &str, context: &Context, args: &CreateArgs) -> Result<(), Error> {
    check(args)?;
    let ttl = duration("ttl", &args.ttl)?;
    let control = context.control_plane().await?;
    // Before the token exists: a command that cannot be printed leaves no token behind.
    let register = if args.print_register_command { Some(command(program, context, &control).await?) } else { None };
    let token = pki::bootstrap::generate().map_err(|error| Error::message(format!("create a token: {error}")))?;
    let expires = (!ttl.is_zero()).then(|| world::World::system().now().checked_add(ttl)).transpose();
    let expires = expires.map_err(|error| crate::register::invalid("ttl", &args.ttl, &error))?;
    let object = secret(&token, args, expires);
    control.create(&resources::SECRET, &object).await.map_err(Error::client("create the token"))?;
    match register {
        Some(with) => context.print(&format!("{}\n", with.replace("TOKEN", &token))),
        None => context.print(&format!("{token}\n")),
    }
    Ok(())
}

fn check(args: &CreateArgs) -> Result<(), Error> {
    if let Some(usage) = args.usages.iter().find(|usage| !USAGES.contains(&usage.as_str())) {
        return Err(Error::message(format!(
            "invalid bootstrap token usage string: {usage}, valid usage options: {}",
            USAGES.join(",")
        )));
    }
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_group = |group: &str| {
        let Some(rest) = group.strip_prefix("system:bootstrappers:") else { return false };
        rest.len() <= 256
            && rest.bytes().last().is_some_and(is_word)
            && rest.bytes().all(|byte| is_word(byte) || matches!(byte, b':' | b'-'))
    };
    match args.groups.iter().find(|group| !is_group(group)) {
        Some(group) => Err(Error::message(format!(
            r#"bootstrap group "{group}" is invalid (must match \Asystem:bootstrappers:[a-z0-9:-]{{0,255}}[a-z0-9]\z)"#
        ))),
        None => Ok(()),
    }
}

fn secret(token: &str, args: &CreateArgs, expires: Option<Timestamp>) -> Value {
    let (id, secret) = token.split_once('.').unwrap_or_default();
    let mut data = json!({"token-id": id, "token-secret": secret});
    let mut set = |field: String, value: String| {
        if !value.is_empty() {
            data[field] = json!(value);
        }
    };
    args.usages.iter().for_each(|usage| set(format!("{USAGE_PREFIX}{usage}"), "true".into()));
    set("description".into(), args.description.clone());
    set("auth-extra-groups".into(), args.groups.join(","));
    set("expiration".into(), expires.map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default());
    let data = data.as_object().into_iter().flatten();
    let data: serde_json::Map<String, Value> =
        data.map(|(field, value)| (field.clone(), json!(STANDARD.encode(text(value))))).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE, "data": data,
        "metadata": {"namespace": SECRET_NAMESPACE, "name": format!("{SECRET_NAME_PREFIX}{id}")}})
}

/// The command that registers a cluster, with `TOKEN` as placeholder. Its pins are those of the published certificates.
async fn command(program: &str, context: &Context, control: &Client) -> Result<String, Error> {
    let failed = |why: String| Error::message(format!("failed to get register command, err: {why}"));
    let connection = context.opened.control_plane.get().ok_or_else(|| failed("there is no connection".into()))?;
    let server = connection.facts.server();
    let endpoint = server.strip_prefix("https://").unwrap_or(server).trim_end_matches('/');
    let published = control.get(&resources::CONFIG_MAP, &discovery::cluster_info()).await;
    let published = published.map_err(|error| failed(error.to_string()))?;
    let described = discovery::Published::read(&published).and_then(|it| it.described()).map_err(failed)?;
    let pins = described.pins().map_err(failed)?;
    let pins: Vec<String> = pins.iter().map(|pin| format!("--discovery-token-ca-cert-hash {pin}")).collect();
    Ok(format!("{program} register {endpoint} --token TOKEN {}", pins.join(" ")))
}

async fn list(context: &Context) -> Result<(), Error> {
    let control = context.control_plane().await?;
    let options = ListOptions { field_selector: Some(format!("type={SECRET_TYPE}")), ..ListOptions::default() };
    let found = control.list(&resources::SECRET, Some(SECRET_NAMESPACE), &options).await;
    let found = found.map_err(Error::client("list bootstrap tokens"))?;
    let now = world::World::system().now();
    let header = ["TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"].map(str::to_owned).to_vec();
    let mut layout = Layout::fitting(context.columns(), &header);
    let mut lines = vec![header];
    lines.extend(found.items.iter().filter_map(|object| line(object, now)));
    context.print(&layout.render(&lines));
    Ok(())
}

/// `None` for a Secret that holds no token.
fn line(object: &Object, now: Timestamp) -> Option<Vec<String>> {
    let tree = object.to_value().ok()?;
    let get = |field: &str| {
        let bytes = STANDARD.decode(tree["data"][field].as_str().unwrap_or_default()).unwrap_or_default();
        crate::table::printable(&String::from_utf8_lossy(&bytes))
    };
    let (id, secret) = (get("token-id"), get("token-secret"));
    if tree["type"] != SECRET_TYPE || id.is_empty() || secret.is_empty() {
        return None;
    }
    let expires = get("expiration");
    let (ttl, expires) = match (expires.is_empty(), expires.parse::<Timestamp>()) {
        (true, _) => ("<forever>".to_owned(), "<never>".to_owned()),
        (false, Ok(at)) => (short(at.as_second() - now.as_second()), expires),
        (false, Err(_)) => ("<invalid>".to_owned(), expires),
    };
    let mut usages: Vec<&str> =
        USAGES.into_iter().filter(|usage| get(&format!("{USAGE_PREFIX}{usage}")) == "true").collect();
    usages.sort_unstable();
    let or_none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
    let (description, groups) = (or_none(get("description")), or_none(get("auth-extra-groups")));
    Some(vec![format!("{id}.{secret}"), ttl, expires, or_none(usages.join(",")), description, groups])
}

/// The largest unit alone.
fn short(seconds: i64) -> String {
    match seconds {
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        31_536_000.. => format!("{}y", seconds / 31_536_000),
        _ => human_duration(seconds),
    }
}

async fn delete(context: &Context, tokens: &[String], dry_run: bool) -> Result<(), Error> {
    if tokens.is_empty() {
        return Err(Error::message(format!(
            "missing subcommand; 'token delete' is missing token of form \"{}\"",
            ID_PATTERN.replace('\\', "\\\\")
        )));
    }
    let ids = tokens.iter().map(|token| id_of(token)).collect::<Result<Vec<_>, _>>()?;
    let control = context.control_plane().await?;
    for id in ids {
        let key = ObjectKey::namespaced(SECRET_NAMESPACE, format!("{SECRET_NAME_PREFIX}{id}"));
        let dry_run_values = if dry_run { vec!["All"] } else { Vec::new() };
        let options = DeleteOptions { dry_run: dry_run_values, ..DeleteOptions::default() };
        let deleted = control.delete(&resources::SECRET, &key, &options).await;
        deleted.map_err(|error| {
            let why = crate::servers::reason(&error);
            Error::message(format!("failed to delete bootstrap token \"{id}\", err: {why}"))
        })?;
        let suffix = if dry_run { " (server dry run)" } else { "" };
        context.print(&format!("bootstrap token \"{id}\" deleted{suffix}\n"));
    }
    Ok(())
}

fn id_of(token: &str) -> Result<&str, Error> {
    let id = pki::bootstrap::split(token).map_or(token, |(id, _)| id);
    if pki::bootstrap::is_id(id) {
        return Ok(id);
    }
    let pattern = ID_PATTERN.replace('\\', "\\\\");
    Err(Error::message(format!("given token didn't match pattern \"{pattern}\" or \"{pattern}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> CreateArgs {
        CreateArgs {
            args: Vec::new(),
            description: "for m1".into(),
            groups: vec![agents::BOOTSTRAPPERS.into()],
            print_register_command: false,
            ttl: "24h0m0s".into(),
            usages: USAGES.map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn secrets_hold_and_list_tokens() {
        let now: Timestamp = "2026-11-20T23:51:09Z".parse().expect("a time");
        let expires = "2026-11-21T23:51:08Z".parse().ok();
        let group = agents::BOOTSTRAPPERS;
        for (args, expires, expected) in [
            (
                args(),
                expires,
                format!("abcdef.0123456789abcdef 23h 2026-11-21T23:51:08Z authentication,signing for m1 {group}"),
            ),
            (
                CreateArgs { description: String::new(), usages: vec!["signing".into()], ..args() },
                None,
                format!("abcdef.0123456789abcdef <forever> <never> signing <none> {group}"),
            ),
        ] {
            let secret = secret("abcdef.0123456789abcdef", &args, expires);
            assert_eq!(secret["metadata"]["name"], "bootstrap-token-abcdef");
            let object = Object::from_value(&secret).expect("an object");
            assert_eq!(line(&object, now).map(|cells| cells.join(" ")), Some(expected));
        }
        assert_eq!((short(59), short(90_000), short(-7)), ("59s".into(), "1d".into(), "<invalid>".into()));
    }

    #[test]
    fn flags_and_ids_are_checked() {
        let refused = |change: &dyn Fn(&mut CreateArgs)| {
            let mut args = args();
            change(&mut args);
            check(&args).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&|_| ()), None);
        let usage = "invalid bootstrap token usage string: x, valid usage options: signing,authentication";
        assert_eq!(refused(&|it| it.usages = vec!["x".into()]).as_deref(), Some(usage));
        let group = r#"bootstrap group "system:masters" is invalid (must match \Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z)"#;
        assert_eq!(refused(&|it| it.groups = vec!["system:masters".into()]).as_deref(), Some(group));
        assert_eq!(id_of("abcdef").ok(), Some("abcdef"));
        assert_eq!(id_of("abcdef.0123456789abcdef").ok(), Some("abcdef"));
        let pattern = r"\\A([a-z0-9]{6})\\z";
        let expected = format!("given token didn't match pattern \"{pattern}\" or \"{pattern}\"");
        assert_eq!(id_of("abc").err().map(|error| error.to_string()), Some(expected));
    }
}

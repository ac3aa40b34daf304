//! `karmada certs`: the certificates of a data directory, with or without a running server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use pki::directory::{self, Certificate, Role};
use pki::rotation::{Kind, Step};
use serde_json::json;
use world::World;

use super::print;
use crate::data_dir::{DataDir, KEYS};

#[derive(Args)]
pub(super) struct CertsArgs {
    #[command(subcommand)]
    command: CertsCommand,
}

#[derive(Subcommand)]
enum CertsCommand {
    /// Print the certificates with their expiry; exit with 1 if one expires soon
    Check(CheckArgs),
    /// Renew certificates and keys; a running server takes them up
    Renew(RenewArgs),
}

#[derive(Args)]
struct CheckArgs {
    /// The data directory of the server
    #[arg(long, default_value = "karmada-data")]
    data_dir: PathBuf,
    /// The time left below which the exit code is 1, such as 30d or 12h
    #[arg(long, default_value = "30d", value_parser = duration)]
    within: Duration,
    /// The format: json
    #[arg(long, short, value_parser = ["json"])]
    output: Option<String>,
}

#[derive(Args)]
struct RenewArgs {
    /// The certificates and keys to renew besides those that are due
    names: Vec<Name>,
    /// The data directory of the server
    #[arg(long, default_value = "karmada-data")]
    data_dir: PathBuf,
    /// Print what would be renewed; change nothing
    #[arg(long)]
    dry_run: bool,
}

/// The certificates and keys that can be renewed manually.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// The certificates of the server and the administrator
    All,
    Apiserver,
    Admin,
    /// A successor of the authority, which signs after an overlap
    Ca,
    FrontProxyCa,
    /// The key that signs service account tokens; tokens of the present key stay valid
    ServiceAccountKey,
}

impl Name {
    fn steps(self) -> &'static [Step] {
        match self {
            Self::All => &[Step::Server, Step::Admin],
            Self::Apiserver => &[Step::Server],
            Self::Admin => &[Step::Admin],
            Self::Ca => &[Step::Authority(Kind::Clients)],
            Self::FrontProxyCa => &[Step::Authority(Kind::FrontProxy)],
            Self::ServiceAccountKey => &[Step::TokenKey],
        }
    }
}

/// Days, or a duration such as 12h.
fn duration(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    if let Some(days) = days {
        return Ok(Duration::from_secs(u64::from(days) * 24 * 3600));
    }
    let parsed = text.parse::<apimachinery::duration::Duration>().ok().and_then(|parsed| parsed.to_std());
    parsed.ok_or_else(|| format!("{text:?} is not a duration such as 30d or 12h"))
}

pub(super) fn run(args: CertsArgs, world: &World) -> anyhow::Result<()> {
    match args.command {
        CertsCommand::Check(args) => check(&args, world),
        CertsCommand::Renew(args) => renew(&args, world),
    }
}

fn keys(data_dir: &std::path::Path) -> anyhow::Result<PathBuf> {
    if !DataDir::is_used(data_dir) {
        bail!("{} holds no certificates; name the data directory of a server with --data-dir", data_dir.display());
    }
    Ok(data_dir.join(KEYS))
}

fn check(args: &CheckArgs, world: &World) -> anyhow::Result<()> {
    let all = directory::certificates(&keys(&args.data_dir)?, world).context("reading the certificates")?;
    let now = world.now().as_second();
    if args.output.is_some() {
        let items: Vec<_> = all.iter().map(|certificate| item(certificate, now)).collect();
        let document =
            serde_json::to_string_pretty(&json!({ "certificates": items })).context("encoding the answer")?;
        print(&(document + "\n"));
    } else {
        print(&table(&all, now));
    }
    let within = i64::try_from(args.within.as_secs()).unwrap_or(i64::MAX);
    let expiring = all.iter().filter(|it| counts(it.role) && it.validity.not_after.saturating_sub(now) < within);
    let expiring: Vec<&str> = expiring.map(|it| it.name.as_str()).collect();
    match expiring.as_slice() {
        [] => Ok(()),
        names => bail!(
            "{} within {}: start the server, which renews them, or use `karmada certs renew`",
            match names {
                [one] => format!("certificate {one} expires"),
                several => format!("certificates {} expire", several.join(", ")),
            },
            left(within),
        ),
    }
}

/// An authority that has a successor may expire.
fn counts(role: Role) -> bool {
    !matches!(role, Role::Trusted | Role::Retired)
}

fn at(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "unknown".to_owned(), |at| at.strftime("%FT%TZ").to_string())
}

/// `12d`, `5h`, `expired`.
fn left(seconds: i64) -> String {
    match seconds {
        ..0 => "expired".to_owned(),
        0..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn role(role: Role) -> String {
    match role {
        Role::Signs => "signs".to_owned(),
        Role::SignsFrom(from) => format!("trusted, signs from {}", at(from)),
        Role::Trusted => "trusted, has a successor".to_owned(),
        Role::Retired => "retired".to_owned(),
        Role::Issued => "in use".to_owned(),
    }
}

fn item(certificate: &Certificate, now: i64) -> serde_json::Value {
    let validity = certificate.validity;
    json!({
        "name": certificate.name,
        "file": certificate.path,
        "role": role(certificate.role),
        "notBefore": at(validity.not_before),
        "notAfter": at(validity.not_after),
        "secondsLeft": validity.not_after.saturating_sub(now),
    })
}

fn table(all: &[Certificate], now: i64) -> String {
    let head = ["NAME", "EXPIRES", "LEFT", "ROLE"].map(str::to_owned);
    let row = |it: &Certificate| {
        let not_after = it.validity.not_after;
        [it.name.clone(), at(not_after), left(not_after.saturating_sub(now)), role(it.role)]
    };
    let rows: Vec<_> = std::iter::once(head).chain(all.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths = [0, 1, 2].map(width);
    let line = |[name, expires, left, role]: &[String; 4]| {
        let [first, second, third] = widths;
        format!("{name:first$}   {expires:second$}   {left:third$}   {role}\n")
    };
    rows.iter().map(line).collect()
}

fn renew(args: &RenewArgs, world: &World) -> anyhow::Result<()> {
    let directory = keys(&args.data_dir)?;
    let mut requested: Vec<Step> = Vec::new();
    for step in args.names.iter().flat_map(|name| name.steps()) {
        if !requested.contains(step) {
            requested.push(*step);
        }
    }
    let plan = directory::renewal(&directory, &requested, world).context("reading the certificates")?;
    if plan.steps.is_empty() {
        print(&format!("Nothing is due before {}\n", at(plan.due)));
        return Ok(());
    }
    if !args.dry_run {
        directory::renew(&directory, &requested, world).context("renewing the certificates")?;
    }
    for step in &plan.steps {
        print(&format!("{}\n", done(*step, args.dry_run)));
    }
    Ok(())
}

fn done(step: Step, is_dry: bool) -> String {
    let suffix = if is_dry { " (dry run)" } else { "" };
    let what = match step {
        Step::Authority(_) => "a successor was made; it is trusted now and signs after an overlap",
        Step::Server | Step::Admin => "renewed",
        Step::TokenKey => "replaced; tokens of the key before stay valid",
    };
    format!("{}: {what}{suffix}", directory::file_of(step))
}

#[cfg(test)]
mod tests {
    use pki::rotation::Validity;

    use super::*;

    #[test]
    fn certificates_are_listed() {
        let certificate = |name: &str, days: i64, role: Role| Certificate {
            name: name.into(),
            path: format!("pki/{name}.pem").into(),
            validity: Validity { not_before: 0, not_after: days * 86_400 },
            role,
        };
        let all = [
            certificate("ca", 3650, Role::Trusted),
            certificate("ca-2", 7000, Role::SignsFrom(86_400)),
            certificate("apiserver", 1, Role::Issued),
            certificate("admin", -1, Role::Issued),
        ];
        expect_test::expect![[r#"
            NAME        EXPIRES                LEFT      ROLE
            ca          1979-12-30T00:00:00Z   3650d     trusted, has a successor
            ca-2        1989-03-02T00:00:00Z   7000d     trusted, signs from 1970-01-02T00:00:00Z
            apiserver   1970-01-02T00:00:00Z   24h       in use
            admin       1969-12-31T00:00:00Z   expired   in use
        "#]]
        .assert_eq(&table(&all, 0));
        assert!(all.iter().map(|it| counts(it.role)).eq([false, true, true, true]));
    }

    #[test]
    fn durations() {
        for (text, seconds) in
            [("30d", Some(2_592_000)), ("0d", Some(0)), ("12h", Some(43_200)), ("d", None), ("x", None)]
        {
            assert_eq!(duration(text).ok().map(|it| it.as_secs()), seconds, "{text}");
        }
    }
}

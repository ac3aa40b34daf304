//! `doctor`: problems of a control plane and its members, and the next steps. Reading, deciding and printing are
//! separate.

mod facts;
mod failures;
mod findings;
mod grants;
mod read;

use std::fmt::Write as _;

use clap::Args;
use futures::future::BoxFuture;
use serde_json::json;

use crate::Context;
use crate::error::Error;
use crate::objects::flags;
use crate::resume::Form;
use crate::table::printable;
use facts::Counts;
use findings::{Finding, Severity, findings};

#[derive(Args)]
pub struct DoctorArgs {
    args: Vec<String>,
    /// Output format: json or yaml; text when absent.
    #[arg(short, long)]
    output: Option<String>,
    /// Time that each server has to answer.
    #[arg(long, default_value = "5s")]
    timeout: String,
}

/// Ends with 1 if a finding is an error.
pub fn run<'a>(context: &'a Context, program: &'a str, args: &'a DoctorArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        if let Some(word) = args.args.first() {
            return Err(Error::arguments(format!("too many arguments: {word:?}")));
        }
        let form = Form::parse(args.output.as_deref())?;
        let patience = flags::duration("--timeout", &args.timeout)?;
        let control = context.control_plane().await?;
        // A control plane that does not answer at all is diagnosed as by any command.
        control.document("/version", "application/json").await.map_err(Error::client("read the version"))?;
        let ends = context.opened.control_plane.get().and_then(|connection| connection.facts.certificate_ends());
        let facts = read::facts(&control, ends, patience).await;
        let found = findings(&facts, program);
        match form {
            Form::Text => context.print(&text(&found, facts.counts)),
            _ => context.print(&form.encode(&json!({"findings": found, "checked": facts.counts}))?),
        }
        if found.iter().any(|it| it.severity == Severity::Error) { Err(Error::Silent) } else { Ok(()) }
    })
}

fn text(found: &[Finding], counts: Counts) -> String {
    let mut out = String::new();
    for it in found {
        let _ = writeln!(out, "{}: {}: {}", it.severity.as_str(), printable(&it.object), printable(&it.problem));
        let _ = writeln!(out, "  evidence: {}", printable(&it.evidence));
        let _ = writeln!(out, "  next:     {}\n", printable(&it.next));
    }
    let count = |severity: Severity| found.iter().filter(|it| it.severity == severity).count();
    let Counts { members, bindings, works } = counts;
    let _ = match found.is_empty() {
        true => write!(out, "Nothing is wrong"),
        false => write!(out, "Errors: {}, warnings: {}", count(Severity::Error), count(Severity::Warning)),
    };
    let _ = writeln!(out, ". Checked: the control plane, {members} members, {bindings} bindings, {works} works");
    out
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn findings_are_blocks_with_a_sum_at_the_end() {
        let finding = Finding {
            severity: Severity::Error,
            object: "cluster m1".into(),
            problem: "it is not ready".into(),
            evidence: "no answer\nat all".into(),
            next: "karmadactl describe cluster m1".into(),
        };
        let counts = Counts { members: 2, bindings: 3, works: 6 };
        expect![[r#"
            error: cluster m1: it is not ready
              evidence: no answer...
              next:     karmadactl describe cluster m1

            Errors: 1, warnings: 0. Checked: the control plane, 2 members, 3 bindings, 6 works
        "#]]
        .assert_eq(&text(&[finding], counts));
        expect![[r#"
            Nothing is wrong. Checked: the control plane, 2 members, 3 bindings, 6 works
        "#]]
        .assert_eq(&text(&[], counts));
    }
}

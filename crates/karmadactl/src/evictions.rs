//! Whether NoExecute taints evict workloads, which the flags of the controllers decide.
//!
//! Only a control plane in one process answers: `/flagz` lists the flags of the process that serves it. Another API
//! server, and a user without the right to read the path, leave it unknown.

use client::Client;

/// Why NoExecute taints evict nothing; `None` if they do, or if that is unknown.
pub async fn off(client: &Client) -> Option<String> {
    // As JSON, the page has another form.
    let page = client.document("/flagz", "text/plain").await.ok()?;
    reason(&String::from_utf8_lossy(&page))
}

fn reason(page: &str) -> Option<String> {
    let flag = |name: &str| page.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
    // kube-apiserver has no such flag.
    let evicts = flag("enable-no-execute-taint-eviction")?;
    let gates = flag("feature-gates").unwrap_or_default();
    let gate = |name: &str| {
        gates.split(',').rev().find_map(|gate| gate.trim().strip_prefix(name)?.strip_prefix('=')).map(|it| it == "true")
    };
    let is_open = gate("Failover").or_else(|| gate("AllBeta")).unwrap_or(false);
    let mut missing = Vec::new();
    if !is_open {
        missing.push("--feature-gates=Failover=true");
    }
    if flag("enable-taint-manager") == Some("false") {
        missing.push("--enable-taint-manager=true");
    }
    if evicts != "true" {
        missing.push("--enable-no-execute-taint-eviction=true");
    }
    (!missing.is_empty()).then(|| format!("the control plane runs without {}", missing.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flags_are_needed() {
        let page = |gates: &str, evicts: &str, manager: &str| {
            format!(
                "karmada-apiserver flagz\n\nenable-no-execute-taint-eviction={evicts}\nenable-taint-manager={manager}\n{gates}\n"
            )
        };
        let all = "the control plane runs without --feature-gates=Failover=true --enable-taint-manager=true \
                   --enable-no-execute-taint-eviction=true";
        for (page, expected) in [
            (page("", "false", "false"), Some(all)),
            (page("feature-gates=A=true,Failover=true", "true", "true"), None),
            (page("feature-gates=AllBeta=true", "true", "true"), None),
            (
                page("feature-gates=AllBeta=true,Failover=false", "true", "true"),
                Some("the control plane runs without --feature-gates=Failover=true"),
            ),
            (
                page("feature-gates=Failover=true", "false", "true"),
                Some("the control plane runs without --enable-no-execute-taint-eviction=true"),
            ),
            ("kube-apiserver flagz\n\nfeature-gates=\n".to_owned(), None),
        ] {
            assert_eq!(reason(&page).as_deref(), expected, "{page}");
        }
    }
}

//! The writes to the control plane's API server, and the syncs of its store, from `/metrics`.

use std::collections::BTreeMap;

use anyhow::Context as _;
use client::Client;
use http::Method;

use crate::figures::line;

/// Counts at one moment.
pub(super) struct Counts {
    /// Successful writes by verb and resource.
    writes: BTreeMap<String, f64>,
    refused: f64,
    syncs: Option<f64>,
}

impl Counts {
    /// # Errors
    /// When the server does not respond.
    pub async fn now(client: &Client) -> anyhow::Result<Self> {
        let bytes = client.request(Method::GET, "/metrics", None).await.context("reading /metrics")?;
        Ok(Self::read(&String::from_utf8_lossy(&bytes)))
    }

    fn read(text: &str) -> Self {
        let mut counts = Self { writes: BTreeMap::new(), refused: 0.0, syncs: None };
        for line in text.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            if series == "karmada_store_syncs_total" {
                counts.syncs = Some(value);
            } else if let Some(labels) = series.strip_prefix("apiserver_request_total{") {
                counts.add(labels, value);
            }
        }
        counts
    }

    fn add(&mut self, labels: &str, value: f64) {
        let label = |name: &str| {
            let start = labels.find(&format!("{name}=\""))? + name.len() + 2;
            labels[start..].split('"').next()
        };
        let (verb, code) = (label("verb").unwrap_or_default(), label("code").unwrap_or_default());
        if !matches!(verb, "POST" | "PUT" | "PATCH" | "DELETE") {
            return;
        }
        if !code.starts_with('2') {
            self.refused += value;
            return;
        }
        let (resource, part) = (label("resource").unwrap_or_default(), label("subresource").unwrap_or_default());
        let slash = if part.is_empty() { "" } else { "/" };
        *self.writes.entry(format!("{verb} {resource}{slash}{part}")).or_default() += value;
    }

    /// The increase since then, for each of `templates`.
    pub fn report(&self, phase: &str, now: &Self, templates: usize) {
        let each = |count: f64| count / templates.max(1) as f64;
        let mut all = 0.0;
        for (what, count) in &now.writes {
            let more = count - self.writes.get(what).copied().unwrap_or_default();
            if each(more) < 0.005 {
                continue;
            }
            line(&format!("{phase}: writes a template, {what}"), format!("{:.2}", each(more)));
            if !what.contains(" events") {
                all += more;
            }
        }
        line(&format!("{phase}: writes a template, all but events"), format!("{:.2}", each(all)));
        line(&format!("{phase}: writes a template, refused"), format!("{:.3}", each(now.refused - self.refused)));
        if let (Some(before), Some(now)) = (self.syncs, now.syncs) {
            line(&format!("{phase}: syncs a template"), format!("{:.3}", each(now - before)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_resource() {
        let text = concat!(
            "# HELP apiserver_request_total x\n",
            "apiserver_request_total{verb=\"PATCH\",group=\"apps\",resource=\"deployments\",subresource=\"status\",code=\"200\"} 3\n",
            "apiserver_request_total{verb=\"PATCH\",group=\"\",resource=\"deployments\",subresource=\"status\",code=\"200\"} 4\n",
            "apiserver_request_total{verb=\"POST\",resource=\"works\",subresource=\"\",code=\"409\"} 2\n",
            "apiserver_request_total{verb=\"GET\",resource=\"works\",subresource=\"\",code=\"200\"} 9\n",
            "karmada_store_syncs_total 7\n",
        );
        let counts = Counts::read(text);
        assert_eq!(counts.writes, BTreeMap::from([("PATCH deployments/status".to_owned(), 7.0)]));
        assert_eq!((counts.refused, counts.syncs), (2.0, Some(7.0)));
    }
}

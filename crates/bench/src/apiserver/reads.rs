//! Lists in all their forms.

use tokio::time::Instant;

use super::config_maps;
use super::connection::Call;
use super::load::Load;
use super::writes::{DEPLOYMENTS, MAIN};
use crate::figures::line;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub async fn run(load: &Load) -> anyhow::Result<()> {
    let maps = config_maps(MAIN);
    let all = || Call::get(maps.clone());
    let cached = || Call::get(format!("{maps}?resourceVersion=0"));
    let page = || Call::get(format!("{maps}?limit=500"));
    let gzip = || Call { gzip: true, ..all() };
    let accepting = |accept| Call { accept, ..all() };
    let bytes = load.connection.count(all()).await?;
    line("a list of all ConfigMaps (KiB)", bytes / 1024);
    let whole = load.meter().await?;
    load.phase("list 3,000 ConfigMaps", 20, 1, |_| all()).await?;
    load.phase("list 3,000 ConfigMaps, C=4", 20, 4, |_| all()).await?;
    load.phase("list, rv=0", 20, 1, |_| cached()).await?;
    load.phase("list, a page of 500", 80, 1, |_| page()).await?;
    load.phase("list, gzip", 20, 1, |_| gzip()).await?;
    load.phase("list as Table", 20, 1, |_| accepting(TABLE)).await?;
    load.phase("list metadata", 20, 1, |_| accepting(METADATA)).await?;
    load.phase("list as protobuf", 20, 1, |_| accepting(PROTOBUF)).await?;
    load.report("list, all forms", 220, Vec::new(), whole).await?;
    load.phase("list 1,500 Deployments", 10, 1, |_| Call::get(DEPLOYMENTS)).await?;
    pages(load, &maps).await
}

/// Follows the continue tokens to the end.
async fn pages(load: &Load, maps: &str) -> anyhow::Result<()> {
    let meter = load.meter().await?;
    let (mut samples, mut token) = (Vec::new(), String::new());
    loop {
        let begun = Instant::now();
        let page = load.connection.call(Call::get(format!("{maps}?limit=500&continue={token}"))).await?;
        samples.push(begun.elapsed());
        match continue_token(&page) {
            Some(next) => token = next,
            None => break,
        }
    }
    load.report("list by pages of 500, each", samples.len(), samples, meter).await
}

/// The continue token in the list's metadata, which precedes the items.
fn continue_token(page: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&page[..page.len().min(2048)]);
    let (_, rest) = head.split_once(r#""continue":""#)?;
    let (token, _) = rest.split_once('"')?;
    (!token.is_empty()).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_continue_token_is_found() {
        let page =
            br#"{"kind":"L","metadata":{"resourceVersion":"1","continue":"abc","remainingItemCount":2},"items":[]}"#;
        assert_eq!(super::continue_token(page).as_deref(), Some("abc"));
        assert_eq!(super::continue_token(br#"{"metadata":{"continue":""}}"#), None);
        assert_eq!(super::continue_token(b"{}"), None);
    }
}

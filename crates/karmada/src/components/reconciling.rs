//! `karmada controller-manager`.

use std::sync::Arc;

use anyhow::Context as _;
use controllers::{CONTROLLERS, Context, Controller, Settings};

use super::{Begun, run};
use crate::flags::Given;

/// Keys of upstream's `--controllers` whose controllers do not exist here, or are parts of others.
const ELSEWHERE: &[&str] = &[
    "cronFederatedHorizontalPodAutoscaler",
    "endpointSlice",
    "endpointsliceCollect",
    "endpointsliceDispatch",
    "federatedHorizontalPodAutoscaler",
    "multiclusterservice",
    "serviceExport",
    "serviceImport",
];

/// The controllers of `here` that `--controllers` selects. As upstream, unknown names are ignored; a name of a controller
/// that exists only `elsewhere` is an error unless it is excluded.
pub(super) fn selection(
    given: &[&str],
    elsewhere: &[&str],
    here: impl Fn(&Controller) -> bool,
) -> anyhow::Result<Vec<String>> {
    let is_here = |name: &str| CONTROLLERS.iter().any(|controller| controller.name == name && here(controller));
    let missing = given.iter().find(|word| elsewhere.contains(*word) && !is_here(word));
    if let Some(missing) = missing {
        anyhow::bail!("--controllers: {missing} is a controller of upstream's that is not part of this version");
    }
    let known = |word: &&&str| **word == "*" || is_here(word.trim_start_matches('-'));
    Ok(given.iter().filter(known).map(|word| (*word).to_owned()).collect())
}

pub async fn controller_manager(given: &Given<'_>, settings: Settings) -> anyhow::Result<()> {
    let selection = selection(&given.list("controllers"), ELSEWHERE, |_| true)?;
    run("karmada-controller-manager", given, Some("karmada-controller-manager"), async move |around| {
        let settings = Settings { metrics: around.registry.clone(), ..settings };
        // This process runs no members.
        let connector: controllers::Connector = Arc::new(|_| None);
        let context =
            Context::new(around.client.clone(), around.world.clone(), connector, settings, around.stop.clone());
        let tasks = controllers::start(&context, &selection).context("--controllers")?;
        anyhow::ensure!(context.synced().await, "the controllers ended before they knew what there is");
        let names: Vec<&str> = CONTROLLERS.iter().map(|controller| controller.name).collect();
        let ready = format!("The controllers are ready ({} of {})", tasks.len(), names.join(", "));
        Ok(Begun { ready, tasks })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_upstream() {
        for (given, expected) in [
            (vec!["*"], Ok(vec!["*"])),
            (vec!["*", "-binding", "-multiclusterservice", "nothing"], Ok(vec!["*", "-binding"])),
            (vec!["*", "hpaScaleTargetMarker"], Ok(vec!["*", "hpaScaleTargetMarker"])),
            (vec!["cluster", "execution"], Ok(vec!["cluster", "execution"])),
            (
                vec!["*", "multiclusterservice"],
                Err(
                    "--controllers: multiclusterservice is a controller of upstream's that is not part of this version",
                ),
            ),
        ] {
            let found = selection(&given, ELSEWHERE, |_| true).map_err(|error| error.to_string());
            let found: Result<Vec<&str>, &str> =
                found.as_ref().map(|words| words.iter().map(String::as_str).collect()).map_err(String::as_str);
            assert_eq!(found, expected);
        }
    }
}

//! `karmada controller-manager`.

use std::sync::Arc;

use anyhow::Context as _;
use controllers::{CONTROLLERS, Context, Controller, Settings};

use super::{StartedComponent, run};
use crate::flags::FlagValues;

/// Excludes every controller.
const NONE: &str = "-*";

/// The controllers of `here` that `--controllers` selects. As upstream, unknown names are ignored, and a list without a
/// known name selects no controller.
pub(super) fn selection(requested: &[&str], here: impl Fn(&Controller) -> bool) -> Vec<String> {
    let is_here = |name: &str| CONTROLLERS.iter().any(|controller| controller.name == name && here(controller));
    let is_known = |word: &str| word == "*" || is_here(word.trim_start_matches('-'));
    let (known, unknown): (Vec<&str>, Vec<&str>) = requested.iter().partition(|word| is_known(word));
    if !unknown.is_empty() {
        tracing::warn!(names = unknown.join(", "), "--controllers has names that this component does not run; ignored");
    }
    match known.as_slice() {
        [] => vec![NONE.to_owned()],
        known => known.iter().map(|word| (*word).to_owned()).collect(),
    }
}

/// The management cluster of `--cluster-api-kubeconfig`.
///
/// # Errors
/// A context without a kubeconfig.
pub fn cluster_api(flags: &FlagValues<'_>) -> anyhow::Result<Option<crate::cluster_api::Settings>> {
    crate::cluster_api::Settings::of(flags.text("cluster-api-kubeconfig"), flags.text("cluster-api-context"))
}

pub async fn controller_manager(flags: &FlagValues<'_>, settings: Settings) -> anyhow::Result<()> {
    let selection = selection(&flags.list("controllers"), |_| true);
    let discovered = cluster_api(flags)?;
    run("karmada-controller-manager", flags, Some("karmada-controller-manager"), async move |around| {
        let settings = Settings { metrics: around.registry.clone(), fence: around.fence.clone(), ..settings };
        // This process runs no members.
        let connector: controllers::Connector = Arc::new(|_| None);
        let context =
            Context::new(around.client.clone(), around.world.clone(), connector, settings, around.stop.clone());
        let mut tasks = controllers::start(&context, &selection).context("--controllers")?;
        let started = tasks.len();
        let (informers, stop) = (context.informers().clone(), around.stop.clone());
        tasks.extend(discovered.map(|it| crate::cluster_api::start(it, informers, stop)));
        anyhow::ensure!(context.synced().await, "the controllers ended before they knew what there is");
        let names: Vec<&str> = CONTROLLERS.iter().map(|controller| controller.name).collect();
        let ready = format!("The controllers are ready ({started} of {})", names.join(", "));
        Ok(StartedComponent { ready, tasks })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_selected_by_upstreams_names() {
        for (requested, expected) in [
            (vec!["*"], vec!["*"]),
            (vec!["*", "-binding", "-multiclusterservice", "nothing"], vec!["*", "-binding", "-multiclusterservice"]),
            (vec!["*", "hpaScaleTargetMarker"], vec!["*", "hpaScaleTargetMarker"]),
            (vec!["cluster", "execution"], vec!["cluster", "execution"]),
            (vec!["nothing"], vec!["-*"]),
            (vec![], vec!["-*"]),
        ] {
            assert_eq!(selection(&requested, |_| true), expected);
        }
        let upstream =
            "endpointSlice endpointsliceCollect endpointsliceDispatch multiclusterservice serviceExport serviceImport";
        let names: Vec<&str> = upstream.split(' ').collect();
        assert_eq!(selection(&names, |_| true), names);
    }
}

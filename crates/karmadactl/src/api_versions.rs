//! `api-versions`: the group versions that the control plane or a member serves.

use std::collections::BTreeSet;

use clap::Args;
use futures::future::BoxFuture;

use crate::error::Error;
use crate::{Context, objects, servers};

#[derive(Args)]
pub struct ApiVersionsArgs {
    /// Operate on the control plane (karmada) or on a member cluster (members).
    #[arg(short = 's', long, env = "KARMADACTL_OPERATION_SCOPE", default_value = "karmada")]
    operation_scope: String,
    /// Name of the member cluster, with the scope members.
    #[arg(long, default_value = "")]
    cluster: String,
}

pub fn run<'a>(context: &'a Context, args: &'a ApiVersionsArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let scope = crate::scope::parse(&args.operation_scope)?;
        let control = context.control_plane().await?;
        let client = servers::chosen(context, &control, scope, &args.cluster).await?;
        let discovery = objects::discovery(&client).await?;
        let served = discovery.resources.iter().map(|known| known.resource.api_version());
        let failed = discovery.failed.iter().map(ToString::to_string);
        let versions: BTreeSet<String> = served.chain(failed).collect();
        versions.iter().for_each(|version| context.print(&format!("{version}\n")));
        Ok(())
    })
}

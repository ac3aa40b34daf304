//! `create deployment|job|cronjob`

use apimachinery::ApiResource;
use clap::Args;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use world::World;

use super::kinds::{Common, Draft, required};
use crate::error::Error;
use crate::objects::flags::Files;
use crate::objects::{self, ObjectSelection};
use crate::{Context, resources};

#[derive(Args)]
pub struct DeploymentArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Image names to run; each becomes a container.
    #[arg(long, value_delimiter = ',')]
    image: Vec<String>,
    /// Port that the first container exposes.
    #[arg(long, default_value_t = -1)]
    port: i32,
    /// Number of replicas.
    #[arg(short = 'r', long, default_value_t = 1)]
    replicas: i32,
    /// Command of the container
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Args)]
pub struct JobArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Resource from which the job is created; only cron jobs are supported.
    #[arg(long, default_value = "")]
    from: String,
    /// Image name to run.
    #[arg(long, default_value = "")]
    image: String,
    /// Command of the container
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Args)]
pub struct CronJobArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Image name to run.
    #[arg(long, default_value = "")]
    image: String,
    /// Restart policy of the pods, OnFailure or Never; OnFailure when empty.
    #[arg(long, default_value = "")]
    restart: String,
    /// Schedule in the cron format.
    #[arg(long, default_value = "")]
    schedule: String,
    /// Command of the container
    #[arg(last = true)]
    command: Vec<String>,
}

fn container(name: &str, image: &str, command: &[String]) -> Value {
    let mut container = json!({"image": image, "name": name, "resources": {}});
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    container
}

/// The last part of an image's name, made a container's name.
fn container_name(image: &str, world: &World) -> String {
    let last = image.rsplit('/').next().unwrap_or_default();
    let name = last.split([':', '@']).next().unwrap_or_default();
    if !name.contains(['_', '.']) {
        return name.to_owned();
    }
    format!("{}-{}", name.replace(['_', '.'], "-"), world.random_suffix(5))
}

impl DeploymentArgs {
    pub(super) fn draft(&self, name: &str, world: &World) -> Result<Draft, Error> {
        required(&[("image", !self.image.is_empty())])?;
        if self.image.len() > 1 && !self.command.is_empty() {
            return Err(Error::message("cannot specify multiple --image options and command"));
        }
        let mut containers: Vec<Value> = self
            .image
            .iter()
            .filter(|image| !image.is_empty())
            .map(|image| container(&container_name(image, world), image, &self.command))
            .collect();
        if let Some(first) = containers.first_mut().filter(|_| self.port >= 0) {
            first["ports"] = json!([{"containerPort": self.port}]);
        }
        let labels = json!({"app": name});
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"labels": labels, "name": name},
            "spec": {
                "replicas": self.replicas, "selector": {"matchLabels": labels}, "strategy": {},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
            "status": {},
        });
        Ok(Draft::new(resources::DEPLOYMENT.clone(), "failed to create deployment: ", object))
    }
}

impl JobArgs {
    pub(super) fn draft<'a>(&'a self, context: &'a Context, name: &'a str) -> BoxFuture<'a, Result<Draft, Error>> {
        Box::pin(async move {
            if self.image.is_empty() == self.from.is_empty() {
                return Err(Error::message("either --image or --from must be specified"));
            }
            if !self.command.is_empty() && !self.from.is_empty() {
                return Err(Error::message("cannot specify --from and command"));
            }
            let object = if self.from.is_empty() {
                let containers = [container(name, &self.image, &self.command)];
                let template = json!({"metadata": {}, "spec": {"containers": containers, "restartPolicy": "Never"}});
                json!({
                    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
                    "spec": {"template": template}, "status": {},
                })
            } else {
                of_cron_job(name, &self.cron_job(context).await?)
            };
            let resource = ApiResource::namespaced("batch", "v1", "Job", "jobs");
            Ok(Draft::new(resource, "failed to create job: ", object))
        })
    }

    /// The cron job of `--from`.
    fn cron_job<'a>(&'a self, context: &'a Context) -> BoxFuture<'a, Result<Value, Error>> {
        Box::pin(async move {
            let client = context.control_plane().await?;
            let (files, args) = (Files::default(), [self.from.clone()]);
            let named = ObjectSelection::files(&files, self.common.creation.namespace.as_deref(), None);
            let found = objects::find(context, &client, ObjectSelection { args: &args, ..named }).await?.all()?;
            let [item] = found.as_slice() else {
                return Err(Error::message("from must be an existing cronjob"));
            };
            let resource = &item.resource;
            let object = item.live(context, &client).await.map_err(Error::client("get"))?;
            if (resource.group.as_str(), resource.kind.as_str()) == ("batch", "CronJob") {
                return Ok(object);
            }
            Err(Error::message(format!("--from {}: it is a {}, not a CronJob", self.from, resource.kind)))
        })
    }
}

/// The job that a cron job would create, marked as made by hand.
fn of_cron_job(name: &str, cron_job: &Value) -> Value {
    let template = &cron_job["spec"]["jobTemplate"];
    let mut annotations = Map::from_iter([("cronjob.kubernetes.io/instantiate".to_owned(), json!("manual"))]);
    annotations.extend(template["metadata"]["annotations"].as_object().cloned().unwrap_or_default());
    let owner = json!({
        "apiVersion": "batch/v1", "controller": true, "kind": "CronJob",
        "name": cron_job["metadata"]["name"], "uid": cron_job["metadata"]["uid"],
    });
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"annotations": annotations, "name": name, "ownerReferences": [owner]},
        "spec": template["spec"], "status": {},
    });
    if template["metadata"]["labels"].is_object() {
        job["metadata"]["labels"] = template["metadata"]["labels"].clone();
    }
    job
}

impl CronJobArgs {
    pub(super) fn draft(&self, name: &str) -> Result<Draft, Error> {
        required(&[("image", !self.image.is_empty()), ("schedule", !self.schedule.is_empty())])?;
        let restart = if self.restart.is_empty() { "OnFailure" } else { &self.restart };
        let pod = json!({"containers": [container(name, &self.image, &self.command)], "restartPolicy": restart});
        let object = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
            "spec": {
                "jobTemplate": {"metadata": {"name": name}, "spec": {"template": {"metadata": {}, "spec": pod}}},
                "schedule": self.schedule,
            },
            "status": {},
        });
        let resource = ApiResource::namespaced("batch", "v1", "CronJob", "cronjobs");
        Ok(Draft::new(resource, "failed to create cronjob: ", object))
    }
}

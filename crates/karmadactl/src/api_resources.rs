//! `api-resources`: the resources that the control plane or a member serves.

use clap::Args;
use client::DiscoveredResource;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::PrettyFormatter;

use crate::Context;
use crate::error::{Error, no_printer};
use crate::get::kyaml;
use crate::scope::OperationScope;
use crate::servers;
use crate::table::Layout;

#[derive(Args)]
pub struct ApiResourcesArgs {
    /// Operate on the control plane (karmada) or on a member cluster (members).
    #[arg(short = 's', long, env = "KARMADACTL_OPERATION_SCOPE", default_value = "karmada")]
    operation_scope: String,
    /// Name of the member cluster, with the scope members.
    #[arg(long, default_value = "")]
    cluster: String,
    /// Output format. One of: (json, yaml, kyaml, name, wide).
    #[arg(short = 'o', long, default_value = "")]
    output: String,
    /// Don't print headers.
    #[arg(long)]
    no_headers: bool,
    /// Limit to namespaced resources, or with =false to those that are not.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    namespaced: Option<bool>,
    /// Limit to resources of this API group; an empty one is the core group.
    #[arg(long)]
    api_group: Option<String>,
    /// Limit to resources that support all of these verbs.
    #[arg(long, value_delimiter = ',')]
    verbs: Vec<String>,
    /// Accepted for kubectl's sake: this program keeps no cache.
    #[arg(long)]
    cached: bool,
    /// Accepted for kubectl's sake: no object is printed.
    #[arg(long)]
    show_managed_fields: bool,
    /// Limit to resources that belong to all of these categories.
    #[arg(long, value_delimiter = ',')]
    categories: Vec<String>,
    /// Sort by this field. One of: (name, kind); by group and name when empty.
    #[arg(long, default_value = "")]
    sort_by: String,
}

impl ApiResourcesArgs {
    pub fn options(self) -> Result<Options, Error> {
        let Self { namespaced, api_group, verbs, categories, .. } = self;
        Ok(Options {
            scope: crate::scope::parse(&self.operation_scope)?,
            cluster: self.cluster,
            output: Output::parse(&self.output)?,
            no_headers: self.no_headers,
            selection: Selection { namespaced, group: api_group, verbs, categories },
            sort_by: SortBy::parse(&self.sort_by)?,
        })
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    scope: OperationScope,
    cluster: String,
    output: Output,
    no_headers: bool,
    selection: Selection,
    sort_by: SortBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Table,
    Wide,
    Name,
    Json,
    Yaml,
    Kyaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    /// By group, then by name.
    Group,
    Name,
    Kind,
}

impl Output {
    fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "name" => Ok(Self::Name),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "kyaml" => Ok(Self::Kyaml),
            other => Err(Error::message(no_printer(other, "json,kyaml,name,wide,yaml"))),
        }
    }
}

impl SortBy {
    fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "" => Ok(Self::Group),
            "name" => Ok(Self::Name),
            "kind" => Ok(Self::Kind),
            _ => Err(Error::message("--sort-by accepts only name or kind")),
        }
    }
}

/// The filter of the printed resources; all set conditions must match.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub namespaced: Option<bool>,
    pub group: Option<String>,
    pub verbs: Vec<String>,
    pub categories: Vec<String>,
}

impl Selection {
    fn takes(&self, found: &DiscoveredResource) -> bool {
        self.namespaced.is_none_or(|namespaced| namespaced == found.resource.namespaced)
            && self.group.as_ref().is_none_or(|group| *group == found.resource.group)
            && self.verbs.iter().all(|verb| found.can(verb))
            && self.categories.iter().all(|category| found.categories.contains(category))
    }
}

pub async fn run(context: &Context, options: &Options) -> Result<(), Error> {
    let control = context.control_plane().await?;
    let client = servers::chosen(context, &control, options.scope, &options.cluster).await?;
    let discovery = client.discovery().await.map_err(Error::client("read what the server serves"))?;
    context.print(&render(discovery.preferred(), options));
    if discovery.failed.is_empty() {
        return Ok(());
    }
    let failed: Vec<String> = discovery.failed.iter().map(ToString::to_string).collect();
    Err(Error::message(format!("unable to retrieve the complete list of server APIs: {}", failed.join(", "))))
}

fn render(resources: Vec<&DiscoveredResource>, options: &Options) -> String {
    let taken = |found: &&DiscoveredResource| !found.verbs.is_empty() && options.selection.takes(found);
    let mut resources: Vec<_> = resources.into_iter().filter(taken).collect();
    resources.sort_by(|a, b| {
        let (a, b) = (&a.resource, &b.resource);
        match options.sort_by {
            SortBy::Group => (&a.group, &a.plural).cmp(&(&b.group, &b.plural)),
            SortBy::Name => a.plural.cmp(&b.plural),
            SortBy::Kind => a.kind.cmp(&b.kind),
        }
    });
    let wide = match options.output {
        Output::Name => {
            return resources.iter().map(|found| format!("{}\n", found.resource.gvr().group_resource())).collect();
        }
        Output::Json => return List::of(&resources).to_json(),
        Output::Yaml => return apimachinery::yaml::to_string(&List::of(&resources).to_value()),
        Output::Kyaml => return kyaml::to_string(&List::of(&resources).to_value()),
        output => output == Output::Wide,
    };
    let mut headings = vec!["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"];
    headings.extend(wide.then_some(["VERBS", "CATEGORIES"]).into_iter().flatten());
    let mut lines = Vec::new();
    lines.extend((!options.no_headers).then(|| headings.into_iter().map(str::to_owned).collect::<Vec<_>>()));
    lines.extend(resources.into_iter().map(|found| line(found, wide)));
    Layout::default().render(&lines)
}

/// `meta/v1.APIResourceList` with the fields in kubectl's order. The resources name their groups and versions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: &'static str,
    api_version: &'static str,
    group_version: &'static str,
    /// Null without resources.
    resources: Option<Vec<Entry<'a>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    name: &'a str,
    singular_name: &'a str,
    namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    verbs: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'a [String],
}

impl<'a> List<'a> {
    fn of(resources: &[&'a DiscoveredResource]) -> Self {
        let entry = |found: &&'a DiscoveredResource| Entry {
            name: &found.resource.plural,
            singular_name: &found.singular,
            namespaced: found.resource.namespaced,
            group: &found.resource.group,
            version: &found.resource.version,
            kind: &found.resource.kind,
            verbs: &found.verbs,
            short_names: &found.short_names,
            categories: &found.categories,
        };
        let resources = Some(resources.iter().map(entry).collect::<Vec<_>>()).filter(|list| !list.is_empty());
        Self { kind: "APIResourceList", api_version: "v1", group_version: "", resources }
    }

    fn to_json(&self) -> String {
        let mut json = Vec::new();
        let format = PrettyFormatter::with_indent(b"    ");
        self.serialize(&mut serde_json::Serializer::with_formatter(&mut json, format)).expect("texts and flags");
        json.push(b'\n');
        String::from_utf8(json).expect("JSON is UTF-8")
    }

    fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("texts and flags")
    }
}

fn line(found: &DiscoveredResource, wide: bool) -> Vec<String> {
    let resource = &found.resource;
    let mut line = vec![
        resource.plural.clone(),
        found.short_names.join(","),
        resource.api_version(),
        resource.namespaced.to_string(),
        resource.kind.clone(),
    ];
    line.extend(wide.then(|| [found.verbs.join(","), found.categories.join(",")]).into_iter().flatten());
    line
}

#[cfg(test)]
mod tests {
    use apimachinery::ApiResource;
    use expect_test::{Expect, expect};

    use super::*;

    fn served() -> Vec<DiscoveredResource> {
        let found = |resource: ApiResource, short: &[&str], verbs: &[&str], categories: &[&str]| DiscoveredResource {
            resource,
            singular: String::new(),
            short_names: short.iter().map(|text| (*text).to_owned()).collect(),
            categories: categories.iter().map(|text| (*text).to_owned()).collect(),
            verbs: verbs.iter().map(|text| (*text).to_owned()).collect(),
            subresources: Vec::new(),
        };
        vec![
            found(
                ApiResource::namespaced("apps", "v1", "Deployment", "deployments"),
                &["deploy"],
                &["get", "list"],
                &["all"],
            ),
            found(ApiResource::cluster("", "v1", "Namespace", "namespaces"), &["ns"], &["create", "get"], &[]),
            found(
                ApiResource::namespaced(
                    "authorization.k8s.io",
                    "v1",
                    "LocalSubjectAccessReview",
                    "localsubjectaccessreviews",
                ),
                &[],
                &["create"],
                &[],
            ),
        ]
    }

    fn check(output: Output, selection: Selection, expected: &Expect) {
        let (scope, cluster) = (OperationScope::Karmada, String::new());
        let options = Options { scope, cluster, output, no_headers: false, selection, sort_by: SortBy::Group };
        expected.assert_eq(&render(served().iter().collect(), &options));
    }

    #[test]
    fn resources_are_listed_as_kubectl_lists_them() {
        check(
            Output::Table,
            Selection::default(),
            &expect![[r#"
            NAME                        SHORTNAMES   APIVERSION                NAMESPACED   KIND
            namespaces                  ns           v1                        false        Namespace
            deployments                 deploy       apps/v1                   true         Deployment
            localsubjectaccessreviews                authorization.k8s.io/v1   true         LocalSubjectAccessReview
        "#]],
        );
        let namespaced = Selection { namespaced: Some(true), verbs: vec!["list".into()], ..Selection::default() };
        check(
            Output::Wide,
            namespaced,
            &expect![[r#"
            NAME          SHORTNAMES   APIVERSION   NAMESPACED   KIND         VERBS      CATEGORIES
            deployments   deploy       apps/v1      true         Deployment   get,list   all
        "#]],
        );
        let scaled = Selection { group: Some("apps".into()), ..Selection::default() };
        check(
            Output::Json,
            scaled.clone(),
            &expect![[r#"
                {
                    "kind": "APIResourceList",
                    "apiVersion": "v1",
                    "groupVersion": "",
                    "resources": [
                        {
                            "name": "deployments",
                            "singularName": "",
                            "namespaced": true,
                            "group": "apps",
                            "version": "v1",
                            "kind": "Deployment",
                            "verbs": [
                                "get",
                                "list"
                            ],
                            "shortNames": [
                                "deploy"
                            ],
                            "categories": [
                                "all"
                            ]
                        }
                    ]
                }
            "#]],
        );
        check(
            Output::Yaml,
            scaled.clone(),
            &expect![[r#"
                apiVersion: v1
                groupVersion: ""
                kind: APIResourceList
                resources:
                - categories:
                  - all
                  group: apps
                  kind: Deployment
                  name: deployments
                  namespaced: true
                  shortNames:
                  - deploy
                  singularName: ""
                  verbs:
                  - get
                  - list
                  version: v1
            "#]],
        );
        check(
            Output::Kyaml,
            scaled,
            &expect![[r#"
                ---
                {
                  apiVersion: "v1",
                  groupVersion: "",
                  kind: "APIResourceList",
                  resources: [{
                    categories: [
                      "all",
                    ],
                    group: "apps",
                    kind: "Deployment",
                    name: "deployments",
                    namespaced: true,
                    shortNames: [
                      "deploy",
                    ],
                    singularName: "",
                    verbs: [
                      "get",
                      "list",
                    ],
                    version: "v1",
                  }],
                }
            "#]],
        );
        let unknown = Selection { group: Some("unknown".into()), ..Selection::default() };
        check(
            Output::Yaml,
            unknown,
            &expect![[r#"
                apiVersion: v1
                groupVersion: ""
                kind: APIResourceList
                resources: null
            "#]],
        );
        let core = Selection { group: Some(String::new()), ..Selection::default() };
        check(
            Output::Name,
            core,
            &expect![[r#"
            namespaces
        "#]],
        );
        let all = Selection { categories: vec!["all".into()], ..Selection::default() };
        check(
            Output::Name,
            all,
            &expect![[r#"
            deployments.apps
        "#]],
        );
    }
}

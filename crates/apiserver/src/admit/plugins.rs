//! kube-apiserver's admission plugins: the list, the enabled ones, and their order. The decisions are in
//! `kubernetes_api::admission`; here they are applied to the store.

use std::sync::Arc;

pub use kubernetes_api::admission::pod_security::Configuration as PodSecurityConfiguration;
use kubernetes_api::services::Ranges;
use world::World;

use crate::admit::Admission;
use crate::admit::priority::Priorities;
use crate::admit::services::ServiceAddresses;

mod pod_security;
mod pods;
mod quota;
mod storage;
mod table;

/// The implementation of a plugin.
enum Make {
    Plugin(fn(&Settings<'_>) -> Arc<dyn Admission>),
    /// Built into the server, which checks whether it is enabled.
    Inside,
    /// Neither switch changes anything: its objects are served and have no effect, another plugin does the same, or it
    /// restricts kubelets, which no server here authorizes.
    NoEffect,
    /// Added by the process that builds the server, if [`Switches::has`] it.
    Outside,
    /// Not here.
    Missing,
}

struct Row {
    name: &'static str,
    on: bool,
    make: Make,
}

const fn on(name: &'static str, make: Make) -> Row {
    Row { name, on: true, make }
}

const fn off(name: &'static str, make: Make) -> Row {
    Row { name, on: false, make }
}

const fn missing(name: &'static str) -> Row {
    off(name, Make::Missing)
}

/// All plugins of kube-apiserver 1.36, in the order in which they run.
const TABLE: &[Row] = &[
    off("AlwaysAdmit", Make::NoEffect),
    missing("NamespaceAutoProvision"),
    on("NamespaceLifecycle", Make::Inside),
    off("NamespaceExists", Make::NoEffect),
    missing("LimitPodHardAntiAffinityTopology"),
    on("LimitRanger", Make::Plugin(|_| Arc::new(pods::LimitRanger::default()))),
    on("ServiceAccount", Make::Plugin(|settings| Arc::new(pods::ServiceAccounts::new(settings.world.clone())))),
    off("NodeRestriction", Make::NoEffect),
    on("TaintNodesByCondition", Make::Plugin(|_| Arc::new(pods::NodeTaints))),
    missing("AlwaysPullImages"),
    missing("ImagePolicyWebhook"),
    on("PodSecurity", Make::Plugin(|settings| Arc::new(pod_security::PodSecurity::new(settings.pod_security.clone())))),
    missing("PodNodeSelector"),
    on("Priority", Make::Plugin(|_| Arc::new(Priorities::default()))),
    on("DefaultTolerationSeconds", Make::Plugin(|_| Arc::new(pods::Tolerations))),
    missing("PodTolerationRestriction"),
    missing("EventRateLimit"),
    missing("ExtendedResourceToleration"),
    on("DefaultStorageClass", Make::Plugin(|_| Arc::new(storage::DefaultStorageClass::default()))),
    on("StorageObjectInUseProtection", Make::Plugin(|_| Arc::new(storage::InUseProtection))),
    missing("OwnerReferencesPermissionEnforcement"),
    on("PersistentVolumeClaimResize", Make::Plugin(|_| Arc::new(storage::ClaimResize::default()))),
    on("RuntimeClass", Make::Plugin(|_| Arc::new(pods::RuntimeClasses::default()))),
    on("CertificateApproval", Make::Inside),
    on("CertificateSigning", Make::Inside),
    on("ClusterTrustBundleAttest", Make::NoEffect),
    on("CertificateSubjectRestriction", Make::Inside),
    on("DefaultIngressClass", Make::Plugin(|_| Arc::new(storage::DefaultIngressClass::default()))),
    missing("DenyServiceExternalIPs"),
    on("PodTopologyLabels", Make::NoEffect),
    on("MutatingAdmissionPolicy", Make::Outside),
    on("MutatingAdmissionWebhook", Make::Outside),
    on("ValidatingAdmissionPolicy", Make::Outside),
    on("ValidatingAdmissionWebhook", Make::Outside),
    on("ResourceQuota", Make::Plugin(|_| Arc::new(quota::ResourceQuotas::default()))),
    missing("AlwaysDeny"),
];

/// `--enable-admission-plugins` and `--disable-admission-plugins`: the differences from the default set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// `--enable-admission-plugins`
    pub enable: Vec<String>,
    /// `--disable-admission-plugins`
    pub disable: Vec<String>,
}

impl Switches {
    /// Whether the plugin with this name is on.
    pub fn has(&self, name: &str) -> bool {
        let listed = |names: &[String]| names.iter().any(|listed| listed == name);
        let is_on = TABLE.iter().any(|row| row.name == name && row.on);
        (is_on || listed(&self.enable)) && !listed(&self.disable)
    }
}

/// What plugins are made from.
pub struct Settings<'w> {
    /// The clock and the randomness.
    pub world: &'w World,
    /// The policies of namespaces without labels, and the requests that are not evaluated.
    pub pod_security: PodSecurityConfiguration,
}

/// A name in the flags that cannot be obeyed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum SwitchError {
    #[error("--{flag}: plugin {name:?} is unknown; check the spelling")]
    Unknown { flag: &'static str, name: String },
    #[error("--enable-admission-plugins: plugin {0:?} is not part of this version; leave it out")]
    Missing(String),
    #[error("{0:?} in --enable-admission-plugins and --disable-admission-plugins overlapped; leave it out of one")]
    Both(String),
}

/// The plugins of one server, and the allocation of service addresses, which is always on.
///
/// # Errors
/// When a name is unknown, not implemented, or in both lists.
pub fn built_in(services: Ranges, world: &World, switches: &Switches) -> Result<Vec<Arc<dyn Admission>>, SwitchError> {
    configured(services, &Settings { world, pod_security: PodSecurityConfiguration::default() }, switches)
}

/// As [`built_in`], with the plugins' settings.
///
/// # Errors
/// As [`built_in`].
pub fn configured(
    services: Ranges,
    settings: &Settings<'_>,
    switches: &Switches,
) -> Result<Vec<Arc<dyn Admission>>, SwitchError> {
    check(switches)?;
    let mut plugins: Vec<Arc<dyn Admission>> = Vec::new();
    let mut off = Vec::new();
    for row in TABLE {
        match (&row.make, switches.has(row.name)) {
            (Make::Plugin(make), true) => plugins.push(make(settings)),
            (Make::Inside, false) => off.push(row.name),
            _ => {}
        }
    }
    plugins.push(Arc::new(ServiceAddresses::new(services)));
    if !off.is_empty() {
        plugins.push(Arc::new(SwitchedOff(off)));
    }
    Ok(plugins)
}

/// Whether kube-apiserver has a plugin of this name.
pub fn is_known(name: &str) -> bool {
    TABLE.iter().any(|row| row.name == name)
}

/// # Errors
/// As [`built_in`].
pub fn check(switches: &Switches) -> Result<(), SwitchError> {
    let lists = [("enable-admission-plugins", &switches.enable), ("disable-admission-plugins", &switches.disable)];
    for (flag, names) in lists {
        if let Some(name) = names.iter().find(|name| !TABLE.iter().any(|row| row.name == **name)) {
            return Err(SwitchError::Unknown { flag, name: name.clone() });
        }
    }
    if let Some(name) = switches.enable.iter().find(|name| switches.disable.contains(name)) {
        return Err(SwitchError::Both(name.clone()));
    }
    let absent = |name: &&String| TABLE.iter().any(|row| row.name == **name && matches!(row.make, Make::Missing));
    switches.enable.iter().find(absent).map_or(Ok(()), |name| Err(SwitchError::Missing(name.clone())))
}

/// Disables built-in plugins of the server, as an entry in the chain.
struct SwitchedOff(Vec<&'static str>);

impl Admission for SwitchedOff {
    fn concerns(&self, _: &str, _: &str) -> bool {
        false
    }

    fn switches_off(&self) -> &[&'static str] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_flags_are_checked() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let world = World::system();
        let of = |enable: &[&str], disable: &[&str]| {
            let switches = Switches { enable: names(enable), disable: names(disable) };
            built_in(Ranges::default(), &world, &switches).map(|plugins| plugins.len()).map_err(|e| e.to_string())
        };
        let all = of(&[], &[]).expect("the default set");
        assert_eq!(of(&["LimitRanger"], &["PodSecurity", "Priority"]), Ok(all - 2));
        assert_eq!(of(&[], &["NamespaceLifecycle"]), Ok(all + 1), "a marker instead of a plugin");
        assert_eq!(of(&[], &["AlwaysPullImages", "ValidatingAdmissionWebhook"]), Ok(all));
        assert_eq!(of(&["NodeRestriction"], &[]), Ok(all), "Karmada's operator sets it");
        assert_eq!(
            of(&["Nope"], &[]),
            Err("--enable-admission-plugins: plugin \"Nope\" is unknown; check the spelling".to_owned())
        );
        assert!(of(&["AlwaysPullImages"], &[]).is_err_and(|why| why.contains("not part of this version")));
        assert!(of(&["Priority"], &["Priority"]).is_err_and(|why| why.contains("overlapped")));
    }
}

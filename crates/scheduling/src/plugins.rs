//! The scheduler plugins and the set of enabled ones.

/// A filter or score plugin. Filters run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// Rejects clusters from which the binding is being evicted.
    ClusterEviction,
    /// Rejects clusters that do not serve the template's API.
    ApiEnablement,
    /// Rejects clusters with untolerated taints.
    TaintToleration,
    /// Rejects clusters outside the cluster affinity.
    ClusterAffinity,
    /// Rejects clusters without a property that spread constraints require.
    SpreadConstraint,
    /// Rejects clusters without the workloads of the affinity group.
    WorkloadAffinity,
    /// Rejects clusters with workloads of the anti-affinity group.
    WorkloadAntiAffinity,
    /// Scores only.
    ClusterLocality,
}

impl Plugin {
    /// All plugins in the order in which filters run.
    pub const ALL: [Self; 8] = [
        Self::ClusterEviction,
        Self::ApiEnablement,
        Self::TaintToleration,
        Self::ClusterAffinity,
        Self::SpreadConstraint,
        Self::WorkloadAffinity,
        Self::WorkloadAntiAffinity,
        Self::ClusterLocality,
    ];

    /// The plugin's name in `--plugins` and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterEviction => "ClusterEviction",
            Self::ApiEnablement => "APIEnablement",
            Self::TaintToleration => "TaintToleration",
            Self::ClusterAffinity => "ClusterAffinity",
            Self::SpreadConstraint => "SpreadConstraint",
            Self::WorkloadAffinity => "WorkloadAffinity",
            Self::WorkloadAntiAffinity => "WorkloadAntiAffinity",
            Self::ClusterLocality => "ClusterLocality",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plugins(u8);

impl Plugins {
    /// All plugins enabled.
    pub const ALL: Self = Self(u8::MAX);

    /// Parses `--plugins`: `*` enables all, `foo` adds one, `-foo` removes one from `*`. Unknown names are ignored.
    pub fn parse<'a>(list: impl IntoIterator<Item = &'a str> + Clone) -> Self {
        let has = |plugin_name: &str| list.clone().into_iter().any(|item| item == plugin_name);
        let on = Plugin::ALL.iter().filter(|plugin| {
            let name = plugin.name();
            has(name) || (has("*") && !has(&format!("-{name}")))
        });
        Self(on.fold(0, |bits, plugin| bits | plugin.bit()))
    }

    /// Whether a plugin is enabled.
    pub fn has(self, plugin: Plugin) -> bool {
        self.0 & plugin.bit() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (list, on) in [
            (&["*"][..], [true, true]),
            (&["TaintToleration"], [true, false]),
            (&["*", "-TaintToleration"], [false, true]),
            (&["-TaintToleration", "*"], [false, true]),
            (&["*", "-TaintToleration", "TaintToleration"], [true, true]),
            (&["unknown"], [false, false]),
            (&[], [false, false]),
        ] {
            let plugins = Plugins::parse(list.iter().copied());
            assert_eq!([plugins.has(Plugin::TaintToleration), plugins.has(Plugin::ApiEnablement)], on, "{list:?}");
        }
    }
}

//! The plugins by name, and which of them are on.

/// What filters or scores clusters. The order is the one filters are asked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    ClusterEviction,
    ApiEnablement,
    TaintToleration,
    ClusterAffinity,
    SpreadConstraint,
    WorkloadAffinity,
    WorkloadAntiAffinity,
    /// Scores only.
    ClusterLocality,
}

impl Plugin {
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
    pub const ALL: Self = Self(u8::MAX);

    /// `--plugins`: `*` is all, `foo` adds one, `-foo` takes one out of `*`. Names nobody knows change nothing.
    pub fn parse<'a>(list: impl IntoIterator<Item = &'a str> + Clone) -> Self {
        let has = |wanted: &str| list.clone().into_iter().any(|item| item == wanted);
        let on = Plugin::ALL.iter().filter(|plugin| {
            let name = plugin.name();
            has(name) || (has("*") && !has(&format!("-{name}")))
        });
        Self(on.fold(0, |bits, plugin| bits | plugin.bit()))
    }

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
            (&["nobody"], [false, false]),
            (&[], [false, false]),
        ] {
            let plugins = Plugins::parse(list.iter().copied());
            assert_eq!([plugins.has(Plugin::TaintToleration), plugins.has(Plugin::ApiEnablement)], on, "{list:?}");
        }
    }
}

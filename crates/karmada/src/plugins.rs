//! The admission plugins of a control plane, by kube-apiserver's flags.

use apiserver::admit::plugins::Switches;

/// The admission plugins that Karmada's control planes disable: no pods run there, so neither their ServiceAccounts nor
/// volumes in use matter.
const DISABLED_PLUGINS: &str = "StorageObjectInUseProtection,ServiceAccount";

/// Kubernetes' default plugins without those.
pub fn default_plugins() -> Switches {
    of_flags(Vec::new(), None)
}

/// The plugins of the flags. A plugin that is off only by default can be enabled.
pub fn of_flags(enable: Vec<String>, disable: Option<Vec<String>>) -> Switches {
    let by_default = || {
        let names = DISABLED_PLUGINS.split(',').filter(|name| !enable.iter().any(|enabled| enabled == name));
        names.map(str::to_owned).collect()
    };
    let disable = disable.unwrap_or_else(by_default);
    Switches { enable, disable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_is_off_by_default_can_be_enabled() {
        let on = |enable: &[&str], disable: Option<&[&str]>| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let switches = of_flags(owned(enable), disable.map(owned));
            ["ServiceAccount", "StorageObjectInUseProtection", "Priority"].map(|name| switches.has(name))
        };
        assert_eq!(on(&[], None), [false, false, true]);
        assert_eq!(on(&["ServiceAccount"], None), [true, false, true]);
        assert_eq!(on(&[], Some(&[])), [true, true, true]);
        assert_eq!(on(&["ServiceAccount"], Some(&["Priority"])), [true, true, false]);
    }
}

//! The table of flags (`flags.tsv`): each row has a flag's name, type, defaults, effects and help text.

use std::sync::OnceLock;

use super::COMPONENTS;

pub(super) const TABLE: &str = include_str!("flags.tsv");

/// All components or all commands.
const ALL: &str = "*";
const EMPTY: &str = "-";

/// Reasons that rows refer to by name.
const REASONS: &[(&str, &str)] = &[
    ("audit", "nothing is audited without --audit-policy-file"),
    ("authentication", "only requests of the API server in front are accepted, and it has authenticated the user"),
    ("authorization", "only requests of the API server in front are accepted, and it has authorized the user"),
    ("caches", "a reconciliation waits for the caches it needs"),
    ("certificates", "a certificate that is not given is in --data-dir"),
    ("etcd-counts", "objects are counted in memory; leave it out"),
    ("etcd-health", "the check etcd-readiness follows the connection to etcd and sends no request; leave it out"),
    ("etcd-one", "all resources of this component are in one etcd; leave it out"),
    ("lease", "one process holds the store, so there is no Lease to elect a leader with"),
    ("logs", "log lines are written to standard error without a buffer"),
    ("members", "requests to members are not rate-limited"),
    ("profiles", "there is no Go runtime to profile"),
    ("queues", "queues delay failed keys only, each on its own"),
    ("requests", "requests to the API server are not rate-limited"),
    ("resync", "caches follow watches and need no resync"),
    ("workers", "reconciliations are tasks, and as many run as there is work"),
];

/// The treatment of a value other than the default in a command where the flag has no effect. A flag is refused if
/// ignoring its value would change behavior that the user relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    Refused(Option<&'static str>),
    /// Accepted, with a notice that gives the reason.
    Notice(&'static str),
    /// Accepted: no observable behavior depends on it.
    Inert,
}

/// One flag. A name has two rows where components mean different things by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    pub name: &'static str,
    pub type_: &'static str,
    /// Component and upstream's default.
    pub defaults: Vec<(&'static str, &'static str)>,
    /// Component (or all) and the default of this program, where it differs.
    own_defaults: Vec<(&'static str, &'static str)>,
    /// The commands in which it has an effect.
    effective: Vec<&'static str>,
    /// Command and a value that the command accepts because it already behaves so.
    pub moot: Vec<(&'static str, &'static str)>,
    pub ignored: Ignored,
    pub meaning: &'static str,
}

impl Flag {
    pub fn default_of(&self, component: &str) -> Option<&'static str> {
        value_of(&self.defaults, component)
    }

    /// The default in this program, which differs from upstream's for some flags; an empty text is no value.
    pub fn default_here(&self, component: &str) -> Option<&'static str> {
        let upstream = self.default_of(component)?;
        Some(value_of(&self.own_defaults, component).unwrap_or(upstream))
    }

    pub fn is_effective(&self, command: &str) -> bool {
        self.is_for_logs() || self.effective.contains(&command)
    }

    /// The flags of logs have an effect in every command.
    pub fn is_for_logs(&self) -> bool {
        self.effective.contains(&ALL)
    }
}

fn value_of(values: &[(&'static str, &'static str)], key: &str) -> Option<&'static str> {
    values.iter().find(|(name, _)| *name == key || *name == ALL).map(|(_, value)| *value)
}

/// `a,b=value;c=other` as pairs.
fn pairs(cell: &'static str) -> Vec<(&'static str, &'static str)> {
    let groups = cell.split(';').filter_map(|group| group.split_once('='));
    groups.flat_map(|(keys, value)| keys.split(',').map(move |key| (key, value))).collect()
}

fn ignored(cell: &'static str) -> Option<Ignored> {
    let reason = |key: &str| REASONS.iter().find(|(known, _)| *known == key).map(|(_, text)| *text);
    match cell.split_once(':') {
        None if cell == EMPTY => Some(Ignored::Refused(None)),
        None if cell == "inert" => Some(Ignored::Inert),
        Some(("notice", key)) => reason(key).map(Ignored::Notice),
        Some(("refused", key)) => reason(key).map(|text| Ignored::Refused(Some(text))),
        _ => None,
    }
}

fn flag(line: &'static str) -> Option<Flag> {
    let cells: Vec<&'static str> = line.split('\t').collect();
    let [name, type_, defaults, own, effective, moot, outside, meaning] = cells.try_into().ok()?;
    let mut defaults = pairs(defaults);
    if let [(ALL, value)] = defaults[..] {
        defaults = COMPONENTS.iter().map(|component| (*component, value)).collect();
    }
    let effective = effective.split(',').filter(|command| *command != EMPTY).collect();
    let (own_defaults, moot, ignored) = (pairs(own), pairs(moot), ignored(outside)?);
    Some(Flag { name, type_, defaults, own_defaults, effective, moot, ignored, meaning })
}

/// All flags, in the order of the documentation.
pub fn flags() -> &'static [Flag] {
    static FLAGS: OnceLock<Vec<Flag>> = OnceLock::new();
    FLAGS.get_or_init(|| TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(flag).collect())
}

/// The rows of a name.
pub fn named(name: &str) -> impl Iterator<Item = &'static Flag> {
    flags().iter().filter(move |flag| flag.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::UP;
    use super::*;

    #[test]
    fn every_row_is_a_flag_and_the_counts_are_upstreams() {
        let rows = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(flags().len(), rows);
        let count = |component: &str| flags().iter().filter(|flag| flag.default_of(component).is_some()).count();
        let counts: Vec<usize> = COMPONENTS.iter().map(|component| count(component)).collect();
        // 21 of each are about logs.
        assert_eq!(counts, [76, 64, 53, 37, 44, 36, 110, 132, 92]);
    }

    #[test]
    fn cells_name_components_and_commands_that_have_the_flag() {
        for flag in flags() {
            let has = |component: &str| flag.default_of(component).is_some();
            let takes = |command: &str| match command {
                ALL => true,
                "up" => UP.iter().any(|component| has(component)),
                component => has(component),
            };
            let keys = flag.effective.iter().copied().chain(flag.moot.iter().map(|(command, _)| *command));
            for command in keys.chain(flag.own_defaults.iter().map(|(component, _)| *component)) {
                assert!(takes(command), "--{}: {command} does not have this flag", flag.name);
            }
            for (component, _) in &flag.defaults {
                assert!(COMPONENTS.contains(component), "--{}: {component} is not a component", flag.name);
            }
            let unique: BTreeSet<&str> = flag.effective.iter().copied().collect();
            assert_eq!(unique.len(), flag.effective.len(), "--{}: a command twice", flag.name);
        }
    }

    #[test]
    fn every_reason_is_used() {
        for (key, reason) in REASONS {
            let uses = |flag: &Flag| match flag.ignored {
                Ignored::Notice(text) | Ignored::Refused(Some(text)) => text == *reason,
                Ignored::Refused(None) | Ignored::Inert => false,
            };
            assert!(flags().iter().any(uses), "{key}");
        }
    }

    #[test]
    fn a_malformed_row_is_not_a_flag() {
        assert!(flag("a\tint\tsearch=1\t-\tsearch\t-\t-\tText.").is_some());
        for row in ["", "a\tint", "a\tint\tsearch=1\t-\t-\t-\tnotice:unknown\tText.", "a\tb\t-\t-\t-\t-\tlater\tText."]
        {
            assert_eq!(flag(row), None, "{row}");
        }
    }
}

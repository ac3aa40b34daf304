//! The contents of a disk after a power failure.
//!
//! Synced changes are present. All others are in flight: each written sector has the content of any time since the last
//! sync of its file, independently of its neighbours, and the names of files that were created, renamed or removed
//! since the last sync of the directory may be present or not. As in file systems, a sector never has content that it
//! never had, and a truncated and rewritten file does not have the new end behind the old cut.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Dice, Recorded};

/// Names and contents.
pub type Files = BTreeMap<String, Vec<u8>>;

#[derive(Clone, Debug, Default)]
struct File {
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Clone, Debug)]
enum Pending {
    Write { offset: usize, data: Vec<u8> },
    Truncate { length: usize },
}

#[derive(Clone, Debug)]
enum Name {
    Created { name: String, file: usize },
    Renamed { from: String, to: String },
    Removed { name: String },
}

/// A directory whose record is replayed up to a position.
#[derive(Clone, Debug, Default)]
pub struct PowerFailure {
    files: BTreeMap<usize, File>,
    names: BTreeMap<String, usize>,
    pending: Vec<Name>,
}

impl PowerFailure {
    /// The durable content when the record began.
    pub fn new(names: BTreeMap<String, usize>, contents: &Files) -> Self {
        let durable = |name: &String| contents.get(name).cloned().unwrap_or_default();
        let file = |(name, file): (&String, &usize)| (*file, File { durable: durable(name), pending: Vec::new() });
        Self { files: names.iter().map(file).collect(), names, pending: Vec::new() }
    }

    /// Replays one change.
    pub fn follow(&mut self, change: &Recorded) {
        match change {
            Recorded::Created { name, file } => {
                self.files.insert(*file, File::default());
                self.pending.push(Name::Created { name: name.clone(), file: *file });
            }
            Recorded::Wrote { file, offset, data } => {
                self.file(*file).pending.push(Pending::Write { offset: *offset as usize, data: data.clone() });
            }
            Recorded::Truncated { file, length } => {
                self.file(*file).pending.push(Pending::Truncate { length: *length as usize });
            }
            Recorded::Synced { file } => self.file(*file).sync(),
            Recorded::Renamed { from, to } => {
                self.pending.push(Name::Renamed { from: from.clone(), to: to.clone() });
            }
            Recorded::Removed { name } => self.pending.push(Name::Removed { name: name.clone() }),
            Recorded::SyncedDirectory => self.names = self.named(|_| true),
            Recorded::Noted(_) => {}
        }
        if *change == Recorded::SyncedDirectory {
            self.pending.clear();
        }
    }

    fn file(&mut self, file: usize) -> &mut File {
        self.files.entry(file).or_default()
    }

    /// The names after the surviving pending changes. A lost change blocks all later ones of its names.
    fn named(&self, mut keep: impl FnMut(usize) -> bool) -> BTreeMap<String, usize> {
        let mut names = self.names.clone();
        let mut held: BTreeSet<&String> = BTreeSet::new();
        for (place, change) in self.pending.iter().enumerate() {
            let touched = match change {
                Name::Created { name, .. } | Name::Removed { name } => vec![name],
                Name::Renamed { from, to } => vec![from, to],
            };
            if touched.iter().any(|name| held.contains(name)) || !keep(place) {
                held.extend(touched);
                continue;
            }
            match change {
                Name::Created { name, file } => drop(names.insert(name.clone(), *file)),
                Name::Removed { name } => drop(names.remove(name)),
                Name::Renamed { from, to } => drop(names.remove(from).map(|file| names.insert(to.clone(), file))),
            }
        }
        names
    }

    /// All changes, as a killed process leaves them.
    pub fn whole(&self) -> Files {
        let contents = |(name, file): (String, usize)| {
            let mut file = self.files.get(&file).cloned().unwrap_or_default();
            file.sync();
            (name, file.durable)
        };
        self.named(|_| true).into_iter().map(contents).collect()
    }

    /// One of the possible states of the disk.
    pub fn state(&self, dice: &mut Dice) -> Files {
        // Some failures lose almost nothing, some almost everything.
        let chances = [0, 0, 10, 50, 90, 100];
        let chance = chances[dice.below(chances.len())];
        let sector = [512, 4096][dice.below(2)];
        let names = self.named(|_| dice.percent(chance));
        let mut files = Files::new();
        for (name, number) in names {
            let chance = if dice.percent(70) { chance } else { chances[dice.below(chances.len())] };
            let content = self.files.get(&number).map(|file| file.state(dice, chance, sector)).unwrap_or_default();
            files.insert(name, content);
        }
        files
    }
}

impl File {
    fn sync(&mut self) {
        let mut content = std::mem::take(&mut self.durable);
        self.pending.drain(..).for_each(|change| change.apply(&mut content));
        self.durable = content;
    }

    /// `chance`: that a sector reaches the disk each time it is written.
    fn state(&self, dice: &mut Dice, chance: usize, sector: usize) -> Vec<u8> {
        let (mut cache, mut disk) = (self.durable.clone(), self.durable.clone());
        // If a truncation did not reach the disk, later writes beyond it did not either.
        let mut limit = usize::MAX;
        for change in &self.pending {
            change.apply(&mut cache);
            match change {
                Pending::Write { offset, data } if !data.is_empty() => {
                    let last = (offset + data.len() - 1) / sector;
                    for number in offset / sector..=last {
                        let from = number * sector;
                        let to = ((number + 1) * sector).min(cache.len()).min(limit);
                        if from < to && dice.percent(chance) {
                            disk.resize(disk.len().max(to), 0);
                            disk[from..to].copy_from_slice(&cache[from..to]);
                        }
                    }
                }
                Pending::Write { .. } => {}
                Pending::Truncate { length } if *length < limit && dice.percent(chance) => disk.resize(*length, 0),
                Pending::Truncate { length } => limit = limit.min(*length),
            }
        }
        // The new length without the content.
        if limit == usize::MAX && disk.len() < cache.len() && dice.percent(chance / 2) {
            disk.resize(cache.len(), 0);
        }
        disk
    }
}

impl Pending {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => {
                content.resize(content.len().max(offset + data.len()), 0);
                content[*offset..offset + data.len()].copy_from_slice(data);
            }
            Self::Truncate { length } => content.resize(*length, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrote(offset: u64, byte: u8, length: usize) -> Recorded {
        Recorded::Wrote { file: 0, offset, data: vec![byte; length] }
    }

    /// Each possible state of the disk, as the first byte of each sector of file `a`; `-` if the file is missing.
    fn states(changes: &[Recorded]) -> BTreeSet<String> {
        let before = Files::from([("a".to_owned(), vec![b'0'; 1024])]);
        let mut disk = PowerFailure::new(BTreeMap::from([("a".to_owned(), 0)]), &before);
        changes.iter().for_each(|change| disk.follow(change));
        let mut dice = Dice::new(1);
        let seen = |files: Files| match files.get("a") {
            Some(content) => content.chunks(512).map(|sector| char::from(sector[0].max(b'.'))).collect(),
            None => "-".to_owned(),
        };
        (0..500).map(|_| seen(disk.state(&mut dice))).collect()
    }

    #[test]
    fn synced_changes_survive_and_others_may_be_partial() {
        let synced = Recorded::Synced { file: 0 };
        let cut = |length| Recorded::Truncated { file: 0, length };
        let removed = Recorded::Removed { name: "a".into() };
        for (what, changes, expected) in [
            ("nothing", vec![], vec!["00"]),
            ("a synced write", vec![wrote(0, b'1', 1024), synced.clone()], vec!["11"]),
            ("a write in flight", vec![wrote(0, b'1', 1024)], vec!["00", "01", "10", "11"]),
            ("one after another", vec![wrote(0, b'1', 512), wrote(512, b'2', 512)], vec!["00", "02", "10", "12"]),
            ("twice the same", vec![wrote(0, b'1', 512), wrote(0, b'2', 512)], vec!["00", "10", "20"]),
            ("an append", vec![wrote(1024, b'1', 512)], vec!["00", "00.", "001"]),
            ("a cut", vec![cut(512)], vec!["0", "00"]),
            ("a cut, written again", vec![cut(0), wrote(0, b'1', 512)], vec!["", ".", "00", "1"]),
            ("removed", vec![removed.clone()], vec!["-", "00"]),
            ("removed for good", vec![removed, Recorded::SyncedDirectory], vec!["-"]),
        ] {
            let seen = states(&changes);
            let expected: BTreeSet<String> = expected.into_iter().map(str::to_owned).collect();
            // Sectors of 4096 bytes are one here.
            assert_eq!(seen, expected, "{what}");
        }
    }

    #[test]
    fn a_file_that_was_renamed_is_old_or_new() {
        let mut disk = PowerFailure::new(BTreeMap::from([("a".to_owned(), 0)]), &Files::from([("a".into(), vec![1])]));
        for change in [
            Recorded::Created { name: "a.new".into(), file: 1 },
            Recorded::Wrote { file: 1, offset: 0, data: vec![2] },
            Recorded::Synced { file: 1 },
            Recorded::Renamed { from: "a.new".into(), to: "a".into() },
        ] {
            disk.follow(&change);
        }
        let mut dice = Dice::new(1);
        let seen: BTreeSet<_> = (0..100).map(|_| disk.state(&mut dice)["a"].clone()).collect();
        assert_eq!(seen, BTreeSet::from([vec![1], vec![2]]));
        assert_eq!(disk.whole(), Files::from([("a".into(), vec![2])]));
    }
}

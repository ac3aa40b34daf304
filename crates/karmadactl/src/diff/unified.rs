//! Unified differences of texts, line by line, with Myers' algorithm.

use std::fmt::Write as _;

/// Lines around a change.
const CONTEXT: usize = 3;
/// Texts with more changed lines than that are printed as removed and added whole: memory grows with the square.
const MOST_CHANGES: usize = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit {
    Keep,
    Drop,
    Add,
}

/// The hunks that lead from one text to the other; empty when they are equal.
pub fn hunks(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let edits = edits(&old, &new);
    let changed: Vec<usize> =
        edits.iter().enumerate().filter(|(_, edit)| **edit != Edit::Keep).map(|(at, _)| at).collect();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for at in changed {
        let (begin, end) = (at.saturating_sub(CONTEXT), (at + CONTEXT + 1).min(edits.len()));
        match ranges.last_mut() {
            Some(last) if begin <= last.1 => last.1 = end,
            _ => ranges.push((begin, end)),
        }
    }
    let mut text = String::new();
    let (mut at, mut line, mut other) = (0, 0, 0);
    for (begin, end) in ranges {
        let kept = begin - at;
        (line, other) = (line + kept, other + kept);
        let hunk = &edits[begin..end];
        let count = |skipped: Edit| hunk.iter().filter(|edit| **edit != skipped).count();
        let (removed, added) = (count(Edit::Add), count(Edit::Drop));
        let _ = writeln!(text, "@@ -{} +{} @@", range(line, removed), range(other, added));
        for edit in hunk {
            let (sign, shown) = match edit {
                Edit::Keep => (' ', old[line]),
                Edit::Drop => ('-', old[line]),
                Edit::Add => ('+', new[other]),
            };
            line += usize::from(*edit != Edit::Add);
            other += usize::from(*edit != Edit::Drop);
            let _ = writeln!(text, "{sign}{shown}");
        }
        at = end;
    }
    text
}

/// As diff prints it: the first line and how many; an empty range names the line before it.
fn range(first: usize, count: usize) -> String {
    match count {
        0 => format!("{first},0"),
        1 => format!("{}", first + 1),
        _ => format!("{},{count}", first + 1),
    }
}

/// The shortest way from `old` to `new`.
fn edits(old: &[&str], new: &[&str]) -> Vec<Edit> {
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - prefix;
    let suffix = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[prefix..old.len() - suffix], &new[prefix..new.len() - suffix]);
    let middle = shortest(a, b).unwrap_or_else(|| {
        let removed = std::iter::repeat_n(Edit::Drop, a.len());
        removed.chain(std::iter::repeat_n(Edit::Add, b.len())).collect()
    });
    let keep = |count| std::iter::repeat_n(Edit::Keep, count);
    keep(prefix).chain(middle).chain(keep(suffix)).collect()
}

/// Myers' greedy search: `reached[k]` is how far in `a` a path on diagonal `k` gets. `None` if there are too many
/// changes.
fn shortest(a: &[&str], b: &[&str]) -> Option<Vec<Edit>> {
    let most = (a.len() + b.len()).min(MOST_CHANGES);
    // Diagonals are shifted to be non-negative.
    let middle = most + 1;
    let mut reached = vec![0_usize; 2 * middle + 1];
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    for round in 0..=most {
        rounds.push(reached[middle - round - 1..=middle + round + 1].to_vec());
        for diagonal in (middle - round..=middle + round).step_by(2) {
            let mut x = step(&reached, diagonal, middle, round);
            // x - y is the diagonal.
            let mut y = x + middle - diagonal;
            while x < a.len() && y < b.len() && a[x] == b[y] {
                (x, y) = (x + 1, y + 1);
            }
            reached[diagonal] = x;
            if x >= a.len() && y >= b.len() {
                return Some(backtrack(&rounds, a.len(), b.len()));
            }
        }
    }
    None
}

/// Where a path on `diagonal` begins: below the one above it, or right of the one before it.
fn step(reached: &[usize], diagonal: usize, middle: usize, round: usize) -> usize {
    let is_lowest = diagonal + round == middle;
    let is_highest = diagonal == middle + round;
    match is_lowest || (!is_highest && reached[diagonal - 1] < reached[diagonal + 1]) {
        true => reached[diagonal + 1],
        false => reached[diagonal - 1] + 1,
    }
}

fn backtrack(rounds: &[Vec<usize>], mut x: usize, mut y: usize) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (round, reached) in rounds.iter().enumerate().rev() {
        // In the window of a round, its middle is at `round + 1`.
        let middle = round + 1;
        let diagonal = middle + x - y;
        let is_down =
            diagonal + round == middle || (diagonal != middle + round && reached[diagonal - 1] < reached[diagonal + 1]);
        let before = if is_down { diagonal + 1 } else { diagonal - 1 };
        let (from_x, from_y) = match round {
            0 => (0, 0),
            _ => (reached[before], reached[before] + middle - before),
        };
        while x > from_x && y > from_y {
            edits.push(Edit::Keep);
            (x, y) = (x - 1, y - 1);
        }
        if round > 0 {
            edits.push(if is_down { Edit::Add } else { Edit::Drop });
            (x, y) = (from_x, from_y);
        }
    }
    edits.reverse();
    edits
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use world::World;

    use super::*;

    #[test]
    fn hunks_read_as_those_of_diff() {
        let lines = |text: &str| text.split(' ').map(|word| format!("{word}\n")).collect::<String>();
        assert_eq!(hunks("a\nb\n", "a\nb\n"), "");
        expect![[r"
            @@ -1,4 +1,4 @@
            -a
            +x
             b
             c
             d
            @@ -8,3 +8,4 @@
             h
             i
             j
            +k
        "]]
        .assert_eq(&hunks(&lines("a b c d e f g h i j"), &lines("x b c d e f g h i j k")));
        expect![[r"
            @@ -0,0 +1,2 @@
            +a
            +b
        "]]
        .assert_eq(&hunks("", "a\nb\n"));
        expect![[r"
            @@ -1 +0,0 @@
            -a
        "]]
        .assert_eq(&hunks("a\n", ""));
    }

    /// The old lines after the edits.
    fn replayed(old: &[&str], new: &[&str]) -> (Vec<String>, usize) {
        let (mut at, mut other, mut changes, mut made) = (0, 0, 0, Vec::new());
        for edit in edits(old, new) {
            match edit {
                Edit::Keep => {
                    assert_eq!(old[at], new[other]);
                    made.push(old[at].to_owned());
                    (at, other) = (at + 1, other + 1);
                }
                Edit::Drop => (at, changes) = (at + 1, changes + 1),
                Edit::Add => {
                    made.push(new[other].to_owned());
                    (other, changes) = (other + 1, changes + 1);
                }
            }
        }
        assert_eq!(at, old.len());
        (made, changes)
    }

    /// The length of the longest common subsequence, by the slow table.
    fn common(a: &[&str], b: &[&str]) -> usize {
        let mut table = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
        for i in 0..a.len() {
            for j in 0..b.len() {
                table[i + 1][j + 1] = if a[i] == b[j] { table[i][j] + 1 } else { table[i][j + 1].max(table[i + 1][j]) };
            }
        }
        table[a.len()][b.len()]
    }

    #[test]
    fn edits_are_correct_and_minimal() {
        let world = World::simulated("2026-01-01T00:00:00Z".parse().expect("a time"), 3);
        for _ in 0..500 {
            let text = || {
                let length = world.random_u64() % 12;
                (0..length)
                    .map(|_| ["a", "b", "c"][usize::try_from(world.random_u64() % 3).unwrap()])
                    .collect::<Vec<_>>()
            };
            let (old, new) = (text(), text());
            let (made, changes) = replayed(&old, &new);
            assert_eq!(made, new, "{old:?} {new:?}");
            assert_eq!(changes, old.len() + new.len() - 2 * common(&old, &new), "{old:?} {new:?}");
        }
    }

    #[test]
    fn texts_without_a_common_line_are_replaced_whole() {
        let lines = |from: usize| (from..from + 3000).map(|n| n.to_string()).collect::<Vec<_>>();
        let (old, new) = (lines(0), lines(10_000));
        let (old, new): (Vec<&str>, Vec<&str>) =
            (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
        let (made, changes) = replayed(&old, &new);
        assert_eq!((made.len(), changes), (3000, 6000));
    }
}

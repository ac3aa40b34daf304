//! Links between the pages lead somewhere.

use std::collections::BTreeSet;
use std::path::Path;

/// The targets of a page's links to other files, with their fragments.
fn links(text: &str) -> Vec<(String, Option<String>)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let own = targets.filter(|target| !target.contains("://") && !target.contains(' '));
    let split = |target: &str| match target.split_once('#') {
        Some((file, anchor)) => (file.to_owned(), Some(anchor.to_owned())),
        None => (target.to_owned(), None),
    };
    own.map(split).collect()
}

/// The anchors that GitHub makes of the headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings
        .map(|heading| heading.to_lowercase().chars().filter(|c| kept(*c)).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let root = super::root();
    let mut dead = Vec::new();
    for (name, _) in super::pages() {
        let page = root.join(&name);
        let text = std::fs::read_to_string(&page).expect("a readable page");
        for (file, anchor) in links(&text) {
            let target =
                if file.is_empty() { page.clone() } else { page.parent().unwrap_or(Path::new("/")).join(&file) };
            let content = std::fs::read_to_string(&target).ok().or_else(|| target.is_dir().then(String::new));
            let leads = content.is_some_and(|content| anchor.as_ref().is_none_or(|it| anchors(&content).contains(it)));
            if !leads {
                dead.push(format!("{name}: {file}#{}", anchor.unwrap_or_default()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

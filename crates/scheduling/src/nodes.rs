//! Nodes as the resource models of a cluster describe them, and first-fit placement on them. Identical nodes form one
//! run, so that a thousand of them cost no more than one.

use apimachinery::quantity::Quantity;
use karmada_api::kubernetes::ResourceList;
use karmada_api::work::v1alpha2::Component;
use smallvec::SmallVec;

use crate::capacity::{Models, PODS_PER_NODE, count, is_of_nodes};

/// The largest number of runs visited while pods are placed, about 10 ms. Pods placed until then count.
const MAX_VISITS: usize = 1_000_000;

#[derive(Clone, Debug)]
struct Run {
    nodes: i64,
    pods: i64,
    /// The free amount of each resource on one node, in the order of the models' names.
    left: SmallVec<[i64; 4]>,
}

pub(crate) struct Nodes<'a> {
    models: &'a Models,
    runs: Vec<Run>,
    visits: usize,
}

/// The requests of one pod, by index among the models' names; `None` when no node has a requested resource.
type Needs = Option<SmallVec<[(usize, i64); 4]>>;

impl Run {
    fn fits(&self, needs: &[(usize, i64)]) -> i64 {
        let fitting = needs.iter().map(|(place, amount)| self.left.get(*place).map_or(0, |left| left / amount));
        fitting.fold(self.pods, i64::min).max(0)
    }

    /// `nodes` nodes of the run, with `pods` more pods on each.
    fn with(&self, nodes: i64, pods: i64, needs: &[(usize, i64)]) -> Self {
        let mut run = Self { nodes, pods: self.pods - pods, left: self.left.clone() };
        for (place, amount) in needs {
            if let Some(left) = run.left.get_mut(*place) {
                *left -= amount.saturating_mul(pods);
            }
        }
        run
    }
}

impl<'a> Nodes<'a> {
    pub fn empty(models: &'a Models) -> Self {
        let grades = models.nodes.iter().zip(&models.grades.amounts);
        let run = |(nodes, amounts): (&i64, &Vec<i64>)| Run {
            nodes: *nodes,
            pods: PODS_PER_NODE,
            left: SmallVec::from_slice(amounts),
        };
        let runs = grades.filter(|(nodes, _)| **nodes > 0).map(run).collect();
        Self { models, runs, visits: 0 }
    }

    fn needs(&self, request: impl Iterator<Item = (&'a str, i64)>) -> Needs {
        let place = |name: &str| self.models.grades.names.iter().position(|known| **known == *name);
        let needed = request.filter(|(name, amount)| *amount > 0 && is_of_nodes(name));
        needed.map(|(name, amount)| Some((place(name)?, amount))).collect()
    }

    fn component(&self, component: &'a Component) -> Needs {
        let requests: Option<&ResourceList> = component.replica_requirements.as_ref().map(|it| &it.resource_request);
        let amounts = requests.into_iter().flatten().filter_map(|(name, amount)| {
            let amount: Quantity = amount.as_str().parse().ok()?;
            Some((name.as_str(), count(name, amount)))
        });
        self.needs(amounts)
    }

    /// Returns how many more pods of one kind fit on all nodes.
    pub fn fits(&self, request: &[(&'a str, i64)]) -> i64 {
        let Some(needs) = self.needs(request.iter().copied()) else { return 0 };
        let fitting = self.runs.iter().map(|run| run.nodes.saturating_mul(run.fits(&needs)));
        fitting.fold(0, i64::saturating_add)
    }

    /// Places the components on the first nodes that fit. Returns false when some pods do not fit; the others stay.
    pub fn place(&mut self, components: &'a [Component]) -> bool {
        components.iter().all(|component| self.place_one(component))
    }

    fn place_one(&mut self, component: &'a Component) -> bool {
        let mut remaining = i64::from(component.replicas);
        if remaining <= 0 {
            return true;
        }
        let Some(needs) = self.component(component) else { return false };
        let mut index = 0;
        while remaining > 0 && index < self.runs.len() && self.visits < MAX_VISITS {
            self.visits += 1;
            let run = self.runs[index].clone();
            let fits = run.fits(&needs);
            if fits > 0 {
                let full = (remaining / fits).min(run.nodes);
                let partly = if full < run.nodes { remaining - full * fits } else { 0 };
                remaining -= full * fits + partly;
                let rest = run.nodes - full - i64::from(partly > 0);
                let pieces = [
                    run.with(full, fits, &needs),
                    run.with(i64::from(partly > 0), partly, &needs),
                    run.with(rest, 0, &needs),
                ];
                let pieces: SmallVec<[Run; 3]> = pieces.into_iter().filter(|piece| piece.nodes > 0).collect();
                let count = pieces.len();
                self.runs.splice(index..=index, pieces);
                index += count;
            } else {
                index += 1;
            }
        }
        remaining == 0
    }

    /// Returns how many times all components can be placed together, up to `most`.
    pub fn sets(&mut self, components: &'a [Component], most: i64) -> i64 {
        let mut placed = 0;
        while placed < most && self.place(components) {
            placed += 1;
        }
        placed
    }
}

//! Which agent may give work to which, as the fleet file's `[routes]` and `[[joins]]` say. It owns the question whether an edge is
//! declared, and which join an edge leads into; without a map every edge is declared, and the edges of joins always are. It knows nothing of jobs. Neighbours: `declaration` reads the map, `sending` asks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    id::AgentName,
    joining::{Join, Mode},
};

/// The edges of a tenant's agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteMap {
    /// Absent: whatever edge there is may be taken.
    edges: Option<BTreeMap<AgentName, BTreeSet<AgentName>>>,
    joins: Vec<Join>,
}

/// An edge that is not in the map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no route leads from {from} to {to}: {}", self.tell_declared())]
pub struct NotRouted {
    /// Who gives.
    pub from: AgentName,
    /// To whom.
    pub to: AgentName,
    /// To whom it may give.
    pub declared: Vec<AgentName>,
}

impl NotRouted {
    fn tell_declared(&self) -> String {
        let names: Vec<&str> = self.declared.iter().map(AgentName::as_str).collect();
        match names.as_slice() {
            [] => "it gives work to nobody".to_owned(),
            names => format!("it gives work to {}", names.join(", ")),
        }
    }
}

impl RouteMap {
    /// From the table of a bundle that was checked against the schema.
    pub(crate) fn of(routes: Option<&Value>, joins: Option<&Value>) -> Self {
        let name = |written: &str| written.parse::<AgentName>().ok();
        let names = |list: &Value| -> BTreeSet<AgentName> {
            list.as_array().into_iter().flatten().filter_map(Value::as_str).filter_map(name).collect()
        };
        let join = |table: &Value| {
            let mode =
                if table.get("mode").and_then(Value::as_str) == Some("any") { Mode::Any } else { Mode::All };
            Some(Join { agent: name(table.get("agent")?.as_str()?)?, from: names(table.get("from")?), mode })
        };
        let joins = joins.and_then(Value::as_array).into_iter().flatten().filter_map(join).collect();
        let edges = routes
            .and_then(Value::as_object)
            .map(|table| table.iter().filter_map(|(from, to)| Some((name(from)?, names(to)))).collect());
        Self { edges, joins }
    }

    /// Whether one may give work to the other.
    ///
    /// # Errors
    /// There is a map, and it has no such edge.
    pub fn check_edge(&self, from: &AgentName, to: &AgentName) -> Result<(), NotRouted> {
        let Some(edges) = &self.edges else { return Ok(()) };
        let joins = self.joins.iter().filter(|join| join.from.contains(from)).map(|join| &join.agent);
        let declared: BTreeSet<_> = edges.get(from).into_iter().flatten().chain(joins).collect();
        if declared.contains(to) {
            return Ok(());
        }
        let declared = declared.into_iter().cloned().collect();
        Err(NotRouted { from: from.clone(), to: to.clone(), declared })
    }

    /// The join that what one sends to the other is delivered to.
    #[must_use]
    pub fn find_join(&self, from: &AgentName, to: &AgentName) -> Option<&Join> {
        self.joins.iter().find(|join| join.agent == *to && join.from.contains(from))
    }

    /// Every agent that it names, once.
    #[must_use]
    pub fn agents(&self) -> BTreeSet<AgentName> {
        let routed = self.edges.iter().flatten().flat_map(|(from, to)| to.iter().chain([from]));
        let joined = self.joins.iter().flat_map(|join| join.from.iter().chain([&join.agent]));
        routed.chain(joined).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(name: &str) -> AgentName {
        name.parse().unwrap()
    }

    #[test]
    fn without_a_map_every_edge_may_be_taken_and_with_one_only_those_of_it() {
        assert_eq!(RouteMap::of(None, None).check_edge(&agent("a"), &agent("b")), Ok(()));
        let map = RouteMap::of(Some(&json!({ "analyst": ["developer", "reviewer"], "developer": [] })), None);
        assert_eq!(map.check_edge(&agent("analyst"), &agent("reviewer")), Ok(()));
        let refuse = |from: &str, to: &str| map.check_edge(&agent(from), &agent(to)).unwrap_err().to_string();
        let declared = "it gives work to developer, reviewer";
        assert_eq!(
            refuse("analyst", "analyst"),
            format!("no route leads from analyst to analyst: {declared}")
        );
        for from in ["developer", "reviewer"] {
            let words = format!("no route leads from {from} to analyst: it gives work to nobody");
            assert_eq!(refuse(from, "analyst"), words);
        }
        let join = json!([{ "agent": "release", "from": ["developer", "reviewer"], "mode": "any" }]);
        let joined = RouteMap::of(Some(&json!({})), Some(&join));
        assert_eq!(joined.check_edge(&agent("developer"), &agent("release")), Ok(()));
        assert!(joined.check_edge(&agent("analyst"), &agent("release")).is_err());
        assert_eq!(joined.find_join(&agent("reviewer"), &agent("release")).unwrap().mode, Mode::Any);
        assert_eq!(joined.find_join(&agent("analyst"), &agent("release")), None);
        assert_eq!(joined.agents().len(), 3);
        let names: Vec<String> = map.agents().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["analyst", "developer", "reviewer"]);
    }
}

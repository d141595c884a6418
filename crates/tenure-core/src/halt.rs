//! Halts: standing refusals of work for a scope. They are rows and no flags: independent of each other; any that matches
//! refuses, and lifting a narrow one leaves a broad one. Here is what a scope is and how it is written; which jobs one
//! matches is said in one place, in the database, beside the statements that refuse. Neighbours: `admission` names the
//! broadest that stands against a run, the store keeps the rows, coordinators throw and lift.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    credential::check_actor,
    id::{AgentName, Digest, HaltId, Tenant},
    principal::Principal,
    reason::Reason,
    refusal::Refusal,
};

/// What a halt holds for. All but the fleet's hold within one tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// Everything: the ground stop.
    Fleet,
    /// One tenant.
    Tenant,
    /// One agent of it.
    Agent(AgentName),
    /// One revision of a declaration.
    Revision(Digest),
    /// What one principal submitted, by its name.
    Principal(String),
}

/// A text that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is no scope of a halt: `fleet`, `tenant`, `agent NAME`, `revision DIGEST` (64 hexadecimal digits) or \
     `principal NAME`"
)]
pub struct InvalidScope {
    /// What was given.
    pub given: String,
}

impl Scope {
    /// The kind of it, as stored.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Tenant => "tenant",
            Self::Agent(_) => "agent",
            Self::Revision(_) => "revision",
            Self::Principal(_) => "principal",
        }
    }

    /// What is named within the tenant, as stored; none: all of it.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Fleet | Self::Tenant => None,
            Self::Agent(agent) => Some(agent.to_string()),
            Self::Revision(digest) => Some(digest.to_string()),
            Self::Principal(actor) => Some(actor.clone()),
        }
    }

    /// The scope from its parts, as stored.
    ///
    /// # Errors
    /// This release knows no such scope.
    pub fn from_parts(word: &str, name: Option<&str>) -> Result<Self, InvalidScope> {
        let scope = match (word, name) {
            ("fleet", None) => Some(Self::Fleet),
            ("tenant", None) => Some(Self::Tenant),
            ("agent", Some(name)) => name.parse().ok().map(Self::Agent),
            ("revision", Some(name)) => name.parse().ok().map(Self::Revision),
            ("principal", Some(name)) => check_actor(name).is_ok().then(|| Self::Principal(name.to_owned())),
            _ => None,
        };
        scope.ok_or_else(|| InvalidScope {
            given: [word, name.unwrap_or_default()].join(" ").trim().to_owned(),
        })
    }
}

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(given: &str) -> Result<Self, InvalidScope> {
        let invalid = |_| InvalidScope { given: given.to_owned() };
        match given.trim().split_once(char::is_whitespace) {
            Some((word, name)) => Self::from_parts(word, Some(name.trim())).map_err(invalid),
            None => Self::from_parts(given.trim(), None).map_err(invalid),
        }
    }
}

impl TryFrom<String> for Scope {
    type Error = InvalidScope;

    fn try_from(given: String) -> Result<Self, InvalidScope> {
        given.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} {name}", self.word()),
            None => f.write_str(self.word()),
        }
    }
}

/// A halt, with who threw it, and who lifted it where somebody did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    /// Its number.
    pub id: HaltId,
    /// Within which tenant; none: the whole fleet.
    pub tenant: Option<Tenant>,
    /// What it holds for.
    pub scope: Scope,
    /// Who threw it.
    pub by: Principal,
    /// Why.
    pub why: String,
    /// When, by the database's clock.
    pub at: Timestamp,
    /// The lift; none: it stands.
    pub lift: Option<Lift>,
}

/// Who lifted a halt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lift {
    /// Who.
    pub by: Principal,
    /// Why.
    pub why: String,
    /// When, by the database's clock.
    pub at: Timestamp,
}

/// A halt that stands and matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StandingHalt {
    /// What it holds for; the broader, the smaller.
    pub scope: Scope,
    /// Its number.
    pub id: HaltId,
    /// Why it was thrown.
    pub why: String,
}

impl StandingHalt {
    /// The command that lifts it.
    #[must_use]
    pub fn lift_command(&self) -> String {
        format!("tenure lift {} --why W", self.id)
    }

    /// The refusal of what it stands against.
    #[must_use]
    pub fn refuse(&self, attempted: &str) -> Refusal {
        let words = format!("{attempted}: halt {} of {} stands: {}", self.id, self.scope, self.why);
        Refusal::new(Reason::Halted, words)
            .with_detail("halt", self.id)
            .with_detail("scope", &self.scope)
            .with_detail("why", &self.why)
            .with_next(self.lift_command())
    }
}

/// Whether a scope may be halted by its own: the fleet's halt also ends what is running, and is thrown by another verb.
///
/// # Errors
/// It is the fleet's.
pub fn check_halted_scope(scope: &Scope) -> Result<(), Refusal> {
    match scope {
        Scope::Fleet => {
            let words = "the halt of the whole fleet also ends every run, so it has a verb of its own";
            Err(Refusal::new(Reason::InvalidArgument, words)
                .with_detail("field", "scope")
                .with_next("tenure stop-all --why W"))
        }
        Scope::Tenant | Scope::Agent(_) | Scope::Revision(_) | Scope::Principal(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_is_written() {
        let digest = Digest::of(b"{}");
        for scope in [
            Scope::Fleet,
            Scope::Tenant,
            Scope::Agent("notes".parse().unwrap()),
            Scope::Revision(digest),
            Scope::Principal("ada lovelace".to_owned()),
        ] {
            assert_eq!(scope.to_string().parse(), Ok(scope.clone()));
            assert_eq!(Scope::from_parts(scope.word(), scope.name().as_deref()), Ok(scope));
        }
        assert_eq!(" agent   notes ".parse(), Ok(Scope::Agent("notes".parse().unwrap())));
    }

    #[test]
    fn what_is_no_scope_is_refused_and_never_guessed_at() {
        for given in [
            "",
            "agents",
            "agent",
            "agent Notes!",
            "tenant acme",
            "fleet all",
            "revision abc",
            "principal",
            "region eu",
        ] {
            assert!(given.parse::<Scope>().is_err(), "{given:?}");
        }
    }

    #[test]
    fn the_broadest_comes_first() {
        let standing = |id, scope| StandingHalt { scope, id: HaltId(id), why: "it spams".to_owned() };
        let mut halts = [
            standing(1, Scope::Principal("ada".to_owned())),
            standing(2, Scope::Agent("notes".parse().unwrap())),
            standing(4, Scope::Tenant),
            standing(3, Scope::Tenant),
            standing(5, Scope::Fleet),
        ];
        halts.sort();
        assert_eq!(halts.iter().map(|halt| halt.id.0).collect::<Vec<_>>(), [5, 3, 4, 2, 1]);
        let refusal = halts[1].refuse("cannot submit");
        assert_eq!(refusal.message, "cannot submit: halt 3 of tenant stands: it spams");
        assert_eq!((refusal.reason, refusal.details["scope"].as_str()), (Reason::Halted, "tenant"));
    }

    #[test]
    fn the_whole_fleet_is_stopped_by_its_own_verb() {
        assert_eq!(
            check_halted_scope(&Scope::Fleet).unwrap_err().next.as_deref(),
            Some("tenure stop-all --why W")
        );
        assert!(check_halted_scope(&Scope::Tenant).is_ok());
    }
}

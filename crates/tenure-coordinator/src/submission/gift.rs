//! From work that a run gives to a job that is ready to be stored with the giver's record: admitted under its agent's present
//! declaration, as a submission is, and sealed. It is not stored here: the giver's lane does that.

use tenure_core::{
    admission::{Gift, admit_gift, admit_session},
    id::JobId,
    plan::JobFacts,
    principal::Principal,
    refusal::Refusal,
    sending::Way,
};
use tenure_store::NewJob;

use super::{Admissions, Submissions, admission::Place};

impl Submissions {
    /// Admits and seals what a run gives, under an id where it has one already; `facts` are the giver's, and a principal's halt holds for what they set in motion.
    pub(crate) async fn seal_gift(
        &self,
        gift: Gift,
        facts: &JobFacts,
        submitted_by: Option<String>,
        job: Option<JobId>,
    ) -> Result<NewJob, Refusal> {
        let Admissions { clock, .. } = &self.admissions;
        let revision = self.admissions.read_revision(&facts.tenant, &gift.agent).await?;
        let session = match gift.way {
            Way::Send => Some(facts.session),
            Way::Spawn => None,
        };
        let by = Principal::connected(gift.sender.agent.as_str());
        let mut admitted =
            admit_gift(gift, facts, &revision.declaration, revision.bundle.as_ref(), clock.now())?;
        if session.is_none() {
            admit_session(revision.bundle.as_ref(), revision.spent)?;
        }
        let place = Place { tenant: &facts.tenant, generation: facts.generation, session, job };
        let new = self.admissions.seal(place, by, None, &mut admitted)?;
        Ok(match submitted_by {
            Some(submitted_by) => NewJob { submitted_by, ..new },
            None => new,
        })
    }
}

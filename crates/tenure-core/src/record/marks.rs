//! What a record's kind tells of beside itself: the direction in which its job works, what it changes in the balance of its session,
//! and what it says about an effect. Every match lists every kind, so that a new one cannot slip through.

use super::{BalanceMark, Phase, RecordKind};
use crate::{
    effect::{Declared, EffectAct, EffectMark},
    id::Digest,
};

impl RecordKind {
    /// The direction that the record itself tells of: undoing is undone under keys of its own, by runs of its own.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let compensates = match self {
            Self::UnwindStarted { .. } => true,
            Self::RunStarted { cause, .. } => cause.phase() == Phase::Compensating,
            Self::EffectStarted { key, .. }
            | Self::EffectDone { key, .. }
            | Self::EffectFailed { key, .. }
            | Self::EffectReconciled { key, .. } => key.is_undo(),
            Self::JobAdmitted { .. }
            | Self::PlanFrozen { .. }
            | Self::Note { .. }
            | Self::Remembered { .. }
            | Self::StepStarted { .. }
            | Self::StepFinished { .. }
            | Self::EffectsUnasked { .. }
            | Self::QuarantineDecided { .. }
            | Self::GroupOpened { .. }
            | Self::GroupSettled { .. }
            | Self::Reopened { .. }
            | Self::Resumed { .. }
            | Self::Sent(_)
            | Self::Spawned(_)
            | Self::SendRefused { .. }
            | Self::AbandonRequested { .. }
            | Self::LayoverBooked { .. }
            | Self::Steered { .. }
            | Self::RunHandedOver { .. }
            | Self::Suspended { .. }
            | Self::Woken { .. }
            | Self::ChildGone { .. }
            | Self::RunInterrupted { .. }
            | Self::RecoveryDenied { .. }
            | Self::GrantReleased { .. }
            | Self::DeadlineDenied { .. }
            | Self::Spent { .. }
            | Self::BudgetRefused { .. }
            | Self::BudgetReadmitted { .. }
            | Self::LimitRaised { .. }
            | Self::CancelRequested { .. }
            | Self::OperatorActed { .. }
            | Self::JobConcluded { .. } => false,
        };
        if compensates { Phase::Compensating } else { Phase::Forward }
    }

    /// What the record changes in the balance of its job's session. `phase` is the record's: undoing draws on nothing.
    #[must_use]
    pub fn balance_mark(&self, phase: Phase) -> Option<BalanceMark> {
        match self {
            Self::GrantReleased { .. } if phase == Phase::Forward => {
                Some(BalanceMark { runs_back: 1, ..BalanceMark::default() })
            }
            Self::LimitRaised { limit, to, .. } => {
                Some(BalanceMark { raised: Some((*limit, *to)), ..BalanceMark::default() })
            }
            Self::Spent { spend } => Some(BalanceMark { spend: *spend, ..BalanceMark::default() }),
            Self::GrantReleased { .. }
            | Self::JobAdmitted { .. }
            | Self::PlanFrozen { .. }
            | Self::RunStarted { .. }
            | Self::Note { .. }
            | Self::Remembered { .. }
            | Self::StepStarted { .. }
            | Self::StepFinished { .. }
            | Self::EffectStarted { .. }
            | Self::EffectDone { .. }
            | Self::EffectFailed { .. }
            | Self::EffectReconciled { .. }
            | Self::EffectsUnasked { .. }
            | Self::QuarantineDecided { .. }
            | Self::UnwindStarted { .. }
            | Self::GroupOpened { .. }
            | Self::GroupSettled { .. }
            | Self::Reopened { .. }
            | Self::Resumed { .. }
            | Self::LayoverBooked { .. }
            | Self::Suspended { .. }
            | Self::Woken { .. }
            | Self::Sent(_)
            | Self::Spawned(_)
            | Self::SendRefused { .. }
            | Self::ChildGone { .. }
            | Self::RunInterrupted { .. }
            | Self::RecoveryDenied { .. }
            | Self::DeadlineDenied { .. }
            | Self::BudgetRefused { .. }
            | Self::BudgetReadmitted { .. }
            | Self::CancelRequested { .. }
            | Self::AbandonRequested { .. }
            | Self::Steered { .. }
            | Self::RunHandedOver { .. }
            | Self::OperatorActed { .. }
            | Self::JobConcluded { .. } => None,
        }
    }

    /// What the record says about an effect, where it is about one. `request` is the digest of what is performed.
    #[must_use]
    pub fn effect_mark(&self, request: Option<Digest>) -> Option<EffectMark> {
        let (key, attempt, act) = match self {
            Self::EffectStarted { key, attempt, recovery, mutates, tool, compensation, .. } => {
                let declared =
                    Declared { recovery: *recovery, mutates: *mutates, compensation: *compensation };
                (key, attempt, EffectAct::Announced { declared, tool: tool.clone(), request: request? })
            }
            Self::EffectDone { key, attempt, .. } => (key, attempt, EffectAct::Done),
            Self::EffectFailed { key, attempt, disposition, .. } => {
                (key, attempt, EffectAct::Failed(*disposition))
            }
            Self::EffectReconciled { key, attempt, verdict, .. } => {
                (key, attempt, EffectAct::Reconciled(*verdict))
            }
            Self::JobAdmitted { .. }
            | Self::PlanFrozen { .. }
            | Self::RunStarted { .. }
            | Self::Note { .. }
            | Self::Remembered { .. }
            | Self::StepStarted { .. }
            | Self::StepFinished { .. }
            | Self::EffectsUnasked { .. }
            | Self::QuarantineDecided { .. }
            | Self::UnwindStarted { .. }
            | Self::GroupOpened { .. }
            | Self::GroupSettled { .. }
            | Self::Reopened { .. }
            | Self::Resumed { .. }
            | Self::LayoverBooked { .. }
            | Self::Suspended { .. }
            | Self::Woken { .. }
            | Self::ChildGone { .. }
            | Self::RunInterrupted { .. }
            | Self::RecoveryDenied { .. }
            | Self::GrantReleased { .. }
            | Self::Sent(_)
            | Self::Spawned(_)
            | Self::SendRefused { .. }
            | Self::DeadlineDenied { .. }
            | Self::Spent { .. }
            | Self::BudgetRefused { .. }
            | Self::BudgetReadmitted { .. }
            | Self::LimitRaised { .. }
            | Self::CancelRequested { .. }
            | Self::AbandonRequested { .. }
            | Self::Steered { .. }
            | Self::RunHandedOver { .. }
            | Self::OperatorActed { .. }
            | Self::JobConcluded { .. } => return None,
        };
        Some(EffectMark { key: key.clone(), attempt: *attempt, act })
    }
}

//! What each call needs of its caller: the one table from methods to scopes. A method that is not in it is no call of ours;
//! whoever adds one to the protocol adds its row, which a test demands. Neighbours: the coordinator asks before it reads a
//! call's body; `tenure_core::credential` has the words.

use tenure_core::credential::{
    Access,
    Scope::{Administer, Operate, Read, Submit, Work},
};

/// Every method that a coordinator serves, as the path of its call without the first slash.
pub const METHODS: [(&str, Access); 45] = [
    ("tenure.v1.JobService/SubmitJob", Access::Tenant(Submit)),
    ("tenure.v1.JobService/SubmitJobs", Access::Tenant(Submit)),
    ("tenure.v1.JobService/GetJob", Access::Tenant(Read)),
    ("tenure.v1.JobService/ListJobs", Access::Tenant(Read)),
    ("tenure.v1.JobService/WatchJob", Access::Tenant(Read)),
    ("tenure.v1.JobService/ListRecords", Access::Tenant(Read)),
    ("tenure.v1.JobService/ReadOutput", Access::Tenant(Read)),
    ("tenure.v1.JobService/ListEffects", Access::Tenant(Read)),
    ("tenure.v1.JobService/ListUndecided", Access::Tenant(Read)),
    ("tenure.v1.JobService/GetResult", Access::Tenant(Read)),
    ("tenure.v1.JobService/PutBlob", Access::Tenant(Submit)),
    ("tenure.v1.JobService/GetBlob", Access::Tenant(Read)),
    ("tenure.v1.JobService/EraseJob", Access::Tenant(Administer)),
    ("tenure.v1.JobService/CancelJob", Access::Tenant(Operate)),
    ("tenure.v1.JobService/RecoverJob", Access::Tenant(Operate)),
    ("tenure.v1.JobService/ConfirmGone", Access::Tenant(Operate)),
    ("tenure.v1.JobService/ReconcileEffect", Access::Tenant(Operate)),
    ("tenure.v1.JobService/ReopenJob", Access::Tenant(Operate)),
    ("tenure.v1.JobService/AbandonJob", Access::Tenant(Operate)),
    ("tenure.v1.JobService/ResumeJob", Access::Tenant(Operate)),
    ("tenure.v1.AttentionService/GetAttention", Access::Tenant(Read)),
    ("tenure.v1.HaltService/ThrowHalt", Access::Tenant(Operate)),
    ("tenure.v1.HaltService/LiftHalt", Access::Fleet(Operate)),
    ("tenure.v1.HaltService/ListHalts", Access::Fleet(Read)),
    ("tenure.v1.JobService/GetSession", Access::Tenant(Read)),
    ("tenure.v1.JobService/RaiseLimit", Access::Tenant(Operate)),
    ("tenure.v1.JobService/SteerJob", Access::Tenant(Operate)),
    ("tenure.v1.AgentService/ApplyAgents", Access::Tenant(Administer)),
    ("tenure.v1.AgentService/ListAgents", Access::Tenant(Read)),
    ("tenure.v1.AgentService/ListMemories", Access::Tenant(Read)),
    ("tenure.v1.WorkerService/RegisterWorker", Access::Fleet(Work)),
    ("tenure.v1.WorkerService/Attach", Access::Fleet(Work)),
    ("tenure.v1.WorkerService/ReadEffect", Access::Fleet(Work)),
    ("tenure.v1.WorkerService/ReadSteps", Access::Fleet(Work)),
    ("tenure.v1.WorkerService/ReadStepToUndo", Access::Fleet(Work)),
    ("tenure.v1.WorkerService/AskWait", Access::Fleet(Work)),
    ("tenure.v1.WorkerService/BookLayover", Access::Fleet(Work)),
    ("tenure.v1.WorkerService/ReadInput", Access::Fleet(Work)),
    ("tenure.v1.WorkerService/PutResult", Access::Fleet(Work)),
    ("tenure.v1.WorkerService/SendJob", Access::Fleet(Work)),
    ("tenure.v1.WorkerService/ReportGone", Access::RunSecret),
    ("tenure.v1.WorkerService/ListWorkers", Access::Fleet(Read)),
    ("grpc.health.v1.Health/Check", Access::Open),
    ("grpc.health.v1.Health/Watch", Access::Open),
    ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Access::Fleet(Read)),
];

/// What the call of this path needs; none where it is no call of ours.
#[must_use]
pub fn access_of(path: &str) -> Option<Access> {
    let method = path.strip_prefix('/')?;
    METHODS.iter().find(|(known, _)| *known == method).map(|(_, access)| *access)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    use super::*;
    use crate::FILE_DESCRIPTOR_SET;

    /// Served by a worker at the socket of a run, which is its own credential.
    const OF_RUNS: &str = "tenure.v1.RunService";

    fn described() -> BTreeSet<String> {
        let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
        let services = set.file.iter().filter(|file| file.package() == "tenure.v1");
        let services = services
            .flat_map(|file| file.service.iter())
            .filter(|service| format!("tenure.v1.{}", service.name()) != OF_RUNS);
        services
            .flat_map(|service| {
                service.method.iter().map(|method| format!("tenure.v1.{}/{}", service.name(), method.name()))
            })
            .collect()
    }

    #[test]
    fn every_method_of_the_protocol_has_its_row_and_no_row_is_of_no_method() {
        let known: BTreeSet<String> = METHODS
            .iter()
            .map(|(method, _)| (*method).to_owned())
            .filter(|method| method.starts_with("tenure."))
            .collect();
        assert_eq!(known, described());
    }

    #[test]
    fn a_path_is_known_only_whole() {
        assert_eq!(access_of("/grpc.health.v1.Health/Check"), Some(Access::Open));
        for path in
            ["", "/", "grpc.health.v1.Health/Check", "/tenure.v1.JobService/", "/tenure.v1.JobService/Nope"]
        {
            assert_eq!(access_of(path), None, "{path}");
        }
    }
}

//! A coordinator that wants credentials, and the tokens that a test gives out.

use std::{collections::BTreeSet, path::PathBuf};

use jiff::Timestamp;
use tempfile::TempDir;
use tenure_coordinator::{Coordinator, CoordinatorOptions, RunningCoordinator, mint_token};
use tenure_core::{
    credential::{IssuedToken, Scope, Tenants, Token, file::write_token},
    id::Tenant,
};
use tenure_proto::{
    caller::CallerMetadata,
    v1::{self, agent_service_client::AgentServiceClient, job_service_client::JobServiceClient},
};
use tenure_testkit::TestDatabase;

use crate::fleet::{PLAIN_AGENT, Way, open_way, submission};

pub(super) struct Scene {
    pub(super) coordinator: RunningCoordinator,
    _database: TestDatabase,
    directory: TempDir,
    issued: Vec<IssuedToken>,
}

impl Scene {
    /// A coordinator with a file of tokens that has one: `*` with every scope.
    pub(super) async fn start() -> (Self, Token) {
        Self::start_on(TestDatabase::create().await.unwrap(), |_| {}).await
    }

    /// The same on a database that is there, and with further settings.
    pub(super) async fn start_on(
        database: TestDatabase,
        change: impl FnOnce(&mut CoordinatorOptions),
    ) -> (Self, Token) {
        let directory = tempfile::tempdir().unwrap();
        let (token, issued) = issue("*", &Scope::ALL);
        let tokens = directory.path().join("tokens");
        std::fs::write(&tokens, write_token(&issued)).unwrap();
        let mut options = CoordinatorOptions {
            tokens: Some(tokens),
            ..CoordinatorOptions::new(database.url(), "127.0.0.1:0".parse().unwrap())
        };
        change(&mut options);
        let coordinator = Coordinator::start(options).await.unwrap();
        (Self { coordinator, _database: database, directory, issued: vec![issued] }, token)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("tokens")
    }

    /// Gives out tokens, and returns once they are known.
    pub(super) async fn give_out(&mut self, issued: Vec<(Token, IssuedToken)>) -> Vec<Token> {
        let (tokens, issued): (Vec<_>, Vec<_>) = issued.into_iter().unzip();
        self.issued.extend(issued);
        self.write();
        // The last of the file is known together with all others; a probe that has no scope is known all the same.
        let probe = tokens.last().unwrap().clone();
        tenure_testkit::wait_for("the tokens to be known", crate::fleet::PATIENCE, async || {
            let unknown = "tenure.v1.Nowhere/Nothing";
            let answer = super::raw::call(self.way(&probe), unknown, Vec::new()).await.unwrap_err();
            if answer.code() == tonic::Code::Unimplemented { Ok(()) } else { Err(answer) }
        })
        .await;
        tokens
    }

    /// Takes a token out of the file.
    pub(super) fn take_back(&mut self, token: &Token) {
        self.issued.retain(|issued| issued.id != *token.id());
        self.write();
    }

    /// Lets a token end at an instant.
    pub(super) fn end_at(&mut self, token: &Token, expires_at: Timestamp) {
        for issued in self.issued.iter_mut().filter(|issued| issued.id == *token.id()) {
            issued.expires_at = Some(expires_at);
        }
        self.write();
    }

    fn write(&self) {
        let lines: Vec<String> = self.issued.iter().map(write_token).collect();
        let draft = self.directory.path().join("draft");
        std::fs::write(&draft, lines.join("\n")).unwrap();
        std::fs::rename(&draft, self.path()).unwrap();
    }

    /// A way for the bearer of a token.
    pub(super) fn way(&self, token: &Token) -> Way {
        open_way(&self.coordinator, CallerMetadata::new(Some(token), None))
    }

    /// A way for the bearer of a token, who means a tenant.
    pub(super) fn way_for(&self, token: &Token, tenant: &str) -> Way {
        let tenant: Tenant = tenant.parse().unwrap();
        open_way(&self.coordinator, CallerMetadata::new(Some(token), Some(&tenant)))
    }

    /// A way for whoever has no token.
    pub(super) fn anonymous(&self) -> Way {
        open_way(&self.coordinator, CallerMetadata::default())
    }
}

/// A token of these tenants, separated by commas, and what is kept of it.
pub(super) fn issue(tenants: &str, scopes: &[Scope]) -> (Token, IssuedToken) {
    let token = mint_token();
    let tenants: Vec<&str> = tenants.split(',').collect();
    let issued = IssuedToken {
        id: token.id().clone(),
        hash: token.hash(),
        tenants: Tenants::from_texts(&tenants).unwrap(),
        actor: "ada".into(),
        scopes: scopes.iter().copied().collect::<BTreeSet<_>>(),
        expires_at: None,
        revoked_at: None,
    };
    (token, issued)
}

/// The same with an end.
pub(super) fn issue_until(tenants: &str, scopes: &[Scope], expires_at: Timestamp) -> (Token, IssuedToken) {
    let (token, issued) = issue(tenants, scopes);
    (token, IssuedToken { expires_at: Some(expires_at), ..issued })
}

/// Declares an agent `plain`.
pub(super) async fn apply(way: Way) {
    let agent = v1::AgentDeclaration { name: "plain".into(), document: PLAIN_AGENT.into() };
    let request = v1::ApplyAgentsRequest { agents: vec![agent], ..Default::default() };
    AgentServiceClient::new(way).apply_agents(request).await.unwrap();
}

/// Submits a job of it.
pub(super) async fn submit(way: Way) -> String {
    let request = v1::SubmitJobRequest { submission: Some(submission("plain")) };
    JobServiceClient::new(way).submit_job(request).await.unwrap().into_inner().admitted.unwrap().job_id
}

//! TLS: who believes whom, and who must show a certificate.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tempfile::TempDir;
use tenure_coordinator::{RunningCoordinator, TlsFiles};
use tenure_core::{
    credential::{Scope, Token},
    reason::Reason,
};
use tenure_proto::{
    caller::CallerMetadata,
    tls::ClientTls,
    v1::{self, job_service_client::JobServiceClient, worker_service_client::WorkerServiceClient},
};
use tenure_testkit::TestDatabase;
use tonic::{
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use super::scene::Scene;
use crate::{
    fleet::{PATIENCE, Way, reason},
    worker::introduction,
};

/// An authority, and what it vouches for.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for these names, and its key.
    fn vouch_for(&self, names: &[&str], purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn vouch_for_client(&self) -> (String, String) {
        self.vouch_for(&["worker"], ExtendedKeyUsagePurpose::ClientAuth)
    }
}

/// A coordinator that speaks TLS, and with `client_ca` wants certificates of workers.
async fn start(authority: &Authority, client_ca: Option<&Authority>) -> (Scene, Token, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (certificate, key) =
        authority.vouch_for(&["localhost", "127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth);
    std::fs::write(path("cert"), certificate).unwrap();
    std::fs::write(path("key"), key).unwrap();
    let client_ca = client_ca.map(|client_ca| {
        std::fs::write(path("client-ca"), client_ca.pem()).unwrap();
        path("client-ca")
    });
    let tls = TlsFiles { certificate: path("cert"), key: path("key"), client_ca };
    let database = TestDatabase::create().await.unwrap();
    let (scene, token) = Scene::start_on(database, |options| options.tls = Some(tls)).await;
    (scene, token, directory)
}

fn open(coordinator: &RunningCoordinator, tls: &ClientTls, token: Option<&Token>) -> Way {
    let address = format!("https://{}", coordinator.local_addr());
    let endpoint = Endpoint::from_shared(address.clone()).unwrap().connect_timeout(PATIENCE);
    let channel: Channel = tls.apply(&address, endpoint).unwrap().connect_lazy();
    let tenant = "acme".parse().unwrap();
    InterceptedService::new(channel, CallerMetadata::new(token, Some(&tenant)))
}

async fn list(way: Way) -> Result<usize, tonic::Status> {
    let listed = JobServiceClient::new(way).list_jobs(v1::ListJobsRequest::default()).await;
    listed.map(|page| page.into_inner().jobs.len())
}

#[tokio::test]
async fn a_client_believes_the_authority_that_it_was_given_and_no_other() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (scene, token, _directory) = start(&authority, None).await;
    assert_eq!(scene.coordinator.scheme(), "https");
    let believing = |authority: Option<&Authority>| ClientTls {
        ca_pem: authority.map(Authority::pem),
        ..ClientTls::default()
    };
    let way = |tls: &ClientTls| open(&scene.coordinator, tls, Some(&token));
    assert_eq!(list(way(&believing(Some(&authority)))).await.unwrap(), 0);
    for tls in [believing(Some(&stranger)), believing(None)] {
        let refused = list(way(&tls)).await.unwrap_err();
        assert!(tenure_proto::status::status_to_refusal(&refused).is_none(), "{refused:?}");
    }
    // Plain text is not answered.
    assert!(list(scene.way_for(&token, "acme")).await.is_err());
    // The gate is behind TLS as before plain text.
    let anonymous = open(&scene.coordinator, &believing(Some(&authority)), None);
    assert_eq!(reason(list(anonymous).await), Reason::CredentialMissing);
}

/// Provokes `CERTIFICATE_MISSING`.
#[tokio::test]
async fn workers_show_a_certificate_where_it_is_wanted_and_others_need_not() {
    let (authority, clients, stranger) = (Authority::new(), Authority::new(), Authority::new());
    let (scene, token, _directory) = start(&authority, Some(&clients)).await;
    let showing = |identity_pem: Option<(String, String)>| ClientTls {
        ca_pem: Some(authority.pem()),
        identity_pem,
        ..ClientTls::default()
    };
    let way = |tls: &ClientTls, token: Option<&Token>| open(&scene.coordinator, tls, token);
    let register = async |way| {
        let registered = WorkerServiceClient::new(way).register_worker(introduction("w1")).await;
        registered.map(|response| response.into_inner().term)
    };
    let (nothing, shown) = (showing(None), showing(Some(clients.vouch_for_client())));
    assert_eq!(reason(register(way(&nothing, Some(&token))).await), Reason::CertificateMissing);
    assert!(register(way(&shown, Some(&token))).await.unwrap() > 0);
    assert_eq!(reason(register(way(&shown, None)).await), Reason::CredentialMissing);
    assert_eq!(list(way(&nothing, Some(&token))).await.unwrap(), 0);
    assert_eq!(list(way(&shown, Some(&token))).await.unwrap(), 0);
    // A guardian has the secret of its run and nothing else.
    let report = v1::ReportGoneRequest {
        tenant: "acme".into(),
        job_id: "0193a7c2-1111-7000-8000-00000000abcd".into(),
        epoch: 1,
        ..Default::default()
    };
    let reported = WorkerServiceClient::new(way(&nothing, None)).report_gone(report).await;
    assert_eq!(reason(reported), Reason::GoneRefused);
    // One that does not verify ends the connection.
    let forged = showing(Some(stranger.vouch_for_client()));
    let refused = list(way(&forged, Some(&token))).await.unwrap_err();
    assert!(tenure_proto::status::status_to_refusal(&refused).is_none(), "{refused:?}");
}

#[test]
fn every_scope_but_that_of_workers_goes_without_a_certificate() {
    let of_workers = tenure_proto::access::METHODS
        .iter()
        .filter(|(_, access)| matches!(access, tenure_core::credential::Access::Fleet(Scope::Work)))
        .map(|(method, _)| *method);
    let expected = [
        "RegisterWorker",
        "Attach",
        "ReadEffect",
        "ReadSteps",
        "ReadStepToUndo",
        "AskWait",
        "BookLayover",
        "ReadInput",
        "PutResult",
        "SendJob",
    ];
    assert!(of_workers.eq(expected.map(|method| format!("tenure.v1.WorkerService/{method}"))));
}

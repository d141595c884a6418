//! Workers, guardians and children that reach their coordinator by TLS alone, with certificates on both sides. A second
//! coordinator of the fleet speaks it; what the tests themselves ask, they ask the first.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use tenure_testkit::{Cluster, PREFACE, read_to_close, throw_bytes, wait_for};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::fixture::{Fleet, PATIENCE, program, refusal_code, wait_for_line};

/// Its first run ends only by force.
const AGENTS: &str = r#"
[agents.patient]
script = '''
tenure note "run $TENURE_RUN is on its way"
[ "$TENURE_RUN" != 1 ] || sleep 600
'''
"#;

/// A coordinator that speaks TLS and wants certificates of workers.
struct Secured {
    process: Child,
    address: SocketAddr,
    directory: PathBuf,
}

impl Drop for Secured {
    fn drop(&mut self) {
        // It ends with the test.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes an authority, and a certificate that it vouches for.
fn write_certificate(directory: &Path, what: &str, name: &str, purpose: ExtendedKeyUsagePurpose) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, format!("authority of the {what}"));
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.extended_key_usages = vec![purpose];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    fs::write(directory.join(format!("{what}-ca")), issuer.pem()).unwrap();
    fs::write(directory.join(format!("{what}-cert")), certificate.pem()).unwrap();
    fs::write(directory.join(format!("{what}-key")), key.serialize_pem()).unwrap();
}

impl Secured {
    async fn start(fleet: &Fleet) -> Self {
        let directory = fleet.cluster.directory().join("tls");
        fs::create_dir(&directory).unwrap();
        write_certificate(&directory, "server", "127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
        write_certificate(&directory, "worker", "worker", ExtendedKeyUsagePurpose::ClientAuth);
        let said = directory.join("said");
        let process = Command::new(program())
            .args(["coordinator", "--json", "--log", "info,tonic=debug"])
            .args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--database-url", &fleet.cluster.postgres.url("postgres"), "--tokens"])
            .arg(fleet.cluster.tokens_path().unwrap())
            .arg("--tls-cert")
            .arg(directory.join("server-cert"))
            .arg("--tls-key")
            .arg(directory.join("server-key"))
            .arg("--tls-client-ca")
            .arg(directory.join("worker-ca"))
            .stdin(Stdio::null())
            .stdout(fs::File::create(&said).unwrap())
            .stderr(fs::File::create(directory.join("log")).unwrap())
            .spawn()
            .unwrap();
        wait_for_line(&said).await;
        let places: serde_json::Value = serde_json::from_str(&fs::read_to_string(&said).unwrap()).unwrap();
        Self { process, address: places["listen"].as_str().unwrap().parse().unwrap(), directory }
    }

    fn endpoint(&self) -> String {
        format!("https://{}", self.address)
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// What a worker is given that shows this certificate.
    fn worker_arguments(&self, certificate: &str) -> Vec<String> {
        let pairs = [
            ("--tls-ca", "server-ca".to_owned()),
            ("--tls-client-cert", format!("{certificate}-cert")),
            ("--tls-client-key", format!("{certificate}-key")),
        ];
        pairs.iter().flat_map(|(flag, name)| [(*flag).to_owned(), self.path(name)]).collect()
    }

    /// A worker that knows nobody else. Its term outlives every patience: nothing here is found out by its lapse.
    fn start_worker(&self, fleet: &mut Fleet, name: &str, arguments: &[String]) {
        let arguments: Vec<&str> =
            ["--ttl", "5m"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        fleet.cluster.start_worker_at(name, &self.endpoint(), &arguments).unwrap();
    }
}

async fn start() -> (Fleet, Secured) {
    let fleet = Fleet::with_cluster(Cluster::start_guarded(program()).await.unwrap(), AGENTS);
    let secured = Secured::start(&fleet).await;
    (fleet, secured)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_run_and_its_guardian_heard_where_everything_goes_by_tls() {
    let (mut fleet, secured) = start().await;
    let shown = secured.worker_arguments("worker");
    secured.start_worker(&mut fleet, "w1", &shown);
    let job = fleet.submit("patient", "");
    wait_for("the note of the first run", PATIENCE, async || match fleet.notes(job).await {
        notes if notes.is_empty() => Err("no note"),
        _ => Ok(()),
    })
    .await;
    assert_eq!(fleet.wait_for_holder(job).await, "w1");
    secured.start_worker(&mut fleet, "w2", &shown);
    fleet.cluster.kill_worker("w1", &[]).unwrap();
    // The term outlives the test: nobody but the guardian can say that the child is gone.
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(fleet.notes(job).await, ["run 1 is on its way", "run 2 is on its way"]);
    let journal = fleet.cluster.journal(&job.to_string()).unwrap();
    let second = journal.iter().rposition(|record| record["kind"] == "run_started").unwrap();
    let [.., gone, interrupted] = &journal[..second] else { panic!("a first run: {journal:?}") };
    assert_eq!(
        (&gone["kind"], &gone["record"]["proof"]),
        (&"child_gone".into(), &"guardian".into()),
        "{gone}"
    );
    assert_eq!(interrupted["record"]["interruption"]["kind"], "worker_lost", "{interrupted}");
    assert_eq!(journal[second]["record"]["worker"], "w2");
}

/// Provokes `CERTIFICATE_MISSING` and `COORDINATOR_UNAVAILABLE`.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_lacks_the_right_authority_or_certificate_is_told_so() {
    let (mut fleet, secured) = start().await;
    let ask = |more: &[&str]| {
        let mut command = fleet.cluster.tenure_at(&secured.endpoint(), &[&["jobs", "--json"], more].concat());
        command.output().unwrap()
    };
    let (right, wrong) = (secured.path("server-ca"), secured.path("worker-ca"));
    let served = ask(&["--tls-ca", &right]);
    assert!(served.status.success(), "{served:?}");
    for more in [&[][..], &["--tls-ca", &wrong]] {
        let refused = ask(more);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refusal_code(&refused), "COORDINATOR_UNAVAILABLE");
        assert!(said.contains("invalid peer certificate: UnknownIssuer"), "{more:?}: {said}");
    }

    write_certificate(&secured.directory, "stranger", "worker", ExtendedKeyUsagePurpose::ClientAuth);
    let log_of = |fleet: &Fleet, name: &str| fs::read_to_string(fleet.cluster.log_path(name)).unwrap();
    let without = ["--tls-ca".to_owned(), right];
    let misled = ["--tls-ca".to_owned(), wrong];
    let cases = [
        ("w1", without.to_vec(), "CERTIFICATE_MISSING"),
        ("w2", misled.to_vec(), "invalid peer certificate: UnknownIssuer"),
        // By then its handshake is over, as far as it knows: the connection ends under its first call.
        ("w3", secured.worker_arguments("stranger"), "could not be registered; it tries again"),
    ];
    for (name, arguments, words) in cases {
        secured.start_worker(&mut fleet, name, &arguments);
        wait_for(&format!("{name} to say {words}"), PATIENCE, async || {
            let log = log_of(&fleet, name);
            if log.contains(words) { Ok(()) } else { Err(log) }
        })
        .await;
    }
    wait_for("the coordinator to say why it ended the last", PATIENCE, async || {
        let log = fs::read_to_string(secured.path("log")).unwrap();
        if log.contains("invalid peer certificate: UnknownIssuer") { Ok(()) } else { Err(log) }
    })
    .await;
    let (registered,): (i64,) =
        sqlx::query_as("SELECT count(*) FROM terms").fetch_one(&fleet.cluster.database).await.unwrap();
    assert_eq!(registered, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_are_never_finished_are_ended_and_keep_nobody_out() {
    const HANDSHAKES: usize = 600;
    let (fleet, secured) = start().await;
    let ca = secured.path("server-ca");
    let expect_service = || {
        let served =
            fleet.cluster.tenure_at(&secured.endpoint(), &["jobs", "--tls-ca", &ca]).output().unwrap();
        assert!(served.status.success(), "{served:?}");
    };
    // Nothing, the head of a record, and a hello that is not whole.
    let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 100]].concat();
    let beginnings: [&[u8]; 3] = [b"", &hello[..5], &hello];
    let mut standing = Vec::new();
    for beginning in beginnings.into_iter().cycle().take(HANDSHAKES) {
        let mut stream = TcpStream::connect(secured.address).await.unwrap();
        stream.write_all(beginning).await.unwrap();
        standing.push(stream);
    }
    expect_service();
    for (number, stream) in standing.iter_mut().enumerate() {
        let answer = read_to_close(stream, PATIENCE).await;
        assert!(answer.is_some(), "handshake {number} stayed open");
    }
    let read_log = || fs::read_to_string(secured.path("log")).unwrap();
    wait_for("each to have ended by the limit of the handshake", PATIENCE, async || {
        let ended = read_log().matches("tls accept error").count();
        if ended == HANDSHAKES { Ok(()) } else { Err(ended) }
    })
    .await;
    let log = read_log();
    assert!(
        !log.contains("a connection that does not go on is closed"),
        "and none by that of the first call"
    );
    // Plain text is no handshake.
    let plain = throw_bytes(secured.address, PREFACE, PATIENCE).await.unwrap();
    assert!(plain.is_some(), "plain text is not waited for");
    expect_service();
}

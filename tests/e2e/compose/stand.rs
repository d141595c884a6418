//! The services of the compose file as processes of this host. What a container would have to itself is given by
//! substitution, and nothing else is changed: host names and ports, the folder of the secrets, the data directory. A
//! worker, which is called after its host, is told the name that its container would have.
//!
//! The server that PostgreSQL's image would run is a private one with the settings of the compose file, and what that image
//! does when its volume is new is the script that the compose file mounts. In place of the collector stands the one of the
//! test kit, which speaks the same protocol and keeps what it is sent.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use nix::{sys::signal::kill, unistd::Pid};
use tempfile::TempDir;
use tenure_postgres::{Options, Server, Stop};
use tenure_testkit::{Collector, wait_for};

use super::description::{Description, Service, repository};
use crate::fixture::{PATIENCE, program};

/// The coordinators, by their services.
pub(crate) const COORDINATORS: [&str; 2] = ["coordinator-1", "coordinator-2"];

/// The services, running or not.
pub(crate) struct Stand {
    pub(crate) description: Description,
    /// In place of the collector.
    pub(crate) collector: Collector,
    running: BTreeMap<String, Child>,
    /// gRPC of each coordinator.
    ports: BTreeMap<&'static str, u16>,
    /// The probes of each coordinator and worker, which have a loopback each in containers.
    probes: BTreeMap<String, u16>,
    postgres: Server,
    database_port: u16,
    directory: TempDir,
}

impl Stand {
    /// Makes the secrets with the script that people run, and starts the database with what is mounted into it.
    pub(crate) fn start_database(collector: Collector) -> Self {
        let description = Description::read();
        let directory = tempfile::Builder::new().prefix("tenure-").tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let database_port = find_port();
        let workers = 1..=description.services["worker"].deploy.as_ref().unwrap().replicas;
        let workers = workers.map(|number| format!("worker#{number}"));
        let served = COORDINATORS.map(str::to_owned).into_iter().chain(workers);
        let probes = served.map(|instance| (instance, find_port())).collect();
        let stand = Self {
            postgres: Server::start(read_options(&description, database_port)).unwrap(),
            description,
            collector,
            running: BTreeMap::new(),
            ports: COORDINATORS.map(|name| (name, find_port())).into(),
            probes,
            database_port,
            directory,
        };
        stand.make_credentials();
        stand.create_database();
        stand
    }

    fn make_credentials(&self) {
        let mut script = Command::new(repository().join("deploy/docker/make-credentials"));
        script.env("TENURE", program()).env("TENURE_SECRETS", self.secrets()).stdin(Stdio::null());
        succeed(&mut script);
        let made = read_files(&self.secrets());
        succeed(&mut script);
        assert_eq!(read_files(&self.secrets()), made, "what is there already is left alone");
        // The host of the database is in a secret: there it is substituted too.
        let path = self.secrets().join("database-url");
        let url = fs::read_to_string(&path).unwrap();
        let there = url.replace("@postgres:5432/", &format!("@127.0.0.1:{}/", self.database_port));
        assert_ne!(there, url, "the database is not where the compose file has it");
        fs::write(path, there).unwrap();
    }

    /// What the image does with a new volume: the mounted script, through the server's own socket.
    fn create_database(&self) {
        let mounted = repository().join("deploy/docker/create-database.sh");
        let mut script = Command::new(mounted);
        script.env("DATABASE_PASSWORD_FILE", self.secrets().join("database-password")).stdin(Stdio::null());
        let url = self.postgres.url("postgres");
        let socket = url.split("host=").nth(1).unwrap();
        script.env("PGHOST", socket).env("PGPORT", self.database_port.to_string()).env("PGUSER", "postgres");
        script.env("PATH", self.path_with_postgres());
        succeed(&mut script);
    }

    fn path_with_postgres(&self) -> String {
        let programs = self.postgres.binaries().program("psql");
        format!("{}:{}", programs.parent().unwrap().display(), std::env::var("PATH").unwrap())
    }

    /// A directory of its own.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where the secrets are.
    pub(crate) fn secrets(&self) -> PathBuf {
        self.path().join("secrets")
    }

    /// The address of the database, as the coordinators read it.
    pub(crate) fn database_url(&self) -> String {
        fs::read_to_string(self.secrets().join("database-url")).unwrap()
    }

    /// The service that an instance is one of: `worker#2` is a `worker`.
    pub(crate) fn service(&self, instance: &str) -> &Service {
        let name = instance.split('#').next().unwrap();
        self.description.services.get(name).unwrap_or_else(|| panic!("no service is called {name}"))
    }

    /// The same text, with what this host has in place of what a container has to itself.
    fn substitute(&self, instance: &str, text: &str) -> String {
        let mut places = vec![
            ("/run/secrets".to_owned(), self.secrets().display().to_string()),
            ("/var/lib/tenure".to_owned(), self.path().join(instance).display().to_string()),
            ("http://collector:4317".to_owned(), self.collector.endpoint()),
        ];
        if let Some(http) = self.probes.get(instance) {
            places.push(("127.0.0.1:7421".to_owned(), format!("127.0.0.1:{http}")));
        }
        for (name, grpc) in &self.ports {
            places.push((format!("{name}:7420"), format!("127.0.0.1:{grpc}")));
            if *name == instance {
                places.push(("0.0.0.0:7420".to_owned(), format!("0.0.0.0:{grpc}")));
                places.push(("127.0.0.1:7420".to_owned(), format!("127.0.0.1:{grpc}")));
            }
        }
        places.iter().fold(text.to_owned(), |text, (inside, here)| text.replace(inside, here))
    }

    /// What would be executed in a container of this service, with the environment of that and no other.
    fn command(&self, instance: &str, words: &[String]) -> Command {
        let words: Vec<String> = words.iter().map(|word| self.substitute(instance, word)).collect();
        assert_eq!(words[0], "tenure", "{instance} runs our program");
        let mut command = Command::new(program());
        command.args(&words[1..]).env_clear().stdin(Stdio::null()).current_dir(self.path());
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.path());
        for (name, value) in &self.service(instance).environment {
            command.env(name, self.substitute(instance, value));
        }
        command
    }

    /// Runs a service that ends by itself.
    pub(crate) fn run(&self, service: &str) {
        succeed(&mut self.command(service, &self.service(service).words()));
    }

    /// Runs `docker compose run --rm client …`.
    pub(crate) fn client(&self, arguments: &[&str]) -> String {
        let service = self.service("client");
        let words = service.entrypoint.iter().cloned().chain(arguments.iter().map(|&word| word.to_owned()));
        succeed(&mut self.command("client", &words.collect::<Vec<_>>()))
    }

    /// The program in a container of the fleet, without what the client's entry point adds.
    pub(crate) fn try_without_token(&self, arguments: &[&str]) -> Output {
        let words: Vec<String> = ["tenure"].iter().chain(arguments).map(|&word| word.to_owned()).collect();
        self.command("client", &words).output().unwrap()
    }

    /// Starts one instance of a service.
    pub(crate) fn start(&mut self, instance: &str, further: &[&str]) {
        let mut command = self.command(instance, &self.service(instance).words());
        let log = fs::File::create(self.log_path(instance)).unwrap();
        command.args(further).stdout(log.try_clone().unwrap()).stderr(log);
        self.running.insert(instance.to_owned(), command.spawn().unwrap());
    }

    fn log_path(&self, instance: &str) -> PathBuf {
        self.path().join(format!("{instance}.log"))
    }

    fn read_log(&self, instance: &str) -> String {
        fs::read_to_string(self.log_path(instance)).unwrap_or_default()
    }

    /// Asks for the health of an instance, as often as it takes.
    pub(crate) async fn wait_until_healthy(&self, instance: &str) {
        let words = self.service(instance).health_words();
        wait_for(&format!("{instance} to be healthy"), PATIENCE, async || {
            let output = match words[0].as_str() {
                "pg_isready" => self.ask_postgres(&words),
                _ => self.command(instance, &words).output().unwrap(),
            };
            if output.status.success() { Ok(()) } else { Err((output, self.read_log(instance))) }
        })
        .await;
    }

    fn ask_postgres(&self, words: &[String]) -> Output {
        let mut command = Command::new(self.postgres.binaries().program(&words[0]));
        command.args(&words[1..]).env("PGPORT", self.database_port.to_string());
        command.output().unwrap()
    }

    /// What `docker compose stop` does: the signal, the grace, and a kill, which here is a failure.
    pub(crate) async fn stop(&mut self, instance: &str) {
        let (signal, grace) = (self.service(instance).stop_signal(), self.service(instance).stop_grace());
        let mut process = self.running.remove(instance).unwrap();
        kill(Pid::from_raw(i32::try_from(process.id()).unwrap()), signal).unwrap();
        let ended = wait_for(&format!("{instance} to end after {signal}"), grace, async || {
            process.try_wait().unwrap().ok_or_else(|| self.read_log(instance))
        })
        .await;
        assert!(ended.success(), "{instance} ended with {ended}: {}", self.read_log(instance));
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        for process in self.running.values_mut() {
            // Guardians end the children of a worker that is gone.
            let _ = process.kill();
            let _ = process.wait();
        }
        self.postgres.stop(Stop::Immediate);
    }
}

/// The settings that PostgreSQL's command line gives, and the port that it is reached at.
fn read_options(description: &Description, port: u16) -> Options {
    let command = &description.services["postgres"].command;
    assert_eq!(command[0], "postgres");
    let mut options = Options { tcp_port: Some(port), ..Options::default() };
    for pair in command[1..].chunks(2) {
        assert_eq!(pair[0], "-c", "{command:?}");
        let (name, value) = pair[1].split_once('=').unwrap();
        options = options.with_setting(name, value);
    }
    options
}

fn find_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn read_files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

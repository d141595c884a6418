//! Whole fleet files, their digests, and every way in which one can be wrong.

use super::*;
use crate::{
    declaration::{Command, Stdin},
    reason::Reason,
    recovery::Policy,
};

fn read(text: &str) -> Result<FleetFile, FleetError> {
    read_fleet(text, |file| match file {
        "notes.md" => Ok("Write short notes.\n".to_owned()),
        _ => Err("no such file".to_owned()),
    })
}

fn declare(text: &str) -> Declaration {
    let file = read(text).unwrap();
    assert_eq!(file.agents.len(), 1);
    file.agents[0].declaration.clone()
}

fn refuse(text: &str) -> FleetError {
    read(text).expect_err("the file is wrong")
}

const WHOLE: &str = r#"
schema = 1
[defaults]
timeout = "15m"
idle-timeout = "10m"
env = { LANG = "C.UTF-8", MODE = "fast" }
[agents.release-notes]
command = ["notes", "--fast", ""]
stdin = "none"
instructions = "notes.md"
env = { MODE = "slow" }
secrets = ["GIT_TOKEN"]
requires = ["git", "zone=eu"]
cwd = "/srv/notes"
user = "agents"
memory = "2 GiB"
cpu = 1.5
stop-grace = "5s"
output-limit = "1 MiB"
input-limit = "64 KiB"
final-exit-codes = [65, 66]
unwind-on-failure = true
recovery = { policy = "manual", max-attempts = 5, backoff = { first = "2s", max = "1m" } }
limits = { deadline = "2h", hops = 4 }
workspace = { kind = "none" }
[policy]
recovery = { policy = "never", max-losses = 3 }
limits = { deadline = "3h" }
"#;

#[test]
fn a_whole_file_is_read_as_it_is_meant() {
    let file = read(WHOLE).unwrap();
    let agent = &file.agents[0];
    let declared = &agent.declaration;
    assert_eq!(agent.name.as_str(), "release-notes");
    assert_eq!(declared.command(), Command::Argv(vec!["notes".into(), "--fast".into(), String::new()]));
    assert_eq!(declared.stdin(), Stdin::Nothing);
    assert_eq!(declared.instructions(), Some("Write short notes.\n"));
    assert_eq!(declared.env(), [("LANG", "C.UTF-8"), ("MODE", "slow")].map(owned).into());
    assert_eq!(declared.secrets(), ["GIT_TOKEN"]);
    assert_eq!(declared.requires(), ["git", "zone=eu"]);
    assert_eq!((declared.cwd(), declared.user()), (Some("/srv/notes"), Some("agents")));
    assert_eq!((declared.memory_bytes(), declared.cpu_cores()), (Some(2 << 30), Some(1.5)));
    assert_eq!(declared.timeout().as_secs(), 900);
    assert_eq!(declared.idle_timeout().map(|limit| limit.as_secs()), Some(600));
    assert_eq!(declared.stop_grace().as_secs(), 5);
    assert_eq!((declared.output_limit_bytes(), declared.input_limit_bytes()), (1 << 20, 1 << 16));
    assert_eq!(declared.deadline(file.policy.as_ref()).as_secs(), 7_200);
    assert_eq!(declared.hops(file.policy.as_ref()), 4);
}

fn owned(pair: (&str, &str)) -> (String, String) {
    (pair.0.to_owned(), pair.1.to_owned())
}

#[test]
fn an_agents_own_recovery_goes_before_the_tenants_and_that_before_the_built_in_one() {
    let file = read(WHOLE).unwrap();
    let policy = file.agents[0].declaration.recovery_policy(file.policy.as_ref());
    assert_eq!(policy.policy, Policy::Manual);
    assert_eq!((policy.max_attempts, policy.max_losses), (5, 3));
    assert_eq!((policy.backoff_first_ms, policy.backoff_max_ms), (2_000, 60_000));
    assert_eq!(policy.final_exit_codes, [65, 66]);
    assert!(policy.unwind_on_failure);
    let plain = declare("schema = 1\n[agents.a]\ncommand = [\"a\"]\n").recovery_policy(None);
    assert_eq!((plain.policy, plain.max_attempts, plain.max_losses), (Policy::Automatic, 2, 10));
}

#[test]
fn the_digest_is_of_what_was_written_with_defaults_merged_and_nothing_filled_in() {
    let plain = declare("schema = 1\n[agents.a]\ncommand = [\"a\"]\n");
    assert_eq!(plain.document(), br#"{"command":["a"]}"#);
    let merged = declare("schema = 1\n[defaults]\ntimeout = \"15m\"\n[agents.a]\ncommand = [\"a\"]\n");
    assert_eq!(merged.document(), br#"{"command":["a"],"timeout":"15m"}"#);
    assert_eq!(merged.digest(), crate::id::Digest::of(merged.document()));
}

#[test]
fn order_of_keys_white_space_and_comments_do_not_change_the_digest() {
    let one = declare("schema = 1\n[agents.a]\ncommand = [\"a\", \"b\"]\ntimeout = \"15m\"\ncpu = 2.0\n");
    let other = declare(
        "# a comment\nschema   = 1\n[defaults]\ncpu=2.0\n\n[agents.a]\n  timeout = '15m' # here\n\
         command = [\n  \"a\",\n  \"b\",\n]\n",
    );
    assert_eq!(one.digest(), other.digest());
}

#[test]
fn every_written_difference_changes_the_digest() {
    let one = declare("schema = 1\n[agents.a]\ncommand = [\"a\"]\ntimeout = \"15m\"\n");
    let other = declare("schema = 1\n[agents.a]\ncommand = [\"a\"]\ntimeout = \"900s\"\n");
    assert_ne!(one.digest(), other.digest());
}

#[test]
fn what_a_fleet_file_declares_is_accepted_as_canonical_json() {
    let file = read(WHOLE).unwrap();
    let declaration = &file.agents[0].declaration;
    assert_eq!(Declaration::parse(declaration.document()).as_ref(), Ok(declaration));
    let policy = file.policy.unwrap();
    assert_eq!(PolicyBundle::parse(policy.document()), Ok(policy));
}

#[test]
fn an_agents_command_goes_before_a_default_script() {
    let declared = declare("schema = 1\n[defaults]\nscript = \"true\"\n[agents.a]\ncommand = [\"a\"]\n");
    assert_eq!(declared.command(), Command::Argv(vec!["a".to_owned()]));
    let declared = declare("schema = 1\n[defaults]\nscript = \"exit 3\"\n[agents.a]\n");
    assert_eq!(declared.command(), Command::Script("exit 3".to_owned()));
}

#[test]
fn a_handler_is_declared_by_its_version_and_takes_no_default_that_is_about_processes() {
    let version = |text: &str| Command::Handler(text.parse().unwrap());
    let declared = declare(
        "schema = 1\n[defaults]\nscript = \"true\"\nenv = { A = \"b\" }\ntimeout = \"1m\"\n[agents.a]\nhandler = \"2.1\"\n",
    );
    assert_eq!(declared.command(), version("2.1"));
    assert_eq!(declared.document(), br#"{"handler":"2.1","timeout":"1m"}"#);
    assert_eq!(Declaration::parse(declared.document()).as_ref(), Ok(&declared));
    let defaulted = declare("schema = 1\n[defaults]\nhandler = \"3\"\nuser = \"agents\"\n[agents.a]\n");
    assert_eq!(defaulted.command(), version("3"));
    let own = declare(
        "schema = 1\n[defaults]\nhandler = \"3\"\nuser = \"agents\"\n[agents.a]\ncommand = [\"a\"]\n",
    );
    assert_eq!((own.handler(), own.user()), (None, Some("agents")));
}

#[test]
fn every_key_about_processes_is_refused_beside_a_handler() {
    for key in schema::PROCESS_KEYS {
        let value = match *key {
            "stdin" => "\"none\"",
            "env" => "{ A = \"b\" }",
            "secrets" => "[\"TOKEN\"]",
            "cwd" => "\"/srv\"",
            "memory" | "output-limit" => "\"1 MiB\"",
            "cpu" => "1.0",
            "final-exit-codes" => "[65]",
            "workspace" => "{ kind = \"none\" }",
            "instructions" => "\"notes.md\"",
            _ => "\"1m\"",
        };
        let error = refuse(&format!("schema = 1\n[agents.a]\nhandler = \"1\"\n{key} = {value}\n"));
        let expected = format!("line 4, column 1: `agents.a.{key}`: a handler is a function in its worker");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[test]
fn wrong_files_are_refused_with_line_column_and_the_nearest_key() {
    let cases = [
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\ntimout = \"15m\"\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nrecovery = { polcy = \"never\" }\n",
        "schema = 1\n[agent.a]\ncommand = [\"a\"]\n",
        "schema = 1\n[defaults]\nstop_grace = \"1s\"\n",
        "schema = 1\n[policy]\nrecovry = {}\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nqqqq = 1\n",
        "schema = 1\n[agents.a]\ncommand = \"a\"\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\", 3]\n",
        "schema = 1\n[agents.a]\ncommand = []\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\ntimeout = 900\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\ntimeout = \"soon\"\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\ntimeout = \"0s\"\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\ntimeout = 1979-05-27\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nmemory = \"2 gigs\"\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\ninput-limit = \"65 MiB\"\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nenv = { \"A-B\" = \"x\" }\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nenv = { TENURE_JOB = \"x\" }\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nfinal-exit-codes = [0]\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nrecovery = { policy = \"automatc\" }\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nlimits = { hops = 0 }\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\ncwd = \"notes\"\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\ninstructions = \"gone.md\"\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nscript = \"true\"\n",
        "schema = 1\n[agents.a]\ntimeout = \"15m\"\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nhandler = \"1\"\n",
        "schema = 1\n[agents.a]\nhandler = \"a b\"\n",
        "schema = 1\n[agents.a]\nhandler = 1\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\nrequires = [\"tenure.handler/a=1\"]\n",
        "schema = 1\n[agents.Release_Notes]\ncommand = [\"a\"]\n",
        "schema = 1\nagents = 3\n",
        "schema = 1\n[agents]\na = 3\n",
        "schema = 2\n",
        "[agents.a]\ncommand = [\"a\"]\n",
        "schema = 1\n[agents.a]\ncommand = [\"a\"]\ncommand = [\"b\"]\n",
        "schema = 1\n[agents.a\n",
        "schema = 1\n[agents.ä]\ncommand = [\"a\"]\n",
        "schema = 1\nx = \"ä\"; y = 1\n",
    ];
    let mut answers = String::new();
    for case in cases {
        let error = refuse(case);
        assert_eq!(error.reason, Reason::InvalidFleetFile, "{case}");
        answers.push_str(&format!("{case}=> {error}\n\n"));
    }
    insta::assert_snapshot!(answers);
}

#[test]
fn what_does_not_exist_yet_is_refused_by_name() {
    let keys = [
        "workspace = { kind = \"git\" }",
        "checks = [{ name = \"tests\", command = [\"make\"] }]",
        "rungs = []",
        "repairs = 2",
        "in-memory = true",
        "turns = 24",
        "concurrency = 4",
    ];
    let mut answers = String::new();
    for key in keys {
        let error = refuse(&format!("schema = 1\n[agents.a]\ncommand = [\"a\"]\n{key}\n"));
        assert_eq!(error.reason, Reason::NotSupported, "{key}");
        answers.push_str(&format!("{key}\n=> {error}\n"));
    }
    let table = "[policy]\nroles = {}";
    let error = refuse(&format!("schema = 1\n{table}\n"));
    assert_eq!(error.reason, Reason::NotSupported, "{table}");
    answers.push_str(&format!("{table}\n=> {error}\n"));
    insta::assert_snapshot!(answers);
}

#[test]
fn routes_become_part_of_the_bundle_that_the_tenant_keeps() {
    let policy = |text: &str| read(text).unwrap().policy.unwrap();
    let routes = "schema = 1\n[routes]\nanalyst = [\"developer\"]\ndeveloper = []\n";
    let bundle = policy(routes);
    assert_eq!(bundle.document(), br#"{"routes":{"analyst":["developer"],"developer":[]}}"#);
    let beside = policy(&format!("{routes}[policy.limits]\nruns = 3\n"));
    assert_eq!(
        beside.document(),
        br#"{"limits":{"runs":3},"routes":{"analyst":["developer"],"developer":[]}}"#
    );
    let again = PolicyBundle::parse(beside.document()).unwrap();
    assert_eq!((again.routes(), again.routes().agents().len()), (bundle.routes(), 2));
    let mut answers = String::new();
    for table in [
        "routes = [\"developer\"]",
        "[routes]\nanalyst = \"developer\"",
        "[routes]\nanalyst = [7]",
        "[routes]\nAnalyst = []",
        "[routes]\nanalyst = [\"No Name\"]",
        "[policy]\nroutes = {}",
        "joins = {}",
        "joins = [7]",
        "[[joins]]\nagent = \"release\"",
        "[[joins]]\nagent = \"release\"\nfrom = []",
        "[[joins]]\nagent = \"release\"\nfrom = [\"a\"]\nmode = \"most\"",
        "[[joins]]\nagent = \"release\"\nfrom = [\"a\"]\nmod = \"all\"",
        "[[joins]]\nagent = \"release\"\nfrom = [\"a\", \"release\"]",
        "[[joins]]\nagent = \"release\"\nfrom = [\"a\"]\n[[joins]]\nagent = \"release\"\nfrom = [\"b\"]",
    ] {
        answers.push_str(&format!("{table}\n=> {}\n", refuse(&format!("schema = 1\n{table}\n"))));
    }
    insta::assert_snapshot!(answers);
}

#[test]
fn the_first_fault_in_the_file_is_the_one_that_is_named() {
    let error = refuse("schema = 1\n[agents.b]\nfirst = 1\n[agents.a]\nsecond = 1\n");
    assert_eq!((error.line, error.column), (3, 1));
}

#[test]
fn a_declaration_that_is_not_canonical_is_refused() {
    for (document, reason) in [
        (r#"{"timeout":"1s","command":["a"]}"#, Reason::InvalidDeclaration),
        (r#"{"command": ["a"]}"#, Reason::InvalidDeclaration),
        (r#"{"command":["a"],"command":["b"]}"#, Reason::InvalidDeclaration),
        (r#"{"command":["a"],"cpu":null}"#, Reason::InvalidDeclaration),
        (r#"["a"]"#, Reason::InvalidDeclaration),
        ("{", Reason::InvalidDeclaration),
        ("{}", Reason::InvalidDeclaration),
        (r#"{"command":["a"],"timout":"1s"}"#, Reason::InvalidDeclaration),
        (r#"{"command":["a"],"repairs":1}"#, Reason::NotSupported),
    ] {
        let refusal = Declaration::parse(document.as_bytes()).expect_err(document);
        assert_eq!(refusal.reason, reason, "{document}: {refusal}");
    }
}

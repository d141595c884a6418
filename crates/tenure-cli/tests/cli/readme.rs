//! The first agent of the README, as a newcomer types it: the fleet file and the commands are taken from the README itself,
//! and what it shows of the journal is held to what the journal says.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::Signal;

use crate::{dev_fleet::Home, program::end};

/// Stands for `pkill` where the README kills the worker: other fleets on this machine are not its business. The bracket
/// keeps the search from finding itself.
const PKILL: &str = r#"#!/bin/sh
[ "$*" = "-9 -f tenure worker .*--name dev-1" ] || exit 2
for process in /proc/[0-9]*; do
    if tr '\0' ' ' < "$process/cmdline" 2>/dev/null | grep -q "[t]enure worker .*FLEET/"; then
        kill -9 "${process#/proc/}" && found=yes
    fi
done
[ "${found:-}" = yes ]
"#;

/// The one fenced block of the README in this language that holds this.
fn fenced(readme: &str, language: &str, holds: &str) -> String {
    let opening = format!("```{language}\n");
    let blocks = readme.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut found: Vec<&str> = blocks.filter(|block| block.contains(holds)).collect();
    assert_eq!(found.len(), 1, "blocks of {language} that hold {holds:?}: {found:?}");
    found.remove(0).to_owned()
}

/// A directory whose `pkill` knows the worker of this fleet alone, before what PATH has, with the program.
fn make_path(home: &Home) -> String {
    let programs = home.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let pkill = programs.join("pkill");
    fs::write(&pkill, PKILL.replace("FLEET", home.path().to_str().unwrap())).unwrap();
    fs::set_permissions(&pkill, fs::Permissions::from_mode(0o755)).unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_tenure")).parent().unwrap();
    let rest = env::var_os("PATH").unwrap();
    let all = [programs, built.to_owned()].into_iter().chain(env::split_paths(&rest));
    env::join_paths(all).unwrap().into_string().unwrap()
}

/// The number, kind, epoch and run of a line of a journal, and the fields that it shows; blanks within a value are left out.
fn read_line(line: &str) -> Option<(Vec<String>, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let epoch = words.iter().position(|word| *word == "epoch")?;
    let place = |index: usize| words.get(index).map(|word| (*word).to_owned());
    let head = vec![place(0)?, place(epoch - 1)?, place(epoch + 1)?, place(epoch + 3)?];
    Some((head, words.get(epoch + 4..)?.concat()))
}

fn check_shown(shown: &str, printed: &str) {
    let printed: Vec<_> = printed.lines().filter_map(read_line).collect();
    assert!(shown.lines().count() > 5, "{shown}");
    for line in shown.lines() {
        let (head, _) = read_line(line).unwrap_or_else(|| panic!("no line of a journal: {line}"));
        let found = printed.iter().find(|(other, _)| *other == head);
        let (_, fields) = found.unwrap_or_else(|| panic!("{line} is not in {printed:#?}"));
        let words = line.split_whitespace().skip(6);
        // A result's last line end is printed, and not shown; an object may have more in it than is shown.
        for word in words.flat_map(|word| word.trim_matches(['“', '”']).split(['{', '}'])) {
            assert!(fields.contains(word), "{word} of {line} is not in {fields}");
        }
    }
}

#[test]
fn the_first_agent_of_the_readme_survives_the_kill_of_its_worker() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(repository.join("README.md")).unwrap();
    let install = fenced(&readme, "sh", "cargo install");
    let installed = install.split("--path ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    assert!(repository.join(installed).join("Cargo.toml").exists(), "{installed}");

    let home = Home::make();
    let letters: PathBuf = home.path().join("letters.txt");
    let fleet = home.start_with(|dev| {
        dev.env("HOME", home.path());
    });
    fs::write(home.path().join("letter.toml"), fenced(&readme, "toml", "[agents.letter]")).unwrap();
    let typed = fleet.command(&[]);
    let endpoint = typed.get_envs().find(|(name, _)| *name == "TENURE_ENDPOINT").and_then(|(_, value)| value);
    let mut shell = Command::new("sh");
    shell
        .args(["-eu", "-c", &fenced(&readme, "sh", "tenure apply letter.toml")])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("PATH", make_path(&home))
        .env("TENURE_ENDPOINT", endpoint.unwrap())
        .stdin(Stdio::null());
    let ended = end(shell);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(fs::read_to_string(&letters).unwrap(), "Dear Ada,\n", "{ended:?}");
    assert!(ended.stdout.ends_with("a letter to Ada\nDear Ada,\n"), "{ended:?}");
    check_shown(&fenced(&readme, "text", "job_concluded"), &ended.stdout);
    assert!(fleet.stop(Signal::INT).success());
}

//! The manifests, and the versions that are written in more than one place.
//!
//! Owns the rules that dependencies and their features are chosen once, in the root, that none is declared and not used,
//! that each crate has its row in `ARCHITECTURE.md`, and that everything builds with one version of Rust. Neighbours:
//! `purity` says which crate may know which.

use regex::Regex;

use crate::tree::{File, assert_clean, find, read_tree};

/// Named by code that is generated while building, and nowhere else.
const GENERATED: [(&str, &str); 1] = [("crates/tenure-proto/Cargo.toml", "tonic-prost")];

/// Features that only tests may switch on beside what the root says.
const TEST_FEATURES: [&str; 1] = ["test-util"];

fn parse(file: &File) -> toml::Table {
    file.text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.path))
}

/// Every dependency of a manifest: the name of its table, its own name, what is said about it.
fn list_dependencies(manifest: &toml::Table) -> Vec<(&'static str, &String, &toml::Value)> {
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let owners = targets.into_iter().flat_map(|targets| targets.values().filter_map(toml::Value::as_table));
    let owners: Vec<&toml::Table> = owners.chain([manifest]).collect();
    let mut found = Vec::new();
    for owner in owners {
        for table in tables {
            let Some(names) = owner.get(table).and_then(toml::Value::as_table) else { continue };
            found.extend(names.iter().map(|(name, said)| (table, name, said)));
        }
    }
    found
}

fn check_inheritance(manifest: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (table, name, said) in list_dependencies(&parse(manifest)) {
        let report = |what: &str| format!("{}: {name} in {table} {what}", manifest.path);
        let inherited = said.get("workspace").and_then(toml::Value::as_bool) == Some(true);
        if !inherited {
            findings.push(report("has a version of its own, and the root says which"));
        }
        let features = said.get("features").and_then(toml::Value::as_array);
        let chosen = features.into_iter().flatten().filter_map(toml::Value::as_str);
        for feature in
            chosen.filter(|feature| table != "dev-dependencies" || !TEST_FEATURES.contains(feature))
        {
            findings
                .push(report(&format!("switches {feature} on, and the root says which features there are")));
        }
    }
    findings
}

/// A dependency is named by the code that is compiled with it.
fn check_use(manifest: &File, files: &[File]) -> Vec<String> {
    let folder = manifest.path.trim_end_matches("Cargo.toml");
    let sources: Vec<&File> =
        files.iter().filter(|file| file.is_rust() && file.path.starts_with(folder)).collect();
    let table = parse(manifest);
    let unused = list_dependencies(&table).into_iter().filter(|(_, name, _)| {
        let named = Regex::new(&format!(r"\b{}(?:::|\b)", name.replace('-', "_"))).unwrap();
        let generated = GENERATED.contains(&(manifest.path.as_str(), name.as_str()));
        !generated && !sources.iter().any(|file| named.is_match(&file.text))
    });
    unused.map(|(table, name, _)| format!("{}: nothing uses {name} of {table}", manifest.path)).collect()
}

fn check_root(root: &File, manifests: &[File]) -> Vec<String> {
    let root_table = parse(root);
    let offered = root_table["workspace"]["dependencies"].as_table().unwrap();
    let tables: Vec<toml::Table> = manifests.iter().map(parse).collect();
    let taken: Vec<&String> =
        tables.iter().flat_map(|table| list_dependencies(table)).map(|(_, name, _)| name).collect();
    let unused = offered.keys().filter(|name| !taken.contains(name));
    unused.map(|name| format!("{}: no crate takes {name}", root.path)).collect()
}

fn check_rows(architecture: &File, manifests: &[File]) -> Vec<String> {
    let names = manifests.iter().map(|file| parse(file)["package"]["name"].as_str().unwrap().to_owned());
    let missing = names.filter(|name| !architecture.text.contains(&format!("\n| [`{name}`](")));
    missing.map(|name| format!("{}: {name} has no row", architecture.path)).collect()
}

/// Every place that names a version of Rust, with what it names.
fn check_rust_version(files: &[File]) -> Vec<String> {
    let places = [
        ("rust-toolchain.toml", r#"(?m)^channel = "([\d.]+)""#),
        ("deploy/docker/Dockerfile", r"(?m)^FROM rust:([\d.]+)-"),
    ];
    let named = places.map(|(path, form)| {
        let found =
            Regex::new(form).unwrap().captures(&find(files, path).text).map(|found| found[1].to_owned());
        (path, found)
    });
    let wanted = named[0].1.clone();
    let mut findings: Vec<String> = named
        .into_iter()
        .filter(|(_, found)| found.is_none() || *found != wanted)
        .map(|(path, found)| format!("{path}: names Rust {found:?}, and rust-toolchain.toml {wanted:?}"))
        .collect();
    let minimum = parse(find(files, "Cargo.toml"))["workspace"]["package"]["rust-version"].clone();
    let minimum = minimum.as_str().unwrap_or_default();
    if !wanted.is_some_and(|wanted| wanted == minimum || wanted.starts_with(&format!("{minimum}."))) {
        findings.push(format!("Cargo.toml: rust-version is {minimum}, and another one builds"));
    }
    findings
}

fn members(files: &[File]) -> Vec<File> {
    let is_member = |path: &str| path.ends_with("/Cargo.toml");
    files.iter().filter(|file| is_member(&file.path)).map(|file| File::new(&file.path, &file.text)).collect()
}

#[test]
fn dependencies_and_features_are_chosen_in_the_root() {
    let findings: Vec<String> = members(&read_tree()).iter().flat_map(check_inheritance).collect();
    assert_clean(&findings);
}

#[test]
fn every_dependency_is_used() {
    let files = read_tree();
    let manifests = members(&files);
    let mut findings: Vec<String> =
        manifests.iter().flat_map(|manifest| check_use(manifest, &files)).collect();
    findings.extend(check_root(find(&files, "Cargo.toml"), &manifests));
    assert_clean(&findings);
}

#[test]
fn every_crate_has_its_row() {
    let files = read_tree();
    assert_clean(&check_rows(find(&files, "ARCHITECTURE.md"), &members(&files)));
}

#[test]
fn one_version_of_rust_builds_everything() {
    assert_clean(&check_rust_version(&read_tree()));
}

#[test]
fn own_versions_and_features_are_found() {
    for (said, expected) in [
        ("[dependencies]\na.workspace = true\n", 0),
        ("[dependencies]\na = \"1\"\n", 1),
        ("[target.'cfg(unix)'.dependencies]\na = { version = \"1\", features = [\"b\"] }\n", 2),
        ("[dependencies]\na = { workspace = true, features = [\"test-util\"] }\n", 1),
        ("[dev-dependencies]\na = { workspace = true, features = [\"test-util\"] }\n", 0),
    ] {
        assert_eq!(check_inheritance(&File::new("crates/x/Cargo.toml", said)).len(), expected, "{said}");
    }
}

#[test]
fn unused_dependencies_are_found() {
    let manifest =
        File::new("crates/x/Cargo.toml", "[dependencies]\na-b.workspace = true\nc.workspace = true\n");
    let files =
        [File::new("crates/x/src/lib.rs", "use a_b::d;\n"), File::new("crates/y/src/lib.rs", "use c::d;\n")];
    assert_eq!(check_use(&manifest, &files), ["crates/x/Cargo.toml: nothing uses c of dependencies"]);
    let root = File::new("Cargo.toml", "[workspace.dependencies]\na-b = \"1\"\ne = \"1\"\n");
    assert_eq!(check_root(&root, &[manifest]), ["Cargo.toml: no crate takes e"]);
}

#[test]
fn missing_row_and_other_rust_are_found() {
    let manifest = File::new("crates/x/Cargo.toml", "[package]\nname = \"x\"\n");
    let with_row = File::new("ARCHITECTURE.md", "\n| [`x`](crates/x) | |\n");
    assert_eq!(check_rows(&with_row, std::slice::from_ref(&manifest)).len(), 0);
    assert_eq!(check_rows(&File::new("ARCHITECTURE.md", "`x`"), &[manifest]).len(), 1);
    let files = |image: &str, minimum: &str| {
        [
            File::new("rust-toolchain.toml", "[toolchain]\nchannel = \"1.95.0\"\n"),
            File::new("Cargo.toml", &format!("[workspace.package]\nrust-version = \"{minimum}\"\n")),
            File::new("deploy/docker/Dockerfile", &format!("FROM rust:{image}-slim\n")),
        ]
    };
    assert_eq!(check_rust_version(&files("1.95.0", "1.95")).len(), 0);
    assert_eq!(check_rust_version(&files("1.94.0", "1.95")).len(), 1);
    assert_eq!(check_rust_version(&files("1.95.0", "1.9")).len(), 1);
}

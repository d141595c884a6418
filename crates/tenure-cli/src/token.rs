//! `tenure token`: gives credentials out, lists and revokes them, in a file or in the database. A new token is printed once,
//! here; what is kept of it is its hash. It needs the file or the database itself, and asks no coordinator.

mod book;

use std::{collections::BTreeSet, time::Duration};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;
use tenure_coordinator::mint_token;
use tenure_core::{
    credential::{IssuedToken, Scope, Tenants, check_actor},
    id::TokenId,
    reason::Reason,
};

use crate::{
    context::Context,
    failure::Failure,
    relative::{format_instant, parse_span},
    table::{build_table, cell, format_table},
    token::book::BookArgs,
};

/// Give out, list and revoke credentials
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    verb: TokenVerb,
}

#[derive(Debug, Subcommand)]
enum TokenVerb {
    New(NewArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Make a token for --tenant T (several, or * for every one), and print it: it is shown once
#[derive(Debug, Args)]
struct NewArgs {
    /// Who acts with it; stands in every record.
    #[arg(long, value_name = "A")]
    actor: String,
    /// What it allows, as often as needed: submit, read, work, operate, administer.
    #[arg(long, value_name = "S", required = true, value_delimiter = ',')]
    scope: Vec<Scope>,
    /// After which it is worth nothing; otherwise it does not end by itself.
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    book: BookArgs,
}

/// List what is kept of tokens
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    book: BookArgs,
}

/// Make a token worth nothing, by its id
#[derive(Debug, Args)]
struct RevokeArgs {
    /// The 16 digits between its first and its second underscore.
    id: TokenId,
    #[command(flatten)]
    book: BookArgs,
}

pub(crate) async fn run_token(context: &Context, args: TokenArgs) -> Result<(), Failure> {
    match args.verb {
        TokenVerb::New(args) => make_token(context, args).await,
        TokenVerb::List(args) => list_tokens(context, args).await,
        TokenVerb::Revoke(args) => revoke_token(context, args).await,
    }
}

async fn make_token(context: &Context, args: NewArgs) -> Result<(), Failure> {
    let named = context.global.credential.named_tenants();
    if named.is_empty() {
        return Err(Failure::usage("a token is for a tenant: --tenant T, several of them, or --tenant '*'"));
    }
    let tenants = Tenants::from_texts(named).map_err(|error| Failure::usage(error.to_string()))?;
    check_actor(&args.actor).map_err(|error| Failure::usage(error.to_string()))?;
    let book = args.book.open().await?;
    let token = mint_token();
    let issued = IssuedToken {
        id: token.id().clone(),
        hash: token.hash(),
        tenants,
        actor: args.actor,
        scopes: BTreeSet::from_iter(args.scope),
        expires_at: None,
        revoked_at: None,
    };
    let expires_at = book.add(issued, args.expires_in).await?;
    if context.printer.json {
        let id = token.id().as_str();
        return context
            .printer
            .object(&json!({ "token": token.expose(), "id": id, "expires_at": expires_at }));
    }
    context.printer.line(token.expose())?;
    context.printer.remark("this is shown once; what is kept of it is its hash");
    Ok(())
}

async fn list_tokens(context: &Context, args: ListArgs) -> Result<(), Failure> {
    let tokens = args.book.open().await?.list().await?;
    if context.printer.json {
        let tokens: Vec<_> = tokens.iter().map(describe).collect();
        return context.printer.object(&json!({ "tokens": tokens }));
    }
    let mut table = build_table(context.printer, &["id", "actor", "tenants", "scopes", "ends"]);
    let now = Timestamp::now();
    for token in &tokens {
        let ends = match (token.revoked_at, token.expires_at) {
            (Some(revoked_at), _) => format!("revoked {}", format_instant(revoked_at, now)),
            (None, Some(expires_at)) => format_instant(expires_at, now),
            (None, None) => "never".to_owned(),
        };
        table.add_row([
            cell(token.id.as_str()),
            cell(&token.actor),
            cell(&token.tenants.to_string()),
            cell(&scope_names(token).join(",")),
            cell(&ends),
        ]);
    }
    context.printer.line(&format_table(&table))
}

async fn revoke_token(context: &Context, args: RevokeArgs) -> Result<(), Failure> {
    if !args.book.open().await?.revoke(&args.id).await? {
        let words = format!("there is no token {}", args.id);
        return Err(Failure::new(Reason::CredentialInvalid, words).or_next("tenure token list"));
    }
    if context.printer.json {
        return context.printer.object(&json!({ "revoked": args.id.as_str() }));
    }
    context.printer.line(&format!("the token {} is worth nothing from now on", args.id))
}

fn describe(token: &IssuedToken) -> serde_json::Value {
    json!({
        "id": token.id.as_str(),
        "actor": token.actor,
        "tenants": token.tenants.to_texts(),
        "scopes": scope_names(token),
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    })
}

fn scope_names(token: &IssuedToken) -> Vec<&'static str> {
    token.scopes.iter().map(|scope| scope.name()).collect()
}

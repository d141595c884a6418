//! Who the program is to a fleet: the flags and the variable that say so, read where they are first wanted. A token is never
//! an argument, where every user of the host would see it, and what cannot be read as one is never repeated.

use std::{
    env, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use clap::Args;
use tenure_client::{ClientCredential, ClientTls};
use tenure_core::{
    credential::Token,
    id::{InvalidName, Tenant},
    limits::TOKEN_FILE_MAX_BYTES,
    reason::Reason,
    refusal::Refusal,
};
use tenure_worker::{TokenSource, WorkerCredential};

use crate::failure::Failure;

/// Where a token is given that is in no file.
const TOKEN_VARIABLE: &str = "TENURE_TOKEN";

/// Who the program is.
#[derive(Debug, Clone, Args)]
pub(crate) struct CredentialArgs {
    /// A file with the token that goes with every call; otherwise the token in TENURE_TOKEN.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Every verb")]
    token_file: Option<PathBuf>,
    /// The tenant that is meant, where the token names several.
    #[arg(
        long,
        global = true,
        env = "TENURE_TENANT",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "TENANT",
        help_heading = "Every verb"
    )]
    tenant: Vec<String>,
    /// The authorities to believe where an endpoint is https; otherwise those of the web.
    #[arg(
        long,
        global = true,
        env = "TENURE_TLS_CA",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Every verb"
    )]
    tls_ca: Option<PathBuf>,
    /// A certificate to show, with its chain.
    #[arg(
        long,
        global = true,
        env = "TENURE_TLS_CLIENT_CERT",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_client_key",
        help_heading = "Every verb"
    )]
    tls_client_cert: Option<PathBuf>,
    /// The key of the certificate to show.
    #[arg(
        long,
        global = true,
        env = "TENURE_TLS_CLIENT_KEY",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_client_cert",
        help_heading = "Every verb"
    )]
    tls_client_key: Option<PathBuf>,
    /// Beyond loopback, serve or send the token in plain text, where something else encrypts.
    #[arg(
        long,
        global = true,
        env = "TENURE_ALLOW_PLAINTEXT",
        hide_env_values = true,
        help_heading = "Every verb"
    )]
    pub(crate) allow_plaintext: bool,
}

impl CredentialArgs {
    /// The variables that say who the program is: a part of a fleet of one's own on loopback is nobody.
    pub(crate) const VARIABLES: [&'static str; 6] = [
        TOKEN_VARIABLE,
        "TENURE_TENANT",
        "TENURE_TLS_CA",
        "TENURE_TLS_CLIENT_CERT",
        "TENURE_TLS_CLIENT_KEY",
        "TENURE_ALLOW_PLAINTEXT",
    ];

    /// The tenants that were named.
    pub(crate) fn named_tenants(&self) -> &[String] {
        &self.tenant
    }

    /// As a client.
    pub(crate) fn read_client(&self) -> Result<ClientCredential, Failure> {
        let token = match &self.token_file {
            Some(path) => Some(read_token(path)?),
            None => read_variable()?,
        };
        Ok(ClientCredential { token, tenant: self.read_tenant()?, tls: self.read_tls()? })
    }

    /// As a worker, which reads a token in a file again and again.
    pub(crate) fn read_worker(&self) -> Result<WorkerCredential, Failure> {
        let token = match &self.token_file {
            Some(path) => {
                read_token(path)?;
                TokenSource::File(path.clone())
            }
            None => read_variable()?.map_or(TokenSource::None, TokenSource::Given),
        };
        Ok(WorkerCredential { token, tenant: self.read_tenant()?, tls: self.read_tls()? })
    }

    fn read_tenant(&self) -> Result<Option<Tenant>, Failure> {
        match self.tenant.as_slice() {
            [] => Ok(None),
            [tenant] => {
                tenant.parse().map(Some).map_err(|error: InvalidName| Failure::usage(error.to_string()))
            }
            _ => Err(Failure::usage("one tenant is meant, and several are named")),
        }
    }

    fn read_tls(&self) -> Result<ClientTls, Failure> {
        let ca_pem = self.tls_ca.as_deref().map(read_pem).transpose()?;
        let identity_pem = match (&self.tls_client_cert, &self.tls_client_key) {
            (Some(certificate), Some(key)) => Some((read_pem(certificate)?, read_pem(key)?)),
            (_, _) => None,
        };
        Ok(ClientTls { ca_pem, identity_pem, allow_plaintext: self.allow_plaintext })
    }
}

fn read_variable() -> Result<Option<Token>, Failure> {
    let Some(text) = env::var_os(TOKEN_VARIABLE).filter(|text| !text.is_empty()) else { return Ok(None) };
    match text.to_str().and_then(|text| Token::parse(text.trim())) {
        Some(token) => Ok(Some(token)),
        None => Err(refuse_form(TOKEN_VARIABLE).into()),
    }
}

fn read_token(path: &Path) -> Result<Token, Failure> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        fs::File::open(path)?.take(TOKEN_FILE_MAX_BYTES).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error| {
        let words = format!("reading the token in {}", path.display());
        Failure::caused(Refusal::new(Reason::TokensUnreadable, words), &error)
    })?;
    Token::parse(text.trim()).ok_or_else(|| refuse_form(&path.display().to_string()).into())
}

fn refuse_form(place: &str) -> Refusal {
    Refusal::new(Reason::TokensUnreadable, format!("what is in {place} has not the form of a token"))
        .with_next("tenure token new --help")
}

fn read_pem(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| {
        let words = format!("reading {} for TLS", path.display());
        Failure::caused(Refusal::new(Reason::TlsUnusable, words), &error)
    })
}

//! Who may ask what. `scene` is a coordinator that wants credentials, `raw` calls whatever there is to call; `matrix` makes
//! every call with every credential, `streams` lets credentials end, `tenants` has workers of several tenants, `statements`
//! counts what reaches the database, `secured` speaks TLS, `nobody` has no credential.

mod raw;
mod scene;

mod matrix;
mod nobody;
mod secured;
mod statements;
mod streams;
mod tenants;
